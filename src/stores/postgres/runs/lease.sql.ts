/**
 * Rule R6 (store/rules/lease.ts) as a fragment over a set of rows: ready jobs are handed to a worker. Variables: now,
 * v_ends (the lease's end), v_fence (the lowest fence of this run of the server), p_owner, v_begun (how many jobs, from
 * the first on, start with their claim).
 */
import { stateCodes } from "../../../model/job/job-state.ts";
import { uniqueHolds } from "../../../store/rules/unique-holds.ts";
import { columnList, movedBy } from "../functions/columns.ts";
import type { Expressions } from "../functions/columns.ts";
import { sql } from "../../../store/sql.ts";

export const leasedValues = {
  state: `${stateCodes.running}`,
  rev: "rev + 1",
  fence: "greatest(fence, v_fence) + 1",
  attempt: "attempt + counts_attempt",
  owner: "p_owner",
  claimedAt: "now",
  startedAt: "begun_at",
  leaseEndsAt: "v_ends",
  timerAt: "least(v_ends, deadline_at)",
  holds: sql`CASE holds WHEN ${uniqueHolds.started} THEN ${uniqueHolds.none} ELSE holds END`,
} as const satisfies Expressions;

/** Copies the waiting rows at v_places, which are locked. begun_at: set for jobs that start with their claim. */
export const lease = sql`
      INSERT INTO @leased (
        ${columnList})
      SELECT ${movedBy("lease", leasedValues)}
      FROM (SELECT now AS begun_at, * FROM @waiting WHERE ctid = ANY (v_places[:v_begun]) UNION ALL SELECT NULL, *
          FROM @waiting WHERE ctid = ANY (v_places[v_begun + 1:])) w;`;
