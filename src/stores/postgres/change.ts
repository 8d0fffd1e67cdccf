/** Change (sql/change.ts): what operators and duties do to a job under a guard. */
import { stateCodes, stateOfCode } from "../../model/job-state.ts";
import type { Change, ChangeAnswer, OrLocked } from "../../store/operations.ts";
import { callEach } from "./call.ts";
import type { Calls } from "./call.ts";
import { packNullable, packText, unpackText } from "./text.ts";
import { nextOf } from "./unit.ts";

interface RawAnswer {
  readonly kind: OrLocked<ChangeAnswer>["kind"];
  readonly applied: number;
  readonly from: number;
  readonly state: number | null;
  readonly rev: number;
  readonly by: string;
}

export async function changeIf(calls: Calls, changes: readonly Change[]): Promise<OrLocked<ChangeAnswer>[]> {
  return (await callEach<RawAnswer>(calls, "change_one_v1", changes.map(changeOf))).map(answerOf);
}

function changeOf({ id, token, cases }: Change): object {
  return {
    id: packText(id),
    token: packNullable(token),
    cases: cases.map(({ guard, next, attempts }) => ({
      guard: { ...guard, states: guard.states.map((state) => stateCodes[state]) },
      next: nextOf(next),
      attempts: packNullable(attempts),
    })),
  };
}

function answerOf({ kind, applied, from, state, rev, by }: RawAnswer): OrLocked<ChangeAnswer> {
  switch (kind) {
    case "ok":
      return {
        kind,
        applied,
        from: stateOfCode(from),
        state: state === null ? null : stateOfCode(state),
        rev,
      };
    case "already":
    case "changed":
      return { kind, state: stateOfCode(state as number), rev };
    case "key-held":
      return { kind, by: unpackText(by) };
    case "gone":
    case "locked":
      return { kind };
  }
}
