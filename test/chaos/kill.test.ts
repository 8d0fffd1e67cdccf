/** Processes killed and frozen on one SQLite file. */
import { mkdtemp, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { nodePlatform } from "../../src/platform/node-platform.ts";
import { openSqliteStore } from "../../src/stores/sqlite/sqlite-store.ts";
import { describeKills } from "./kill-suite.ts";

describeKills({
  title: "processes on one SQLite file",
  isSerial: true,
  jobs: 1000,
  faults: 23,
  open: async () => {
    const folder = await mkdtemp(join(tmpdir(), "millrace-kill-"));
    const path = join(folder, "jobs.db");
    return {
      store: await openSqliteStore({ path, platform: nodePlatform }),
      url: `sqlite:${path}`,
      remove: () => rm(folder, { recursive: true, force: true }),
    };
  },
});
