/** The live processes and workers on all machines, from their registrations; for `doctor`. */
import { readProcesses, servingWorkers as whoServes, workersOf } from "../../engine/fleet/registration.ts";
import type { LiveProcess, LiveWorker } from "../../engine/fleet/registration.ts";
import type { Store } from "../../store/store.ts";

export { oncePerStore } from "../../engine/duties/duty-tuning.ts";
export { whoServes, workersOf };
export type { LiveProcess, LiveWorker };

export function readLiveProcesses(store: Pick<Store, "readDocs">): Promise<readonly LiveProcess[]> {
  return readProcesses(store, true);
}
