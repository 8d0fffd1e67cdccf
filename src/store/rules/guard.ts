/**
 * Rule R2: a change is applied iff its guard holds, else the refusal carries the present values. Operators and duties
 * guard by state, rev, fence or a due clock; a worker always by its lease.
 */
import { isTerminal, stateCodes, stateOfCode } from "../../model/job/job-state.ts";
import type { JobRow } from "../job-fields.ts";
import type { Clock, Guard, Settle } from "../operations.ts";
import { isFinish } from "../path-predicates.ts";
import type { LeaseRef } from "../records.ts";

/** The field of each clock. */
export const clockFields = {
  lease: "leaseEndsAt",
  attempt: "attemptEndsAt",
  deadline: "deadlineAt",
  ttl: "ttlAt",
  wake: "ttlAt",
} as const satisfies Readonly<Record<Clock, keyof JobRow>>;

export function isHeld({ states, rev, fence, rang, marks }: Guard, row: JobRow, now: number): boolean {
  const state = stateOfCode(row.state);
  if (!states.includes(state)) return false;
  if (rev !== undefined && rev !== row.rev) return false;
  if (fence !== undefined && fence !== row.fence) return false;
  if (marks !== undefined && (row.durable & marks.mask) !== marks.is) return false;
  return rang === undefined || hasRung(row, rang, now);
}

/** Whether a clock of the job is due. */
export function hasRung(row: JobRow, clock: Clock, now: number): boolean {
  const at = row[clockFields[clock]];
  if (at === null || at > now || isTerminal(stateOfCode(row.state))) return false;
  if (clock !== "ttl" && clock !== "wake") return true;
  return (clock === "wake") === (row.state === stateCodes.suspended);
}

/**
 * Whether this lease is the job's current one. Another seq under the same id is another job, whose fences began again.
 */
export function isLeased(row: Pick<JobRow, "id" | "seq" | "state" | "fence">, ref: LeaseRef): boolean {
  return (
    row.state === stateCodes.running && row.fence === ref.fence && row.seq === ref.seq && row.id === ref.id
  );
}

/** Why a settle is not applied to the job with its seq and id; null if it is. */
export function settleRefusal(row: JobRow, settle: Settle): "already" | "stale" | "cancel-asked" | null {
  if (!isLeased(row, settle)) return row.settledFence === settle.fence ? "already" : "stale";
  return row.cancelAsked === 1 && !isFinish(settle.next) ? "cancel-asked" : null;
}
