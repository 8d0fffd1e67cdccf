/**
 * Rule R6: a worker leases a ready job, with a fence that is greater than any before. Its time-to-live ends, and a key
 * that is held until the start is freed. `extend` is what the owner of a lease may change; it does not change the
 * state.
 */
import { stateCodes } from "../../model/job/job-state.ts";
import type { JobRow } from "../job-fields.ts";
import type { ClaimRequest, Extend } from "../operations.ts";
import { advance, clearedBy } from "./advance.ts";
import type { Outcome } from "./advance.ts";
import { timerAtOf } from "./timer.ts";
import type { Clocks } from "./timer.ts";
import { uniqueHolds } from "./unique-holds.ts";

/**
 * A fence is the store's epoch times this, plus a count: a fence that a store lost with its writes can never occur
 * again.
 */
export const fencesPerEpoch = 2 ** 32;

/** The owner, the length and the time of a claim. */
export interface Claiming extends Pick<ClaimRequest, "owner" | "leaseMs"> {
  /** A slot is free for it. */
  readonly starts: boolean;
  readonly epoch: number;
  readonly now: number;
}

const cleared = clearedBy("lease");

export function lease(row: JobRow, { owner, leaseMs, starts, epoch, now }: Claiming): Outcome {
  const isFreed = row.holds === uniqueHolds.started;
  const leased = advance(row, {
    ...cleared,
    state: stateCodes.running,
    fence: Math.max(row.fence, epoch * fencesPerEpoch) + 1,
    attempt: row.attempt + row.countsAttempt,
    owner,
    claimedAt: now,
    startedAt: starts ? now : null,
    leaseEndsAt: now + leaseMs,
    holds: isFreed ? uniqueHolds.none : row.holds,
  });
  return { row: leased, event: "claimed", isKept: true, key: isFreed ? "freed" : "stays" };
}

/** Never shorter than before: the handler may have requested more. */
export function extend<Row extends Clocks & Pick<JobRow, "startedAt" | "timerAt">>(
  row: Row,
  { startedAgoMs, attemptEndsInMs }: Extend,
  leaseMs: number,
  now: number,
): Row {
  const extended: Row = { ...row, leaseEndsAt: Math.max(row.leaseEndsAt ?? 0, now + leaseMs) };
  if (startedAgoMs !== undefined) extended.startedAt = now - startedAgoMs;
  if (attemptEndsInMs !== undefined)
    extended.attemptEndsAt = attemptEndsInMs === null ? null : now + attemptEndsInMs;
  extended.timerAt = timerAtOf(extended);
  return extended;
}
