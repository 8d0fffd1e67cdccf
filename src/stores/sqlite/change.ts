/**
 * Change: what operators and duties do to a job under a guard (rule R2): cancel, expire, reclaim, reschedule, edit,
 * remove, replay. One job's rules after the other: there is no plain road.
 */
import type { Change, ChangeAnswer } from "../../store/operations.ts";
import { changeByGuard } from "../../store/rules/change.ts";
import { readKept, seqOfId } from "./rows.ts";
import type { Step } from "./step.ts";
import { readHolder } from "./unique.ts";
import { writeOutcome } from "./write-outcome.ts";

export function changeIf(step: Step, changes: readonly Change[]): ChangeAnswer[] {
  const { statements, now } = step;
  return changes.map((change) => {
    const seq = seqOfId(statements, change.id);
    if (seq === null) return { kind: "gone" };
    const row = readKept(statements, seq);
    const { answer, outcome } = changeByGuard(row, change, (key) => readHolder(statements, key, now), now);
    if (outcome !== null) writeOutcome(step, row, outcome);
    return answer;
  });
}
