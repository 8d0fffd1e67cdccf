/**
 * Rule R6 (store/rules/lease.ts) as a fragment over a set of rows: a ready job is handed to a worker. Variables: now,
 * v_ends (the lease's end), v_fence (the lowest fence of this life of the server), p_owner, v_start (now, where all of
 * them have started; null, where v_last_rank and v_last_seq tell the last one that has, or v_started the seqs of those
 * that have).
 */
import { stateCodes } from "../../../../model/job-state.ts";
import { uniqueHolds } from "../../../../store/rules/unique-holds.ts";
import { columnList, movedBy } from "../../columns.ts";
import type { Expressions } from "../../columns.ts";

/** A list is looked through for each row, so only lanes have one. Either is null where it says nothing. */
export const hasStarted = (rank: string, seq: string): string =>
  `((${rank}, ${seq}) <= (v_last_rank, v_last_seq) OR ${seq} = ANY (v_started))`;

export const leasedValues = {
  state: `${stateCodes.running}`,
  rev: "rev + 1",
  fence: "greatest(fence, v_fence) + 1",
  attempt: "attempt + counts_attempt",
  owner: "p_owner",
  claimedAt: "now",
  startedAt: `CASE WHEN ${hasStarted("rank", "seq")} THEN now ELSE v_start END`,
  leaseEndsAt: "v_ends",
  timerAt: "least(v_ends, deadline_at)",
  holds: `CASE holds WHEN ${uniqueHolds.started} THEN ${uniqueHolds.none} ELSE holds END`,
} as const satisfies Expressions;

/** Copies the waiting rows at v_places, which are locked. */
export const lease = `
      INSERT INTO @leased (${columnList})
      SELECT ${movedBy("lease", leasedValues)}
      FROM @waiting WHERE ctid = ANY (v_places);`;
