/**
 * The part of rule R4 (store/rules/flow/arrive.ts) that arrive_v1 does not sum up: targets for which the order of the
 * ends matters, targets that some ends miss, and flows that have ended before their members.
 */
import { eventCodes } from "../../../model/events/event-kind.ts";
import { stateCodes, terminalStates } from "../../../model/job/job-state.ts";
import { fieldEnd, itemEnd } from "../functions/packed-values.ts";
import { waitingTimer } from "../runs/advance.sql.ts";
import { stateSql } from "../jobs/place.sql.ts";
import { groupedEvents } from "../feed/emit.sql.ts";
import { sql } from "../../../store/sql.ts";

const { scheduled, ready, blocked } = stateCodes;

/** How many of the ends that came to a flow were in each terminal state. */
const ends = terminalStates.map((state) => ({
  name: `n_${state}`,
  count: `count(*) FILTER (WHERE ended = ${stateCodes[state]})`,
}));
const newEnds = ends.map(({ name }, at) => `w[${at + 6}] + ${name}`).join(", ");

export const arriveInOrderSql = sql`
-- g_id to g_misses: the arrivals, in order. t_place to t_state: locked targets, of which only those in p_ids count.
-- events: of the jobs that were freed. deferred: ids under which deferred work is to be left, once for each arrival
-- that leaves some.
CREATE FUNCTION @arrive_in_order_v1(p_now int8, p_ids text[], g_id text[], g_ended int2[], g_meets int4[],
  g_misses int4[], t_place tid[], t_id text[], t_waits text[], t_freed text[], t_state int2[],
  OUT events text, OUT deferred text[]) LANGUAGE plpgsql AS $$
#variable_conflict use_column
DECLARE h_id text[]; h_waits text[]; v_lanes text[]; v_lane_routes int8[];
BEGIN
  -- Arrivals at one target are summed up unless their order matters. It matters if the need is met before the last of
  -- them, or if some of them miss the target. Then need and slack fall row by row: the target is freed when its need
  -- reaches 0 while its slack is not negative, and later arrivals no longer count. If a flow has ended, only its
  -- members still arrive.
  WITH target AS MATERIALIZED (
    SELECT place, id, waits, freed, state, split_part(waits, ',', 1)::int8 AS need,
      split_part(waits, ',', 2)::int8 AS slack
    FROM unnest(t_place, t_id, t_waits, t_freed, t_state) t(place, id, waits, freed, state) WHERE id = ANY (p_ids)),
  came AS (
    SELECT id, sum(meets) AS met, sum(misses) AS missed, count(*) - count(ended) AS others,
      ${ends.map(({ name, count }) => `${count} AS ${name}`).join(",\n")}
    FROM unnest(g_id, g_ended, g_meets, g_misses) g(id, ended, meets, misses) GROUP BY id),
  summed AS MATERIALIZED (
    SELECT c.*, t.place, t.waits, t.freed, t.state, t.need AS need_before, t.slack AS slack_before,
      t.need - c.met AS need, t.slack - c.missed AS slack,
      (t.need > 0 AND t.need <= c.met AND (t.need < c.met OR c.missed > 0))
        OR (t.state <> ${blocked} AND c.others > 0) AS is_ordered
    FROM came c JOIN target t ON t.id = c.id),
  step AS (
    SELECT g.id, g.o, g.meets, t.need_before - sum(g.meets) OVER s AS need,
      t.slack_before - sum(g.misses) OVER s AS slack
    FROM unnest(g_id, g_ended, g_meets, g_misses) WITH ORDINALITY g(id, ended, meets, misses, o)
      JOIN summed t ON t.id = g.id
    WHERE t.is_ordered AND (t.state = ${blocked} OR g.ended IS NOT NULL)
    WINDOW s AS (PARTITION BY g.id ORDER BY g.o ROWS UNBOUNDED PRECEDING)),
  stepped AS (
    SELECT id, min(need) AS need, min(slack) AS slack,
      min(slack) FILTER (WHERE need = 0 AND meets = 1 AND slack >= 0) AS slack_freed,
      min(o) FILTER (WHERE need = 0 AND meets = 1) AS met_at, min(o) FILTER (WHERE slack < 0) AS lost_at
    FROM step GROUP BY id),
  -- Materialized, because the planner would parse the text of a target anew for each number that is taken from it.
  counted AS MATERIALIZED (
    SELECT t.id, t.place, t.freed, t.state, t.need_before, t.slack_before,
      ${ends.map(({ name }) => `t.${name}`).join(", ")}, string_to_array(t.waits, ',')::int8[] AS w,
      coalesce(s.need, t.need) AS need, coalesce(s.slack, t.slack) AS slack,
      CASE
        WHEN t.is_ordered THEN s.slack_freed
        WHEN t.need_before > 0 AND t.need <= 0 AND t.slack >= 0 THEN t.slack END AS slack_freed,
      CASE WHEN t.is_ordered THEN s.met_at IS NOT NULL ELSE t.need_before > 0 AND t.need <= 0 END AS is_met,
      coalesce(s.met_at = s.lost_at, false) AS is_lost_with_it
    FROM summed t LEFT JOIN stepped s ON s.id = t.id WHERE NOT t.is_ordered OR s.id IS NOT NULL),
  judged AS (SELECT *, state = ${blocked} AND freed IS NOT NULL AND slack_freed IS NOT NULL AS is_freed FROM counted),
  written AS MATERIALIZED (
    SELECT id, place, state, is_freed, is_met AND w[4] = 1 AS defers, is_lost_with_it, slack_before,
      CASE WHEN is_freed THEN slack_freed ELSE slack END AS slack,
      CASE WHEN is_freed THEN string_to_array(freed, ',') END AS p,
      concat_ws(',', CASE WHEN is_freed THEN 0 ELSE need END, CASE WHEN is_freed THEN slack_freed ELSE slack END,
        w[3], w[4])
        || CASE WHEN array_length(w, 1) > 4 THEN concat_ws(',', '', w[5],
          ${newEnds})
          ELSE '' END AS waits
    FROM judged),
  due AS MATERIALIZED (
    SELECT place, waits, is_freed, p, CASE WHEN is_freed THEN
      CASE left(p[1], 1) WHEN '@' THEN 0 ELSE p_now END + substr(p[1], 2)::int8 END AS due_at
    FROM written WHERE state = ${blocked}),
  -- A target that stays blocked keeps all but its waits.
  placed AS (
    UPDATE @waiting w SET waits = c.waits, state = c.state, rev = w.rev + c.steps, rank = coalesce(c.rank, w.rank),
      due_at = coalesce(c.due_at, w.due_at), ttl_at = CASE WHEN c.is_freed THEN c.ttl_at ELSE w.ttl_at END,
      timer_at = CASE WHEN c.is_freed
        THEN ${waitingTimer("c.", "w.")} ELSE w.timer_at END
    FROM (
      SELECT place, waits, is_freed, is_freed::int4 AS steps, due_at, p[2]::int8 + p[3]::int8 * due_at AS rank,
        due_at + nullif(p[4], '')::int8 AS ttl_at,
        CASE WHEN is_freed THEN ${stateSql("due_at", "p_now")} ELSE ${blocked} END AS state
      FROM due) c
    WHERE w.ctid = ANY (t_place) AND w.ctid = c.place
    RETURNING w.id, w.route, w.rev, w.attempt, w.state, w.due_at, w.lane_key, c.is_freed),
  grouped AS MATERIALIZED (
    SELECT route, rev, attempt, state, CASE WHEN state = ${scheduled} THEN due_at END AS due_at, count(*) AS jobs,
      string_agg(id, ${fieldEnd}) AS ids, array_agg(lane_key) FILTER (WHERE lane_key IS NOT NULL) AS lanes
    FROM placed WHERE is_freed GROUP BY 1, 2, 3, 4, 5),
  moved AS (
    INSERT INTO @state_count SELECT route, ${blocked}, -sum(jobs) FROM grouped GROUP BY route
      UNION ALL SELECT route, state, sum(jobs) FROM grouped GROUP BY route, state),
  laned AS MATERIALIZED (SELECT l.lane, g.route FROM grouped g, unnest(g.lanes) l(lane) WHERE g.state = ${ready})
  SELECT array_agg(id) FILTER (WHERE state <> ${blocked}), array_agg(waits) FILTER (WHERE state <> ${blocked}),
    array_agg(id) FILTER (WHERE state = ${blocked} AND defers) || array_agg(id) FILTER (
      WHERE state = ${blocked} AND slack_before >= 0 AND slack < 0 AND NOT (defers AND is_lost_with_it)),
    (SELECT string_agg(
      ${groupedEvents(`${eventCodes.freed}`, "state", "coalesce('n' || due_at, '')")}, ${itemEnd}) FROM grouped),
    (SELECT array_agg(lane) FROM laned), (SELECT array_agg(route) FROM laned)
  INTO h_id, h_waits, deferred, events, v_lanes, v_lane_routes FROM written;
  IF v_lanes IS NOT NULL THEN PERFORM @lanes_changed_v1(v_lanes, v_lane_routes, NULL); END IF;
  IF h_id IS NOT NULL THEN
    UPDATE @history h SET waits = n.waits FROM unnest(h_id, h_waits) n(id, waits)
    WHERE h.id = ANY (h_id) AND h.id = n.id;
  END IF;
END $$;
`;
