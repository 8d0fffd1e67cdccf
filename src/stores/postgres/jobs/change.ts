/** Changes of jobs by operators and duties, under a guard (jobs/change.sql.ts). */
import { stateCodes, stateOfCode } from "../../../model/job/job-state.ts";
import type { JobState } from "../../../model/job/job-state.ts";
import { choosePath } from "../../../store/paths.ts";
import type { Change, ChangeAnswer, OrLocked } from "../../../store/operations.ts";
import { answersOfEach, callWrite, onlyRow, patiently } from "../functions/call.ts";
import type { Calls } from "../functions/call.ts";
import { postgresPaths } from "../paths.ts";
import { packNullable, packText, unpackText } from "../functions/packed-values.ts";
import { entryOf } from "../journal/packed-entry.ts";
import { nextOf } from "./packed-unit.ts";

interface RawAnswer {
  readonly kind: OrLocked<ChangeAnswer>["kind"];
  readonly applied: number;
  readonly from: number;
  readonly state: number | null;
  readonly rev: number;
  readonly by: string;
}

export async function changeIf(calls: Calls, changes: readonly Change[]): Promise<OrLocked<ChangeAnswer>[]> {
  if (changes.length === 0) return [];
  const row = await patiently(async (isCareful) => {
    const packed = changes.map((change) => ({ ...changeOf(change), isLate: isCareful }));
    const shared = isCareful ? null : sharedEnd(changes);
    return onlyRow(await callWrite(calls, "change_v1", [JSON.stringify(packed), ...(shared ?? noEnd)]));
  });
  return answersOfEach<RawAnswer>(calls, row).map(answerOf);
}

const noEnd = [null, null, null] as const;

/**
 * The parameters of change_v1 that say how all jobs end, or null if the changes may not be made as a set
 * (store/path-predicates.ts). Whether the jobs are plain is checked in their rows.
 */
function sharedEnd(changes: readonly Change[]): readonly (number | string | null)[] | null {
  const [first] = changes;
  if (first === undefined || choosePath(postgresPaths.change, changes) === "general") return null;
  const [{ guard, next, attempts }] = first.cases as [Change["cases"][number]];
  const [from] = guard.states as [JobState];
  return [stateCodes[from], JSON.stringify(nextOf(next)), packNullable(attempts)];
}

function changeOf({ id, token, cases }: Change): object {
  const keys = cases.flatMap(({ append }) => (append === undefined ? [] : [packText(append.entry.key)]));
  return {
    id: packText(id),
    token: packNullable(token),
    keys: keys.length === 0 ? undefined : keys,
    cases: cases.map(({ guard, next, attempts, append }) => ({
      guard: { ...guard, states: guard.states.map((state) => stateCodes[state]) },
      next: nextOf(next),
      attempts: packNullable(attempts),
      append: append && { ...append, entry: entryOf(append.entry) },
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
    case "repeated":
    case "full":
      return { kind, state: stateOfCode(state as number), rev };
    case "key-held":
      return { kind, by: unpackText(by) };
    case "gone":
    case "locked":
      return { kind };
  }
}
