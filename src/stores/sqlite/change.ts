/**
 * Change: what operators and duties do to a job under a guard (rule R2): cancel, expire, reclaim, reschedule, edit,
 * remove, replay. The first case whose guard holds is applied; none holding answers where the job stands. One job's
 * rules after the other: there is no plain road.
 */
import { stateOfCode } from "../../model/job-state.ts";
import type { Change, ChangeAnswer } from "../../store/operations.ts";
import { change as changeRow, isReplay } from "../../store/rules/change.ts";
import { isHeld } from "../../store/rules/guard.ts";
import { keyOfReplay } from "../../store/rules/replay.ts";
import { readKept, seqOfId } from "./rows.ts";
import type { Step } from "./step.ts";
import { readHolder } from "./unique.ts";
import { writeOutcome } from "./write-outcome.ts";

export function changeIf(step: Step, changes: readonly Change[]): ChangeAnswer[] {
  return changes.map((change) => changeOne(step, change));
}

function changeOne(step: Step, { id, token, cases }: Change): ChangeAnswer {
  const { statements, now } = step;
  const seq = seqOfId(statements, id);
  if (seq === null) return { kind: "gone" };
  const row = readKept(statements, seq);
  const from = stateOfCode(row.state);
  const applied = cases.findIndex(({ guard }) => isHeld(guard, row, now));
  const chosen = cases[applied];
  if (chosen === undefined) {
    const isRepeat = token !== undefined && token === row.changeToken;
    return { kind: isRepeat ? "already" : "changed", state: from, rev: row.rev };
  }
  const { next, attempts = null } = chosen;
  const key = isReplay(row, next) ? keyOfReplay(row) : null;
  const holder = key === null ? null : readHolder(statements, key, now);
  if (holder !== null && holder.seq !== row.seq) return { kind: "key-held", by: holder.id };
  const outcome = changeRow(token === undefined ? row : { ...row, changeToken: token }, next, attempts, now);
  writeOutcome(step, row, outcome);
  const state = next.to === "removed" ? null : stateOfCode(outcome.row.state);
  return { kind: "ok", applied, from, state, rev: outcome.row.rev };
}
