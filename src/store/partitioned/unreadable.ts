/**
 * Unreadable records over partitions, one partition after the other. A ref is the partition's number, a colon, and the
 * partition's own ref; a cursor is the last ref given.
 */
import type { UnreadableAnswer, UnreadableRecord } from "../upkeep.ts";
import { presentOnes, reach, throwFirst } from "./partition.ts";
import type { Partition, PartitionedCalls, Reached } from "./partition.ts";

export async function readUnreadable(
  calls: PartitionedCalls,
  { after, max }: { readonly after: string | null; readonly max: number },
): Promise<UnreadableAnswer> {
  const from = after === null ? null : readRef(after);
  const records: UnreadableRecord[] = [];
  const reached: Reached<UnreadableAnswer>[] = [];
  const present = presentOnes(calls.partitions);
  const visits = present.length > 0 ? present : calls.partitions;
  for (const partition of visits.filter(({ number }) => number >= (from?.number ?? 0))) {
    const own = partition.number === from?.number ? from.ref : null;
    const page = await reach(partition, {
      name: "readUnreadable",
      call: (store) => store.readUnreadable({ after: own, max: max - records.length }),
      timeout: calls.timeout.long,
    });
    reached.push(page);
    if (page.kind !== "answered") continue;
    for (const record of page.answer.records)
      records.push({ ...record, ref: `${partition.number}:${record.ref}` });
    if (records.length === max) return { records, cursor: records.at(-1)?.ref ?? null };
  }
  if (!reached.some(({ kind }) => kind === "answered")) throwFirst(reached);
  return { records, cursor: null };
}

export async function deleteUnreadable(
  { partitions }: PartitionedCalls,
  refs: readonly string[],
): Promise<number> {
  const known = refs.map(readRef).filter(({ number }) => partitions[number] !== undefined);
  const places = Map.groupBy(known, ({ number }) => number);
  const counts = await Promise.all(
    [...places].map(([number, own]) =>
      (partitions[number] as Partition).store.deleteUnreadable(own.map(({ ref }) => ref)),
    ),
  );
  return counts.reduce((sum, count) => sum + count, 0);
}

function readRef(text: string): { readonly number: number; readonly ref: string } {
  const end = text.indexOf(":");
  return { number: Number(text.slice(0, end)), ref: text.slice(end + 1) };
}
