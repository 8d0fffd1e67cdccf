/** How a duty writes what it decided: each job's change for itself, so that a bad one fails alone and is left alone for a while. */
import type { JobState } from "../../model/job-state.ts";
import type { Change } from "../../store/operations.ts";
import type { Engine } from "../engine.ts";
import type { Quarantine } from "./quarantine.ts";

export interface Applied {
  readonly applied: number;
  readonly errors: number;
  /** How many jobs ended in which way. */
  readonly outcomes: Readonly<Record<string, number>>;
}

export async function applyChanges(
  engine: Engine,
  changes: readonly Change[],
  duty: {
    readonly name: string;
    readonly quarantine: Quarantine;
    /** Told of a change that was applied. */
    readonly applied?: (id: string, state: JobState) => void;
  },
): Promise<Applied> {
  const outcomes: Record<string, number> = {};
  let applied = 0;
  let errors = 0;
  // Through the batcher: one bad change is found by halves and fails alone.
  const answers = await Promise.allSettled(changes.map((change) => engine.changes.add(change)));
  for (const [index, answer] of answers.entries()) {
    const { id } = changes[index] as Change;
    if (answer.status === "rejected") {
      errors += 1;
      duty.quarantine.failed(id, answer.reason);
      engine.log.error(`duty ${duty.name}: a change failed`, { id, error: answer.reason as unknown });
      continue;
    }
    duty.quarantine.succeeded(id);
    // Losing the race is fine: the worker settled, or another process did this first.
    const outcome = answer.value.kind === "ok" ? (answer.value.state ?? "removed") : answer.value.kind;
    outcomes[outcome] = (outcomes[outcome] ?? 0) + 1;
    if (answer.value.kind !== "ok") continue;
    applied += 1;
    if (answer.value.state !== null) duty.applied?.(id, answer.value.state);
  }
  return { applied, errors, outcomes };
}
