/** Processes killed and frozen on one Redis server. */
import { describeKills } from "./kill-suite.ts";
import { openOnRedis } from "./redis-kill-subject.ts";

describeKills({
  title: "processes on one Redis server",
  isSerial: true,
  jobs: 700,
  faults: 14,
  open: openOnRedis(1),
});
