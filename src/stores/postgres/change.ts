/** Change (sql/change.ts): what operators and duties do to a job under a guard. */
import { stateCodes, stateOfCode } from "../../model/job-state.ts";
import type { Change, ChangeAnswer } from "../../store/operations.ts";
import { emptyHints } from "../../store/hints.ts";
import { hintEvents } from "../../store/packed-events.ts";
import { callWrite, onlyRow } from "./call.ts";
import type { Calls } from "./call.ts";
import { packNullable, packText, unpackText } from "./text.ts";
import { nextOf } from "./unit.ts";

interface RawAnswer {
  readonly kind: ChangeAnswer["kind"];
  readonly applied: number;
  readonly from: number;
  readonly state: number | null;
  readonly rev: number;
  readonly by: string;
}

export async function changeIf(calls: Calls, changes: readonly Change[]): Promise<ChangeAnswer[]> {
  if (changes.length === 0) return [];
  const [now, answered, events] = onlyRow(
    await callWrite(calls, "change_v1", [JSON.stringify(changes.map(changeOf))]),
  );
  const hints = emptyHints();
  hintEvents(hints, events ?? "", Number(now));
  calls.tell(hints);
  return (JSON.parse(answered ?? "[]") as RawAnswer[]).map(answerOf);
}

function changeOf({ id, cases }: Change): object {
  return {
    id: packText(id),
    cases: cases.map(({ guard, next, attempts = null }) => ({
      guard: { ...guard, states: guard.states.map((state) => stateCodes[state]) },
      next: nextOf(next),
      attempts: packNullable(attempts),
    })),
  };
}

function answerOf({ kind, applied, from, state, rev, by }: RawAnswer): ChangeAnswer {
  switch (kind) {
    case "ok":
      return {
        kind,
        applied,
        from: stateOfCode(from),
        state: state === null ? null : stateOfCode(state),
        rev,
      };
    case "changed":
      return { kind, state: stateOfCode(state as number), rev };
    case "key-held":
      return { kind, by: unpackText(by) };
    case "gone":
      return { kind };
  }
}
