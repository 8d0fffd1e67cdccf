/**
 * What the background duties of any process leave alone after repeated failures, for operators, `doctor` and explain.
 */
import { readQuarantined as readNotices } from "../engine/duties/quarantine-notice.ts";
import type { QuarantinedItem } from "../engine/duties/quarantine-notice.ts";
import type { Store } from "../store/store.ts";

export interface Quarantined extends Omit<QuarantinedItem, "until"> {
  /** When it is tried again. */
  readonly until: Date;
}

export async function readQuarantined(store: Pick<Store, "readDocs">): Promise<readonly Quarantined[]> {
  const items = await readNotices(store);
  return items.map((item) => ({ ...item, until: new Date(item.until) }));
}
