/**
 * Everything that needs an operator, for `duties`, `doctor` and explain: items on which a duty of any process failed
 * repeatedly, and records that the store could not read.
 */
import { allUnreadable } from "../../engine/docs/all-unreadable.ts";
import { readQuarantined as readItems } from "../../engine/duties/quarantine-document.ts";
import type { QuarantinedItem } from "../../engine/duties/quarantine-document.ts";
import type { Store } from "../../store/store.ts";

/** An item that a duty quarantines for a while. */
export interface QuarantinedDutyItem extends Omit<QuarantinedItem, "until"> {
  /** When the duty tries it again. */
  readonly until: Date;
}

/** A record that could not be read; it is in no list and no count, and does not run. */
export interface UnreadableItem {
  /** The job's id, if it could be read. */
  readonly item: string | null;
  /** The store's own name for the record, for `mill.unreadable.delete`. */
  readonly ref: string;
  /** What is wrong with it. */
  readonly error: string;
  /** When the store found it unreadable. */
  readonly at: Date;
}

export async function readQuarantinedItems(
  store: Pick<Store, "readDocs">,
): Promise<readonly QuarantinedDutyItem[]> {
  const items = await readItems(store);
  return items.map((item) => ({ ...item, until: new Date(item.until) }));
}

export async function readUnreadableItems(
  store: Pick<Store, "readUnreadable">,
): Promise<readonly UnreadableItem[]> {
  const records: UnreadableItem[] = [];
  for await (const { ref, id, why, at } of allUnreadable(store))
    records.push({ item: id, ref, error: why, at: new Date(at) });
  return records;
}

/** @returns whether there were unreadable records of a job with this id. */
export async function deleteUnreadableJob(
  store: Pick<Store, "readUnreadable" | "deleteUnreadable">,
  id: string,
): Promise<boolean> {
  const refs: string[] = [];
  for await (const record of allUnreadable(store)) if (record.id === id) refs.push(record.ref);
  return refs.length > 0 && (await store.deleteUnreadable(refs)) > 0;
}
