/**
 * The cases of a change that may end a durable run (model/durable/end-run.ts), as a store takes them. Those of a plain
 * job stay as they are.
 */
import { endRun } from "../../model/durable/end-run.ts";
import type { EndedRun } from "../../model/durable/end-run.ts";
import { writeEntry } from "../../model/durable/entry-text.ts";
import type { OperatorChange } from "../../model/job/operate.ts";
import type { ChangeCase } from "../../store/operations.ts";

/** The decision of a duty about a job. */
export function endCase(run: EndedRun, strideMs: number, decided: ChangeCase): ChangeCase {
  if (run.policy.durable === null) return decided;
  const { next, marks, append } = endRun(run, decided.next, strideMs);
  return {
    ...decided,
    guard: { ...decided.guard, ...(marks === undefined ? {} : { marks }) },
    next,
    ...(append === undefined ? {} : { append: { entry: writeEntry(append) } }),
  };
}

/** @param rev the job has not moved on since it was read; absent for any. */
export function operatorCases(changes: readonly OperatorChange[], rev?: number): readonly ChangeCase[] {
  return changes.map(({ states, next, attempts = null, marks, append }) => ({
    guard: {
      states,
      ...(rev === undefined ? {} : { rev }),
      ...(marks === undefined ? {} : { marks }),
    },
    next,
    attempts,
    ...(append === undefined ? {} : { append: { entry: writeEntry(append) } }),
  }));
}
