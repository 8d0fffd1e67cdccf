/**
 * Rule R6 (store/rules/lease.ts) as a fragment over a set of rows: a ready job is handed to a worker. Variables: now,
 * v_ends (the lease's end), v_fence (the lowest fence of this life of the server), p_owner, v_begun (so many, the first
 * ones, start with their claim).
 */
import { stateCodes } from "../../../../model/job-state.ts";
import { uniqueHolds } from "../../../../store/rules/unique-holds.ts";
import { columnList, movedBy } from "../../columns.ts";
import type { Expressions } from "../../columns.ts";

export const leasedValues = {
  state: `${stateCodes.running}`,
  rev: "rev + 1",
  fence: "greatest(fence, v_fence) + 1",
  attempt: "attempt + counts_attempt",
  owner: "p_owner",
  claimedAt: "now",
  startedAt: "CASE WHEN p.o <= v_begun THEN now END",
  leaseEndsAt: "v_ends",
  timerAt: "least(v_ends, deadline_at)",
  holds: `CASE holds WHEN ${uniqueHolds.started} THEN ${uniqueHolds.none} ELSE holds END`,
} as const satisfies Expressions;

/** Copies the waiting rows at v_places, which are locked; o: their order in the claim. */
export const lease = `
      INSERT INTO @leased (${columnList})
      SELECT ${movedBy("lease", leasedValues)}
      FROM unnest(v_places) WITH ORDINALITY p(place, o) JOIN @waiting w ON w.ctid = p.place;`;
