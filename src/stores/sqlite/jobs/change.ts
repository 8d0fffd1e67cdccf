/**
 * Change: what operators and duties do to a job under a guard (rule R2): cancel, expire, reclaim, reschedule, edit,
 * delete, replay. One job's rules after the other: there is no fast path.
 */
import { storeLimits } from "../../../store/contract-limits.ts";
import type { Change, ChangeAnswer, ChangeCase } from "../../../store/operations.ts";
import { changeByGuard } from "../../../store/rules/change.ts";
import type { Lookup } from "../../../store/rules/change.ts";
import { passOnEnds, passOnSome, readById, writeChange } from "../flows/edges.ts";
import { readKept, seqOfId } from "./job-rows.ts";
import type { Step } from "../connection/transaction.ts";
import { flushTargets } from "../flows/targets.ts";
import { appendForeign, refusesKey, unreadOf } from "../journals/entries.ts";
import { beginRound, isNewRound } from "../journals/rounds.ts";
import { readHolder } from "./unique-keys.ts";

export function changeIf(step: Step, changes: readonly Change[]): ChangeAnswer[] {
  const { statements, now } = step;
  const look: Lookup = {
    holderOf: (key) => readHolder(statements, key, now),
    jobById: (id) => readById(step, id),
    hasKey: ({ seq }, key) => refusesKey(statements, seq, key),
    unreadOf: ({ seq }) => unreadOf(statements, seq),
  };
  const answers = changes.map((change): ChangeAnswer => {
    flushTargets(step);
    const seq = seqOfId(statements, change.id);
    if (seq === null) return { kind: "gone" };
    const row = readKept(statements, seq);
    const { answer, outcome } = changeByGuard(row, change, look, now);
    if (outcome === null || answer.kind !== "ok") return answer;
    const { next, append } = change.cases[answer.applied] as ChangeCase;
    if (append !== undefined) appendForeign(step, seq, append.entry);
    if (isNewRound(next)) beginRound(step, seq);
    writeChange(step, row, outcome);
    passOnEnds(step);
    if (next.to === "same" && next.passesOn !== undefined)
      passOnSome(step, outcome.row, Math.min(next.passesOn, storeLimits.edgesPerStepMax));
    return answer;
  });
  flushTargets(step);
  return answers;
}
