/** Rule R2 (store/rules/guard.ts): whether a change may be applied, and why a lease is not the current one. */
import { stateCodes } from "../../../model/job/job-state.ts";
import { columnOf } from "../../../store/job-fields.ts";
import type { JobFieldName } from "../../../store/job-fields.ts";
import type { Clock } from "../../../store/operations.ts";
import { clockFields } from "../../../store/rules/guard.ts";
import { ofAllTables } from "../functions/columns.ts";
import { sql } from "../../../store/sql.ts";

/** Of a suspended job the time to live is when it wakes. */
const ofStates: Partial<Record<Clock, string>> = {
  ttl: sql`CASE WHEN j.state <> ${stateCodes.suspended} THEN j.ttl_at END`,
  wake: sql`CASE WHEN j.state = ${stateCodes.suspended} THEN j.ttl_at END`,
};
const clocks = (Object.entries(clockFields) as [Clock, JobFieldName][]).map(
  ([clock, name]) => sql`WHEN '${clock}' THEN ${ofStates[clock] ?? `j.${columnOf(name)}`}`,
);
/** The time of the clock of this name in job j. */
export const clockSql = (clock: string): string => sql`
  CASE ${clock}
    ${clocks.join("\n")} END`;

export const guardSql = sql`
-- p_guard: {states, rev?, fence?, rang?, marks?: {mask, is}}, states as codes.
CREATE FUNCTION @is_held_v1(p_now int8, j @waiting, p_guard jsonb) RETURNS bool LANGUAGE sql IMMUTABLE AS $$
  SELECT p_guard->'states' @> to_jsonb(j.state)
    AND (p_guard->>'rev' IS NULL OR (p_guard->>'rev')::int8 = j.rev)
    AND (p_guard->>'fence' IS NULL OR (p_guard->>'fence')::int8 = j.fence)
    AND (p_guard->'marks' IS NULL
      OR (j.durable & (p_guard->'marks'->>'mask')::int8) = (p_guard->'marks'->>'is')::int8)
    AND (p_guard->>'rang' IS NULL OR (j.state < ${stateCodes.completed} AND coalesce(
      ${clockSql("p_guard->>'rang'")} <= p_now, false)))
$$;

-- Why a lease is not the current one. An id with another seq is another job, which came after this one was deleted.
CREATE FUNCTION @refusal_v1(p_id text, p_seq int8, p_fence int8) RETURNS text LANGUAGE sql STABLE AS $$
  SELECT coalesce((
    SELECT CASE WHEN k.settled_fence = p_fence AND k.seq = p_seq THEN 'already' ELSE 'stale' END FROM (
      ${ofAllTables("seq, settled_fence", "id = p_id")}) k LIMIT 1), 'gone')
$$;
`;
