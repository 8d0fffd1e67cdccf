/**
 * Clocks that this process sets itself. It knows them without a hint, so its own delayed jobs, retries and due
 * documents are served in time even while no hints come in.
 */
import type { Due } from "../../model/job/change.ts";
import type { DocPut, Effects, NewJob } from "../records.ts";
import type { PartitionCache } from "./partition-cache.ts";

function noteJobs(cache: PartitionCache, jobs: readonly NewJob[], nowMs: number): void {
  for (const { due, deadline, ttlMs } of jobs) {
    noteDue(cache, due, nowMs);
    if (deadline !== null || ttlMs !== null) cache.heardDue(0, nowMs);
  }
}

export function noteDocs(cache: PartitionCache, puts: readonly DocPut[], nowMs: number): void {
  for (const { due } of puts) if (due !== undefined && due !== null) noteDue(cache, due, nowMs);
}

export function noteEffects(cache: PartitionCache, { jobs = [], docs = [] }: Effects, nowMs: number): void {
  noteJobs(cache, jobs, nowMs);
  noteDocs(cache, docs, nowMs);
}

/** Records the clocks of settles and of the cases of a change: a due time, or when a suspended job wakes. */
export function noteChanges(
  cache: PartitionCache,
  changes: readonly { readonly next: object }[],
  nowMs: number,
): void {
  for (const { next } of changes) {
    if ("due" in next) noteDue(cache, next.due as Due, nowMs);
    if ("wake" in next && next.wake !== null) noteDue(cache, next.wake as Due, nowMs);
  }
}

/** An instant is by the store's clock, which is not known here: it counts as due, so that the partition is asked. */
function noteDue(cache: PartitionCache, due: Due, nowMs: number): void {
  if ("at" in due) cache.heardDue(0, nowMs);
  else if (due.inMs > 0) cache.heardDue(due.inMs, nowMs);
}
