/**
 * The jobs that a claim of lanes reads (claim-lanes.sql.ts): the open lanes of its routes in their order, the lanes
 * that were woken, the first jobs of each, and their gates.
 */
import { stateCodes } from "../../../model/job/job-state.ts";
import { wholeInput } from "../functions/columns.ts";
import { gatesOfJobs } from "./lane-admission.sql.ts";
import { inLines, sql } from "../../../store/sql.ts";

const { ready } = stateCodes;

const openLanes = (route: string): string => sql`
  SELECT pos, seq, ctid AS place, key, turn, queue, waits_at FROM @lane
  WHERE route = ${route} AND waits_at IS NULL AND pos >= p_floor
  ORDER BY pos, seq LIMIT v_lanes`;
const lanesFrom = (lanes: string): string => sql`
  SELECT array_agg(place), array_agg(key), array_agg(pos), array_agg(seq), array_agg(turn), array_agg(queue),
    array_agg(waits_at)
  INTO l_place, l_key, l_pos, l_seq, l_turn, l_queue, l_waits_at FROM (
    ${lanes}) l;`;

/** The lanes of one route come in their order from the index. */
export const lanesOfRoutes = sql`
  IF array_length(p_routes, 1) = 1 AND p_woken = '{}' AND v_skipped = '{}' THEN
    ${lanesFrom(openLanes("p_routes[1]"))}
  ELSE
    ${lanesFrom(sql`
      SELECT * FROM (
        SELECT l.* FROM unnest(p_routes) r(route) CROSS JOIN LATERAL (
          ${openLanes("r.route")}) l
        UNION ALL SELECT pos, seq, ctid, key, turn, queue, waits_at FROM @lane
        WHERE key = ANY (p_woken) AND route = ANY (p_routes) AND waits_at IS NOT NULL) o
      WHERE v_skipped = '{}' OR key <> ALL (v_skipped) ORDER BY pos, seq LIMIT v_lanes`)}
  END IF;`;

/**
 * The first v_certain items of the c lists are candidates in their order, except for jobs of routes that were not asked
 * for (c_go is false). The order of later items is not certain. v_deepest: the first item that is the last one read of
 * its lane. v_within: how many items come before the end of the last lane that was read, if there may be more lanes.
 * v_end: the lane whose depth has ended the look, 0 if the number of lanes did, null if everything was read.
 */
const jobsOfLanes = sql`
  WITH tops AS MATERIALIZED (SELECT queue, top FROM @lane_turn WHERE queue = ANY (l_queue)),
  found AS (
    SELECT l.lane, greatest(l.turn, t.top, 0) AS top, l.turn, j.*,
      j.route = ANY (p_routes) AND (j.timer_at IS NULL OR j.timer_at > p_now) AS is_offered
    FROM unnest(l_key, l_turn, l_queue) WITH ORDINALITY l(key, turn, queue, lane)
      LEFT JOIN tops t ON t.queue = l.queue
      CROSS JOIN LATERAL (
        SELECT ctid AS place, seq, rank, route, timer_at, lane_step, lane_gates,
          octet_length(${wholeInput("w")}) AS bytes
        FROM @waiting w WHERE lane_key = l.key AND state = ${ready} ORDER BY rank, seq LIMIT v_deep) j),
  placed AS (
    SELECT *, row_number() OVER w AS number, bool_and(is_offered) OVER w AS may_go,
      (top + sum(lane_step::float8) OVER w)::int8 AS after,
      CASE
        WHEN lane_step IS NULL THEN rank
        WHEN row_number() OVER w = 1 THEN coalesce(turn, top)
        ELSE (top + sum(lane_step::float8) OVER w)::int8 - lane_step END AS pos
    FROM found WINDOW w AS (PARTITION BY lane ORDER BY rank, seq ROWS UNBOUNDED PRECEDING))
  SELECT array_agg(place), array_agg(seq), array_agg(rank), array_agg(lane), array_agg(route), array_agg(lane_gates),
    array_agg(bytes), array_agg(pos), array_agg(after), array_agg(number = v_deep), array_agg(may_go),
    bool_and(may_go), sum(bytes), count(*), array_position(array_agg(number = v_deep AND may_go), true),
    CASE WHEN v_bound IS NOT NULL THEN count(*) FILTER (WHERE (pos, seq) < (v_bound[1], v_bound[2])) END
  INTO c_place, c_seq, c_rank, c_lane, c_route, c_gates, c_bytes, c_pos, c_after, c_more, c_go, v_all_go, v_bytes,
    v_certain, v_deepest, v_within
  FROM (SELECT * FROM placed ORDER BY pos, seq) c;
  v_end := CASE WHEN v_within <= coalesce(v_deepest, v_within) THEN 0 ELSE c_lane[v_deepest] END;
  v_certain := least(v_certain, v_deepest, v_within);`;

/**
 * The answer of lane_candidates_v1, under the names of its caller: jobs in their order, gates, and the uses of gates.
 */
const looked = [
  ...["c_place tid[]", "c_seq int8[]", "c_rank int8[]", "c_lane int4[]", "c_route int8[]", "c_gates text[]"],
  ...["c_bytes int8[]", "c_pos int8[]", "c_after int8[]", "c_more bool[]", "c_go bool[]"],
  ...["v_all_go bool", "v_bytes int8", "v_certain int4", "v_end int4"],
  ...[
    "g_key text[]",
    "g_keyed bool[]",
    "g_held int8[]",
    "g_cap int8[]",
    "g_time float8[]",
    "g_step float8[]",
  ],
  ...["g_burst float8[]", "g_tat float8[]", "g_closed int8[]", "g_shut bool[]"],
  ...["u_at int4[]", "u_gate int4[]", "u_weight int8[]", "u_cap int8[]"],
  ...["v_timed bool", "v_unknown bool", "v_all_pass bool"],
];
const names = looked.map((each) => each.slice(0, each.indexOf(" ")));

export const declareLooked = inLines(
  looked.map((each) => `${each};`),
  " ",
);

export const lookAtCandidates = sql`
  SELECT ${inLines(names.map((name) => `o.${name}`))}
  INTO ${inLines(names)}
  FROM @lane_candidates_v1(p_now, p_routes, p_scopes, p_gates, p_shut, l_key, l_turn, l_queue, v_bound, v_deep) o;`;

export const laneCandidatesSql = sql`
-- The first jobs of these lanes and what their gates let pass, both in one snapshot: the function is STABLE, so its
-- statements share the caller's snapshot. With two snapshots, a job that returned to its lane between them would be
-- missing in the first and hold nothing in the second, and the next job would overtake it.
CREATE FUNCTION @lane_candidates_v1(p_now int8, p_routes int8[], p_scopes text[], p_gates text[], p_shut text[],
  l_key text[], l_turn int8[], l_queue text[], v_bound int8[], v_deep int4,
  ${inLines(looked.map((each) => `OUT ${each}`))}) LANGUAGE plpgsql STABLE AS $$
#variable_conflict use_column
DECLARE v_deepest int4; v_within int4;
BEGIN
  ${jobsOfLanes}
  IF p_gates IS NOT NULL OR array_length(array_remove(c_gates, NULL), 1) > 0 THEN
    ${gatesOfJobs}
  END IF;
END $$;
`;
