/**
 * The usual claim of lanes (claim-lanes.ts has the whole one): each lane gives its first job at most, and all of them
 * pass their gates together, so that nothing is looked at one by one. The job behind the first is read with it, because
 * the lane shows it from now on, and because it may stand before the first of another lane: up to there the order is
 * certain.
 *
 * Whatever is not usual (a lane whose first job nobody has asked for, a gate that refuses somebody or has a clock, a
 * row that somebody holds, large inputs, fewer lanes than jobs are wanted) is left to the whole one before anything is
 * written.
 */
import { stateCodes } from "../../../model/job-state.ts";
import { wholeInput } from "../columns.ts";
import { byIndex, headOf } from "./lanes.ts";
import { hasKeyRates, isAlone, isOfKey, keyHolds, keyLimits } from "./rules/lane.ts";

const { ready } = stateCodes;

/**
 * The lists have an entry for each lane, in the order of their first jobs. v_bound: before which place the order is
 * certain, null for all of it. A lane that rests behind its job bounds nobody: its next one cannot go.
 */
const look = `
  WITH tops AS MATERIALIZED (SELECT queue, top FROM @lane_turn WHERE queue = ANY (p_queues)),
  found AS (
    SELECT CASE WHEN j.lane_step IS NULL THEN j.rank ELSE coalesce(l.turn, t.top, 0) END AS pos, j.*, l.lane_place, l.key, l.queue, s.after, coalesce(s.after, l.turn) AS turn,
      n.route AS n_route, n.seq AS n_seq, CASE WHEN n.lane_step IS NULL AND n.seq IS NOT NULL THEN n.rank ELSE coalesce(s.after, l.turn) END AS n_pos,
      l.turn IS NULL AND j.lane_step IS NULL AND ${isAlone("j.lane_gates")} AND n.lane_gates = j.lane_gates AS rests
    FROM unnest(p_places, p_lanes, p_turns, p_queues) l(lane_place, key, turn, queue) LEFT JOIN tops t ON t.queue = l.queue CROSS JOIN LATERAL (
      SELECT seq, rank, ctid AS place, lane_step, lane_gates, octet_length(${wholeInput("w")}) AS bytes, route = ANY (p_routes) AND (timer_at IS NULL OR timer_at > p_now) AS may_go
      FROM @waiting w WHERE lane_key = l.key AND state = ${ready} ORDER BY rank, seq LIMIT 1) j
    CROSS JOIN LATERAL (SELECT greatest(l.turn, t.top, 0) + j.lane_step AS after) s
    LEFT JOIN LATERAL (${headOf("l.key", " AND (rank, seq) > (j.rank, j.seq)")}) n ON true)
  SELECT bool_and(may_go), count(*), count(bytes), sum(bytes), count(lane_gates), bool_or(rests OR n_seq IS NULL AND turn IS NULL),
    least(min(ARRAY[n_pos, n_seq]) FILTER (WHERE n_seq IS NOT NULL AND rests IS NOT TRUE), p_end),
    array_agg(place), array_agg(seq), array_agg(lane_gates), array_agg(lane_place), array_agg(key), array_agg(queue), array_agg(pos), array_agg(turn), array_agg(after), array_agg(n_route), array_agg(n_pos),
    array_agg(n_seq), array_agg(coalesce(rests, false))
  INTO v_all_go, v_count, v_read, v_bytes, v_gated, v_goes, v_bound, places, seqs, gates, c_lane, c_key, c_queue, c_pos, c_turn, c_after, n_route, n_pos, n_seq, c_rests
  FROM (SELECT * FROM found ORDER BY pos, seq) c;`;

/**
 * The gates of these jobs, of which each has one, as lists: what is between the brackets of their texts. Only where
 * nothing but the tab of a gate's key is escaped; v_pass says so. Read as JSON one by one they cost three times as
 * much.
 */
const readUses = `
    v_pass := array_position(gates, NULL) IS NULL;
    IF v_pass THEN
      v_text := replace(array_to_string(gates, ''), '\\t', E'\\t');
      v_text := substr(v_text, 3, length(v_text) - 4);
      v_pass := position('\\' IN v_text) = 0 AND position('"' IN replace(v_text, '"]["', '')) = 0;
    END IF;
    IF v_pass THEN
      SELECT array_agg(split_part(e, ':', 1)::int8), array_agg(nullif(split_part(e, ':', 2), '')::int8), array_agg(substr(e, length(split_part(e, ':', 1)) + length(split_part(e, ':', 2)) + 3))
        INTO u_weight, u_cap, u_key FROM unnest(string_to_array(v_text, '"]["')) e;
      v_pass := cardinality(u_key) = v_count AND NOT EXISTS (SELECT 1 FROM @gate WHERE ${isOfKey});
    END IF;`;

/** v_pass: nothing but caps bounds these gates, and all that ask for one pass it together. */
const passTogether = (bound: string, limits: string): string => `
      WITH keys AS MATERIALIZED (SELECT key, sum(weight::float8) AS weight, min(cap) AS least_cap, count(cap) < count(*) AS by_gate FROM unnest(u_key, u_weight, u_cap) u(key, weight, cap) GROUP BY key)
      SELECT bool_and(${bound} - coalesce(p.held, 0) >= k.weight) INTO v_pass FROM keys k ${keyHolds} ${limits};`;
const passOwnCaps = passTogether("k.least_cap", "");
const passLimits = passTogether(
  "CASE WHEN m.key_step_us IS NULL THEN coalesce(least(k.least_cap, CASE WHEN k.by_gate THEN m.key_cap END), 9223372036854775807) ELSE 0 END",
  keyLimits,
);

/** Nobody holds any of these gates, and each is asked for once: what is usual where a group runs one job at a time. */
const passUnheld = `
      SELECT count(*) = v_count AND bool_and(u.fits) INTO v_pass FROM (SELECT bool_and(weight <= cap) AS fits FROM unnest(u_key, u_weight, u_cap) u(key, weight, cap) GROUP BY key) u;
      v_pass := v_pass AND NOT EXISTS (SELECT 1 FROM @permit WHERE key = ANY (u_key));`;

const write = `
  IF v_gated > 0 THEN
    INSERT INTO @permit SELECT u.key, u.seq, u.weight, u.cap IS NOT NULL FROM unnest(u_key, seqs, u_weight, u_cap) u(key, seq, weight, cap);
  ELSE
    gates := NULL;
  END IF;
  IF p_rows > 0 THEN
    IF v_goes THEN
      DELETE FROM @lane WHERE ctid = ANY (ARRAY(SELECT h.place FROM unnest(c_lane, c_turn, n_seq, c_rests) h(place, turn, seq, rests)
        WHERE h.place IS NOT NULL AND (h.rests OR h.seq IS NULL AND h.turn IS NULL)));
    END IF;
    UPDATE @lane l SET route = h.route, pos = h.pos, seq = h.seq, turn = h.turn, parked = NULL, own_cap = NULL
      FROM unnest(c_lane, n_route, n_pos, n_seq, c_turn, c_rests) h(place, route, pos, seq, turn, rests)
      WHERE l.ctid = h.place AND NOT h.rests AND (h.seq IS NOT NULL OR h.turn IS NOT NULL);
  END IF;
  IF c_after[1] IS NOT NULL THEN
    WITH tops AS (
      INSERT INTO @lane_turn AS t SELECT c.queue, max(c.pos) FROM unnest(c_queue, c_pos, c_after) c(queue, pos, after) WHERE c.after IS NOT NULL GROUP BY 1
      ON CONFLICT (queue) DO UPDATE SET top = greatest(t.top, excluded.top) RETURNING queue, top)
    DELETE FROM @lane l USING tops t WHERE l.queue = t.queue AND l.route IS NULL AND l.turn <= t.top;
  END IF;
  IF p_woken <> '{}' THEN left_woken := ARRAY(SELECT unnest(p_woken) EXCEPT SELECT unnest(c_key)); END IF;
  IF p_resting <> '{}' THEN
    SELECT array_agg(h.key) INTO v_rested FROM unnest(c_lane, c_key, n_seq, c_rests) h(place, key, seq, rests) WHERE h.place IS NULL AND (h.rests OR h.seq IS NULL);
    left_resting := CASE WHEN cardinality(v_rested) = cardinality(p_resting) THEN '{}' ELSE ARRAY(SELECT unnest(p_resting) EXCEPT SELECT unnest(v_rested)) END;
  END IF;`;

const cut = ["places", "seqs", "gates", "c_lane", "c_key", "c_queue", "c_pos", "c_turn", "c_after"]
  .concat(["n_route", "n_pos", "n_seq", "c_rests"])
  .map((list) => `${list} := ${list}[1:v_count];`)
  .join(" ");

export const claimHeadsSql = `
-- Takes the first jobs of these lanes as pick_lanes_v1 does, or nothing: then places is null. p_places to p_queues: the lanes; the first p_rows of them have a
-- row, the others have rested. p_end: the place behind the last one, where there may be more lanes; else null.
CREATE FUNCTION @pick_heads_v1(p_now int8, p_routes int8[], p_max int4, p_bytes int8, p_rows int4, p_places tid[], p_lanes text[], p_turns int8[], p_queues text[], p_end int8[], p_woken text[], p_resting text[],
  OUT again bool, OUT places tid[], OUT seqs int8[], OUT gates text[], OUT left_woken text[], OUT left_resting text[], OUT lowest int8) LANGUAGE plpgsql ${byIndex} AS $$
#variable_conflict use_column
DECLARE
  v_all_go bool; v_count int4; v_read int4; v_bytes int8; v_gated int4; v_goes bool; v_bound int8[]; v_pass bool := true;
  c_lane tid[]; c_key text[]; c_queue text[]; c_pos int8[]; c_turn int8[]; c_after int8[]; n_route int8[]; n_pos int8[]; n_seq int8[]; c_rests bool[];
  v_text text; v_rested text[]; u_key text[]; u_weight int8[]; u_cap int8[];
BEGIN
  left_woken := p_woken;
  left_resting := p_resting;${look}
  lowest := c_pos[1];
  again := v_count < p_max AND v_bound IS NOT NULL;
  v_count := least(v_count, p_max);
  WHILE v_count > 0 AND ARRAY[c_pos[v_count], seqs[v_count]] >= v_bound LOOP
    v_count := v_count - 1;
    again := true;
  END LOOP;
  IF v_count * 2 < p_max AND again OR v_count = 0 OR NOT v_all_go OR v_read < cardinality(places) OR v_bytes >= p_bytes THEN
    places := NULL;
    RETURN;
  END IF;
  IF v_count < cardinality(places) THEN ${cut} END IF;
  IF v_gated > 0 THEN${readUses}
    IF NOT v_pass THEN NULL;
    ELSIF array_position(u_cap, NULL) IS NULL AND NOT EXISTS (SELECT 1 FROM @gate WHERE ${hasKeyRates}) THEN${passUnheld}
      IF NOT v_pass THEN${passOwnCaps}
      END IF;
    ELSE${passLimits}
    END IF;
  END IF;
  IF v_pass THEN
    v_pass := v_count = (SELECT count(*) FROM (SELECT FROM @waiting WHERE ctid = ANY (places) AND state = ${ready} FOR UPDATE SKIP LOCKED) h);
  END IF;
  IF NOT v_pass THEN
    places := NULL;
    RETURN;
  END IF;${write}
END $$;
`;
