/**
 * Time passing: promotion of what is due (rule R5), and the reading of clocks that rang, for the duties that decide what follows.
 *
 * Where a clock is watched: scheduled jobs by due_at, running ones by timer_at in leased, deadlines and times-to-live of the rest in
 * the clock index. A scheduled job whose deadline comes after its due time is found among the scheduled ones.
 */
import { eventCodes } from "../../../model/event-kind.ts";
import { stateCodes } from "../../../model/job-state.ts";
import { fieldEnd, itemEnd } from "../text.ts";
import { groupedEvents } from "./job.ts";

const { scheduled, ready } = stateCodes;

const sources = [
  ["leased", "timer_at", "true"],
  ["waiting", "timer_at", "timer_at IS NOT NULL AND (state <> 1 OR timer_at < due_at)"],
  ["waiting", "due_at", "state = 1 AND timer_at = due_at"],
] as const;

const readSource = (
  s: string,
  [table, sortedBy, where]: (typeof sources)[number],
  column: string,
): string => `
    (SELECT ${sortedBy} AS timer, seq, id, fence, route, state, rev, attempt, policy, attempts, owner, cancel_asked, started_at IS NOT NULL, v_now - ${column}
      FROM ${s}.${table} WHERE ${where} AND ${sortedBy} <= v_now AND ${column} <= v_now AND (${sortedBy}, seq) > (p_timer, p_seq)
      ORDER BY ${sortedBy}, seq LIMIT p_max)`;

const readClock = (s: string, column: string): string => `
    RETURN QUERY SELECT v_now, NULL::int8, r.* FROM (${sources.map((source) => readSource(s, source, column)).join(" UNION ALL ")}) r
      ORDER BY 3, 4 LIMIT p_max;`;

export const dueSql = (s: string): string => `
CREATE FUNCTION ${s}.promote_v1(p_now int8, p_commit text, p_max int4, OUT now int8, OUT jobs int8, OUT ready int4[], OUT next_clock int8) LANGUAGE plpgsql
  SET enable_seqscan = off SET enable_bitmapscan = off SET jit = off SET plan_cache_mode = force_generic_plan AS $$
#variable_conflict use_column
DECLARE v_events text;
BEGIN
  now := ${s}.begin_v1(p_now, p_commit);
  WITH promoted AS (
    UPDATE ${s}.waiting SET state = ${ready}, rev = rev + 1, timer_at = least(deadline_at, ttl_at)
    WHERE ctid = ANY (ARRAY(SELECT ctid FROM ${s}.waiting WHERE state = ${scheduled} AND due_at <= now ORDER BY due_at, seq LIMIT p_max FOR UPDATE SKIP LOCKED))
    RETURNING route, rev, attempt, id),
  grouped AS (SELECT route, rev, attempt, count(*) AS jobs, string_agg(id, ${fieldEnd}) AS ids FROM promoted GROUP BY route, rev, attempt),
  counted AS (
    INSERT INTO ${s}.tally SELECT route, state, jobs * sign FROM (SELECT route, sum(jobs) AS jobs FROM grouped GROUP BY route) g,
      (VALUES (${scheduled}::int2, -1), (${ready}::int2, 1)) v(state, sign))
  SELECT coalesce(sum(g.jobs), 0), array_agg(DISTINCT g.route), string_agg(${groupedEvents(`${eventCodes.promoted}`, `${ready}`, "''")}, ${itemEnd})
    INTO jobs, ready, v_events FROM grouped g;
  PERFORM ${s}.tell_v1(now, v_events, false);
  next_clock := ${s}.next_clock_v1();
END $$;

-- Jobs whose clock has rung, in order of (timer, seq) behind (p_timer, p_seq). The last row has no job, but the next clock.
CREATE FUNCTION ${s}.read_due_v1(p_now int8, p_clock text, p_timer int8, p_seq int8, p_max int4)
  RETURNS TABLE (now int8, next_clock int8, timer int8, seq int8, id text, fence int8, route int4, state int2, rev int4, attempt int4, policy text,
    attempts text, owner text, cancel_asked bool, started bool, late int8) LANGUAGE plpgsql
  SET enable_seqscan = off SET enable_bitmapscan = off SET jit = off SET plan_cache_mode = force_generic_plan AS $$
#variable_conflict use_column
DECLARE v_now int8 := ${s}.begin_v1(p_now, NULL);
BEGIN
  IF p_clock = 'lease' THEN${readClock(s, "lease_ends_at")}
  ELSIF p_clock = 'attempt' THEN${readClock(s, "attempt_ends_at")}
  ELSIF p_clock = 'deadline' THEN${readClock(s, "deadline_at")}
  ELSE${readClock(s, "ttl_at")}
  END IF;
  RETURN QUERY SELECT v_now, ${s}.next_clock_v1(), NULL::int8, NULL::int8, NULL::text, NULL::int8, NULL::int4, NULL::int2, NULL::int4, NULL::int4, NULL::text,
    NULL::text, NULL::text, NULL::bool, NULL::bool, NULL::int8;
END $$;
`;
