/**
 * What a claim of lanes looks at (claim-lanes.ts): the open lanes of its routes in their order, those that were woken,
 * and the first jobs of each.
 */
import { stateCodes } from "../../../model/job-state.ts";
import { wholeInput } from "../columns.ts";

const { ready } = stateCodes;

const openLanes = (route: string): string =>
  `SELECT pos, seq, ctid AS place, key, turn, queue, parked FROM @lane WHERE route = ${route} AND parked IS NULL AND pos >= p_floor ORDER BY pos, seq LIMIT v_lanes`;
const lanesFrom = (lanes: string): string =>
  `SELECT array_agg(place), array_agg(key), array_agg(pos), array_agg(seq), array_agg(turn), array_agg(queue), array_agg(parked) INTO l_place, l_key, l_pos, l_seq, l_turn, l_queue, l_parked FROM (${lanes}) l;`;

/** Those of one route come in their order from the index. */
export const lanesOfRoutes = `
      IF array_length(p_routes, 1) = 1 AND p_woken = '{}' AND v_skipped = '{}' THEN
        ${lanesFrom(openLanes("p_routes[1]"))}
      ELSE
        ${lanesFrom(`
        SELECT * FROM (
          SELECT l.* FROM unnest(p_routes) r(route) CROSS JOIN LATERAL (${openLanes("r.route")}) l
          UNION ALL SELECT pos, seq, ctid, key, turn, queue, parked FROM @lane WHERE key = ANY (p_woken) AND route = ANY (p_routes) AND parked IS NOT NULL) o
        WHERE v_skipped = '{}' OR key <> ALL (v_skipped) ORDER BY pos, seq LIMIT v_lanes`)}
      END IF;`;

/**
 * The first v_certain of the c lists are candidates in their order, but for those that nobody has asked for (c_go);
 * those behind are known, not certain. v_deepest: the first that is the last one seen of its lane; v_within: how many
 * stand before the end of the last lane that was seen, where there may be more lanes. v_end: the lane whose depth has
 * ended the look, 0 where the number of lanes did, null where all was seen.
 */
export const jobsOfLanes = `
      WITH tops AS MATERIALIZED (SELECT queue, top FROM @lane_turn WHERE queue = ANY (l_queue)),
      found AS (
        SELECT l.lane, greatest(l.turn, t.top, 0) AS top, l.turn, j.*, j.route = ANY (p_routes) AND (j.timer_at IS NULL OR j.timer_at > p_now) AS is_offered
        FROM unnest(l_key, l_turn, l_queue) WITH ORDINALITY l(key, turn, queue, lane) LEFT JOIN tops t ON t.queue = l.queue CROSS JOIN LATERAL (
          SELECT ctid AS place, seq, rank, route, timer_at, lane_step, lane_gates, octet_length(${wholeInput("w")}) AS bytes
          FROM @waiting w WHERE lane_key = l.key AND state = ${ready} ORDER BY rank, seq LIMIT v_deep) j),
      placed AS (
        SELECT *, row_number() OVER w AS number, bool_and(is_offered) OVER w AS may_go, (top + sum(lane_step::float8) OVER w)::int8 AS after,
          CASE WHEN lane_step IS NULL THEN rank WHEN row_number() OVER w = 1 THEN coalesce(turn, top) ELSE (top + sum(lane_step::float8) OVER w)::int8 - lane_step END AS pos
        FROM found WINDOW w AS (PARTITION BY lane ORDER BY rank, seq ROWS UNBOUNDED PRECEDING))
      SELECT array_agg(place), array_agg(seq), array_agg(rank), array_agg(lane), array_agg(route), array_agg(lane_gates), array_agg(bytes), array_agg(pos), array_agg(after),
        array_agg(number = v_deep), array_agg(may_go), bool_and(may_go), sum(bytes), count(*), array_position(array_agg(number = v_deep AND may_go), true),
        CASE WHEN v_bound IS NOT NULL THEN count(*) FILTER (WHERE (pos, seq) < (v_bound[1], v_bound[2])) END
      INTO c_place, c_seq, c_rank, c_lane, c_route, c_gates, c_bytes, c_pos, c_after, c_more, c_go, v_all_go, v_bytes, v_certain, v_deepest, v_within
        FROM (SELECT * FROM placed ORDER BY pos, seq) c;
      v_end := CASE WHEN v_within <= coalesce(v_deepest, v_within) THEN 0 ELSE c_lane[v_deepest] END;
      v_certain := least(v_certain, v_deepest, v_within);`;
