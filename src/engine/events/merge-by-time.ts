/**
 * Merges records of several partitions into one list by time. The records of one partition keep the order of their
 * numbers: if two calls overlapped, their times may go back a little.
 */
import type { PartitionRecord } from "./feed-pages.ts";

/** The list whose next record is the earliest; null if all are used up. */
export function earliest<
  List extends { readonly records: readonly PartitionRecord[]; readonly next: number },
>(lists: readonly List[]): List | null {
  let first: List | null = null;
  let firstAt = Number.POSITIVE_INFINITY;
  for (const list of lists) {
    const record = list.records[list.next];
    if (record !== undefined && record.at < firstAt) [first, firstAt] = [list, record.at];
  }
  return first;
}

export function mergeByTime(given: readonly (readonly PartitionRecord[])[]): readonly PartitionRecord[] {
  if (given.length === 1) return given[0] as readonly PartitionRecord[];
  const lists = given.map((records) => ({ records, next: 0 }));
  const merged: PartitionRecord[] = [];
  for (let list = earliest(lists); list !== null; list = earliest(lists)) {
    merged.push(list.records[list.next] as PartitionRecord);
    list.next += 1;
  }
  return merged;
}
