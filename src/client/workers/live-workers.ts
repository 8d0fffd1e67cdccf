/** The live processes and workers on all machines, from their registrations; for `doctor`. */
import { readVersions } from "../../engine/durable/read-run.ts";
import {
  readProcesses,
  servingWorkers as whoServes,
  workersOf,
  workersWithVersion,
} from "../../engine/fleet/registration.ts";
import type { LiveProcess, LiveWorker } from "../../engine/fleet/registration.ts";
import type { Store } from "../../store/store.ts";

export { oncePerStore } from "../../engine/duties/duty-tuning.ts";
export { readVersions, whoServes, workersOf, workersWithVersion };
export type { LiveProcess, LiveWorker };

export function readLiveProcesses(store: Pick<Store, "readDocs">): Promise<readonly LiveProcess[]> {
  return readProcesses(store, true);
}
