/**
 * Writes the decisions of a duty. The changes of different jobs are independent: a change that fails counts against its
 * job alone, which is quarantined after repeated failures (quarantine.ts).
 */
import type { JobState } from "../../model/job/job-state.ts";
import type { ByPartition } from "../../store/partitioned/by-partition.ts";
import type { Change } from "../../store/operations.ts";
import type { Needs } from "../services.ts";
import type { Quarantine } from "./quarantine.ts";

export interface Applied {
  readonly applied: number;
  /** Left out on a store of one partition. */
  readonly appliedIn?: ByPartition;
  readonly errors: number;
  /** How many jobs ended in which way. */
  readonly outcomes: Readonly<Record<string, number>>;
}

export async function applyChanges(
  needs: Needs<"log" | "ids" | "changes">,
  changes: readonly Change[],
  duty: {
    readonly name: string;
    readonly quarantine: Quarantine;
    /** Called for each job whose change was applied, with its new state. */
    readonly applied?: (id: string, state: JobState) => void;
  },
): Promise<Applied> {
  const outcomes: Record<string, number> = {};
  const { placement } = needs.ids;
  const appliedIn: Record<number, number> = {};
  let applied = 0;
  let errors = 0;
  // The batcher finds a bad change by splitting the batch in halves, so the other changes are applied.
  const answers = await Promise.allSettled(changes.map((change) => needs.changes.add(change)));
  for (const [index, answer] of answers.entries()) {
    const { id } = changes[index] as Change;
    if (answer.status === "rejected") {
      errors += 1;
      duty.quarantine.failed(id, answer.reason);
      needs.log.error(`duty ${duty.name}: a change failed`, { id, error: answer.reason as unknown });
      continue;
    }
    duty.quarantine.succeeded(id);
    // A refused guard is not a failure: the worker has settled, or another process made the same change first.
    const outcome = answer.value.kind === "ok" ? (answer.value.state ?? "deleted") : answer.value.kind;
    outcomes[outcome] = (outcomes[outcome] ?? 0) + 1;
    if (answer.value.kind !== "ok") continue;
    applied += 1;
    if (placement !== null) appliedIn[placement.ofId(id)] = (appliedIn[placement.ofId(id)] ?? 0) + 1;
    if (answer.value.state !== null) duty.applied?.(id, answer.value.state);
  }
  return { applied, ...(placement === null ? {} : { appliedIn }), errors, outcomes };
}
