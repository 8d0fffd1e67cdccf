/**
 * Gates that somebody closed, a queue that is paused or a limit that was throttled, by what operators were answered:
 * invariant 37. From the answer on nothing passes, until the time that the answer named, or until somebody may have
 * opened it.
 */
import { gatesToPass } from "../../../src/model/limits/gate.ts";
import type { GateAct } from "../history.ts";
import { spanOf } from "../ledger.ts";
import type { Ledger, Violation } from "../ledger.ts";

export function* checkClosed(ledger: Ledger): Generator<Violation> {
  const acts = new Map<string, GateAct[]>();
  for (const operation of ledger.evidence.operations) {
    if (operation.kind !== "close-gate" && operation.kind !== "open-gate") continue;
    acts.set(operation.key, [...(acts.get(operation.key) ?? []), operation]);
  }
  if (acts.size === 0) return;
  for (const { at, events } of ledger.evidence.snapshot.feed) {
    for (const { kind, id, rev, route } of events) {
      const asks = kind === "claimed" ? ledger.routes.get(route) : undefined;
      const lease = ledger.leaseOf(id, { rev, at });
      if (asks === undefined || lease === undefined || lease.isAdopted) continue;
      const span = spanOf(lease.call);
      for (const { key } of [...gatesToPass(asks), ...(ledger.lanes.get(id)?.uses ?? [])]) {
        const close = (acts.get(key) ?? []).find(
          (act) =>
            isClosedBy(act, at, span) && !(acts.get(key) ?? []).some((open) => mayEnd(open, act, at, span)),
        );
        if (close !== undefined)
          yield {
            invariant: 37,
            id,
            message: `${id} was claimed at ${at}, but ${key} was closed until ${close.until}, as ${close.actor} was told`,
          };
      }
    }
  }
}

type Span = ReturnType<typeof spanOf>;

const isClosedBy = ({ kind, seen, answeredUs, until }: GateAct, at: number, claim: Span): boolean =>
  kind === "close-gate" &&
  seen === "ok" &&
  until !== null &&
  at < until &&
  (answeredUs ?? Infinity) < claim.fromUs;

/** Whether an act may have opened the gate between a close and a claim; one that failed may have done so in part. */
function mayEnd(act: GateAct, close: GateAct, at: number, claim: Span): boolean {
  if (act === close) return false;
  const endedUs = act.seen === "ok" ? (act.answeredUs ?? Infinity) : Infinity;
  const isBetween = act.invokedUs <= claim.toUs && endedUs >= close.invokedUs;
  const opens = act.kind === "open-gate" || act.until === null || act.until <= at;
  return isBetween && opens;
}
