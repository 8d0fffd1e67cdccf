/** The workers that are alive now, on any machine, as their notices tell; for `doctor`. */
import { readNotices, servingWorkers as whoServes } from "../engine/worker-notice.ts";
import type { LiveWorker } from "../engine/worker-notice.ts";
import type { Store } from "../store/store.ts";

export { whoServes };
export type { LiveWorker };

export function readLiveWorkers(store: Pick<Store, "readDocs">): Promise<readonly LiveWorker[]> {
  return readNotices(store, true);
}
