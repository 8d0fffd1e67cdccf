/** Processes killed and frozen on Redis in four partitions. */
import { describeKills } from "./kill-suite.ts";
import { openOnRedis } from "./redis-kill-subject.ts";

describeKills({
  title: "processes on Redis in four partitions",
  isSerial: false,
  jobs: 400,
  faults: 10,
  open: openOnRedis(4),
});
