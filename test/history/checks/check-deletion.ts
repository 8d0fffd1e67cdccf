/**
 * What goes, and what an answered purge has taken with it: invariant 52. Runs are far shorter than any retention, so
 * nothing is pruned.
 */
import type { Purge } from "../history.ts";
import { isBefore } from "../ledger.ts";
import type { FencedWrite, Ledger, Violation } from "../ledger.ts";

export function* checkDeletion(ledger: Ledger): Generator<Violation> {
  yield* deletionsWereAskedFor(ledger);
  for (const operation of ledger.evidence.operations) {
    if (operation.kind !== "purge" || operation.seen !== "ok") continue;
    yield* nothingIsLeftOf(ledger, operation);
    yield* countIsTrue(ledger, operation);
  }
}

function* deletionsWereAskedFor(ledger: Ledger): Generator<Violation> {
  for (const [id, events] of ledger.timelines)
    for (const { kind, rev } of events)
      if (kind === "deleted" && !ledger.acts.explain("remove", id, rev))
        yield { invariant: 52, id, message: `${id} was deleted, but nobody had asked for it` };
}

/**
 * Of a job that moves while it is purged nobody can tell; one that had ended before, and rests where it was, must be
 * gone.
 */
function* nothingIsLeftOf(ledger: Ledger, purge: Purge): Generator<Violation> {
  for (const write of ledger.writes) {
    const record = ledger.records.get(write.id);
    if (record === undefined || !isEndOf(write, record) || !isBefore(write.call, purge)) continue;
    const isReplayed = ledger.timelines.get(write.id)?.some(({ kind }) => kind === "replayed") ?? false;
    if (isReplayed || record.queue !== purge.queue || !purge.states.includes(record.state)) continue;
    yield {
      invariant: 52,
      id: write.id,
      message: `${write.id} had ended as ${record.state} in ${purge.queue} before that was purged, and is still there`,
    };
  }
}

function isEndOf(write: FencedWrite, record: { seq: number; fence: number; state: string }): boolean {
  const { seq, fence, answer, settle } = write;
  return answer === "ok" && settle?.next.to === record.state && seq === record.seq && fence === record.fence;
}

function* countIsTrue(ledger: Ledger, purge: Purge): Generator<Violation> {
  const applied = ledger.acts.list.filter(
    ({ what, rev, call }) =>
      what === "remove" &&
      rev !== null &&
      call.actor === purge.actor &&
      call.invokedUs >= purge.invokedUs &&
      (call.answeredUs ?? Infinity) <= (purge.answeredUs ?? Infinity),
  );
  if (purge.deleted > applied.length)
    yield {
      invariant: 52,
      message: `${purge.actor} was told that ${purge.deleted} jobs were purged, but ${applied.length} were`,
    };
}
