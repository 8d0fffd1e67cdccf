/**
 * Promotes due jobs (rule R5), and reads jobs whose clock is due, for the duties that decide what follows.
 *
 * Clocks are watched by three indexes: scheduled jobs by due_at, running ones by timer_at in leased, deadlines and
 * times-to-live of the others in the clock index. A scheduled job whose deadline comes after its due time is found
 * among the scheduled ones.
 *
 * All routes with due jobs share a promotion (PromoteAnswer in store/operations.ts). If no more jobs are due than one
 * call may promote, a look along the due times has seen all routes. If many jobs of one route are due, that look would
 * see only this route. Then the routes are found by leaping from each to the next in the index by route, at about 4 us
 * per route.
 */
import { eventCodes } from "../../../model/events/event-kind.ts";
import { stateCodes } from "../../../model/job/job-state.ts";
import { dueFields } from "../../../store/job-fields.ts";
import { declareSql, selectSql, typeOf } from "../functions/columns.ts";
import { isInClock } from "../connection/schema.sql.ts";
import { fieldEnd } from "../functions/packed-values.ts";
import { byIndex } from "../functions/call.sql.ts";
import { clockSql } from "../jobs/guard.sql.ts";
import { brief, emitSet } from "../feed/emit.sql.ts";
import { inLines, sql } from "../../../store/sql.ts";

const { scheduled, ready } = stateCodes;

const sources = [
  { table: "leased", sortedBy: "timer_at", where: "true" },
  { table: "waiting", sortedBy: "timer_at", where: isInClock },
  { table: "waiting", sortedBy: "due_at", where: sql`state = ${scheduled} AND timer_at = due_at` },
] as const;

const readSource = ({ table, sortedBy, where }: (typeof sources)[number]): string => sql`
  (SELECT ${sortedBy} AS timer,
      ${selectSql("j", dueFields)}
    FROM @${table} j
    WHERE ${where}
      AND ${sortedBy} <= v_now AND (${sortedBy}, seq) > (p_timer, p_seq) AND
      ${clockSql("p_clock")} <= v_now
    ORDER BY ${sortedBy}, seq LIMIT p_max)`;

/** The first scheduled row of a route. */
const nextRoute = (where = "true"): string => sql`
  (SELECT route, due_at FROM @waiting WHERE state = ${scheduled} AND ${where}
    ORDER BY route, due_at, seq LIMIT 1)`;

export const dueSql = sql`
-- Promotes due jobs, up to p_max (rule R5). ready: their routes; more: whether more may be due.
CREATE FUNCTION @promote_v1(p_now int8, p_commit text, p_max int4,
  OUT now int8, OUT jobs int8, OUT ready int8[], OUT more bool, OUT next_clock int8) LANGUAGE plpgsql
  ${byIndex} AS $$
#variable_conflict use_column
DECLARE
  v_events text; v_routes int8[]; v_due int4; v_share int4; v_count int4 := 0; v_ids text; l_route int8[];
  l_rev int4[]; l_attempt int4[]; v_lanes text[]; v_lane_routes int8[]; v_laned int8[];
BEGIN
  now := @begin_v1(p_now, p_commit);
  SELECT count(*), array_agg(DISTINCT route) INTO v_due, v_routes FROM (
    SELECT route FROM @waiting WHERE state = ${scheduled} AND due_at <= now ORDER BY due_at, seq LIMIT p_max + 1) d;
  IF v_due > p_max THEN
    WITH RECURSIVE head AS (
      ${nextRoute()}
      UNION ALL SELECT n.* FROM head CROSS JOIN LATERAL
      ${nextRoute("route > head.route")} n)
    SELECT array_agg(route ORDER BY due_at, route) INTO v_routes FROM head WHERE due_at <= now;
  END IF;
  IF v_due > 0 THEN
    v_share := greatest(1, p_max / array_length(v_routes, 1));
    WITH promoted AS (
      UPDATE @waiting SET state = ${ready}, rev = rev + 1, timer_at = least(deadline_at, ttl_at), keeps_lane = 0
      WHERE ctid = ANY (ARRAY(
        SELECT d.ctid FROM unnest(v_routes[1:p_max]) r(route) CROSS JOIN LATERAL (
          SELECT ctid FROM @waiting w WHERE state = ${scheduled} AND w.route = r.route AND due_at <= now
          ORDER BY due_at, seq LIMIT v_share FOR UPDATE SKIP LOCKED) d))
      RETURNING route, rev, attempt, id, seq, lane_key, lane_gates)
    SELECT count(*), string_agg(id, ${fieldEnd}), array_agg(DISTINCT route),
      ${brief("route")},
      ${brief("rev")},
      ${brief("attempt")},
      array_agg(lane_key) FILTER (WHERE lane_key IS NOT NULL), array_agg(route) FILTER (WHERE lane_key IS NOT NULL),
      array_agg(seq) FILTER (WHERE lane_gates IS NOT NULL)
    INTO v_count, v_ids, ready, l_route, l_rev, l_attempt, v_lanes, v_lane_routes, v_laned FROM promoted;
    IF v_count > 0 THEN
      ${emitSet({ kind: `${eventCodes.promoted}`, from: `${scheduled}`, to: `${ready}` })}
      PERFORM @emit_v1(now, v_events, false);
    END IF;
    IF v_lanes IS NOT NULL THEN
      PERFORM @lanes_changed_v1(v_lanes, v_lane_routes, NULL);
      -- A retry that kept its lane has held the gate of its group until now.
      PERFORM @return_permits_v1(v_laned);
    END IF;
  END IF;
  jobs := v_count;
  -- If nothing could be promoted, other calls hold the due jobs, so looking again at once is useless.
  more := jobs > 0 AND EXISTS (
    SELECT 1 FROM @waiting WHERE state = ${scheduled} AND due_at <= now ORDER BY due_at, seq LIMIT 1);
  next_clock := @next_clock_v1();
END $$;

-- Jobs whose clock is due, in order of (timer, seq) after (p_timer, p_seq). The last row has no job, but the next
-- clock.
CREATE FUNCTION @read_due_v1(p_now int8, p_clock text, p_timer int8, p_seq int8, p_max int4)
  RETURNS TABLE (now int8, next_clock int8, timer int8,
    ${declareSql(dueFields)})
  LANGUAGE plpgsql
  ${byIndex} AS $$
#variable_conflict use_column
DECLARE v_now int8 := @begin_v1(p_now, NULL);
BEGIN
  RETURN QUERY SELECT v_now, NULL::int8, r.* FROM (
    ${sources.map((source) => readSource(source)).join("\nUNION ALL\n")}) r
  ORDER BY r.timer, r.seq LIMIT p_max;
  RETURN QUERY SELECT v_now, @next_clock_v1(), NULL::int8,
    ${inLines(dueFields.map((name) => `NULL::${typeOf(name)}`))};
END $$;
`;
