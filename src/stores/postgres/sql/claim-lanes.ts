/**
 * Which jobs of lanes a claim takes (rules R6, R7), in their order: the first jobs of open lanes, and behind each the
 * next of its lane. By rank that is the order of all these jobs. By turn the i-th job of a lane stands where the lane
 * will be after i - 1 turns, which is known beforehand: max(turn, T) and the steps of the jobs before it.
 *
 * Jobs are looked for in sets, as far as their order is certain: up to the last lane that was seen where there may be
 * more, and up to the last job of a lane that may have more. Then they pass their gates one by one. Where that does
 * not fill the offer, what it has brought is written (jobs that pass, lanes that wait at gates from now on), and a wider
 * look is taken at what is left: a lane that was refused is not read to its depth. A look that has brought nothing is
 * taken again over twice as many.
 *
 * Rows that somebody else holds are never waited for and never overtaken: their lanes are left out.
 */
import { stateCodes } from "../../../model/job-state.ts";
import { storeLimits } from "../../../store/limits.ts";
import { wholeInput } from "../columns.ts";
import { held } from "./rules/gate.ts";
import {
  isAlone,
  isOfKey,
  keyUses,
  laneLock,
  manyKeyHolds,
  manyKeyStates,
  opensAfter,
  timeLeft,
} from "./rules/lane.ts";
import { byIndex, headOf } from "./lanes.ts";
import { itemEnd, nullItem } from "../text.ts";

const { ready } = stateCodes;
const { lockWaitMs } = storeLimits;

/** So many lanes are looked at at once, and so often by one claim; who wants more comes again. */
const lanesMax = 4096;
const looksMax = 16;

/** v_laned: routes of the call that have lanes; null for none. */
export const declareLanes = `
  v_has_lanes bool; v_laned int8[]; v_is_laned bool := false; v_pick_lanes record; v_order int8[]; v_woken text[]; v_ajar text[]; v_resting text[]; v_lane_shut text[] := '{}'; v_look int4; v_deep int4; v_told text;`;

export const hasLanes = "EXISTS (SELECT 1 FROM @route WHERE lanes IS NOT NULL)";

/** Before the gates are locked. Offers of lanes are left out where another claim of lanes takes too long. */
export const lockLanes = `
  IF v_has_lanes THEN
    SELECT array_agg(DISTINCT number) INTO v_laned FROM @route WHERE number = ANY (p_routes) AND lanes IS NOT NULL;
    IF v_laned IS NOT NULL THEN
      IF pg_try_advisory_xact_lock(${laneLock}) OR @wait_gate_v1(${laneLock}, false) THEN
        now := greatest(now, coalesce(p_now, floor(extract(epoch FROM clock_timestamp()) * 1000)::int8));
        SELECT d.woken, d.ajar, d.resting, d.more INTO v_woken, v_ajar, v_resting, v_more FROM @drain_lanes_v1(now, false) d;
      ELSE
        v_opens := now + ${lockWaitMs};
      END IF;
    END IF;
  END IF;`;

/** Picks into v_places, in order. */
export const pickLanes = `
        SELECT * INTO v_pick_lanes FROM @pick_lanes_v1(now, ARRAY(SELECT r FROM unnest(v_offer) r WHERE r = ANY (v_laned)), v_left, v_bytes, v_gates, v_shut || v_lane_shut, v_woken, v_resting, v_floor, v_look, v_deep);
        v_look := v_look + 1;
        v_deep := v_pick_lanes.next_deep;
        v_cut := NULL;
        v_rated := false;
        v_places := v_pick_lanes.places;
        v_order := v_pick_lanes.seqs;
        v_told := array_to_string(v_pick_lanes.gates, ${itemEnd}, ${nullItem});
        v_pick := v_pick + v_pick_lanes.look_us;
        v_lowest[v_i] := coalesce(v_lowest[v_i], v_pick_lanes.lowest);
        v_lane_shut := v_pick_lanes.shut;
        v_woken := v_pick_lanes.left_woken;
        v_resting := v_pick_lanes.left_resting;
        v_opens := least(v_opens, v_pick_lanes.opens);
        CONTINUE WHEN v_pick_lanes.again AND v_places IS NULL;
        v_got := CASE WHEN v_pick_lanes.again THEN array_length(v_places, 1) ELSE v_left END;
        v_more := v_more OR v_pick_lanes.more OR (v_ajar <> '{}' AND NOT v_pick_lanes.again AND coalesce(array_length(v_places, 1), 0) < v_left);`;

/** At the end of a call. */
export const leaveLanes = `
  IF v_ajar <> '{}' OR v_woken <> '{}' OR v_resting <> '{}' THEN PERFORM @leave_lanes_v1(now, v_woken, v_ajar, v_resting); END IF;`;

const lanesOfRoutes = `
      SELECT array_agg(place), array_agg(key), array_agg(pos), array_agg(seq), array_agg(turn), array_agg(queue), array_agg(parked) INTO l_place, l_key, l_pos, l_seq, l_turn, l_queue, l_parked FROM (
        SELECT * FROM (
          SELECT l.* FROM unnest(p_routes) r(route) CROSS JOIN LATERAL (
            SELECT pos, seq, ctid AS place, key, turn, queue, parked FROM @lane WHERE route = r.route AND parked IS NULL AND pos >= p_floor ORDER BY pos, seq LIMIT v_lanes) l
          UNION ALL SELECT pos, seq, ctid, key, turn, queue, parked FROM @lane WHERE key = ANY (p_woken) AND route = ANY (p_routes) AND parked IS NOT NULL) o
        WHERE v_skipped = '{}' OR key <> ALL (v_skipped) ORDER BY pos, seq LIMIT v_lanes) l;
      v_rows := coalesce(array_length(l_key, 1), 0);
      IF p_resting <> '{}' THEN
        l_key := l_key || CASE WHEN v_skipped = '{}' THEN p_resting ELSE ARRAY(SELECT unnest(p_resting) EXCEPT SELECT unnest(v_skipped)) END;
      END IF;`;

/**
 * The first v_certain of the c lists are candidates in their order, but for those that nobody has asked for (c_go);
 * those behind are known, not certain. v_deepest: the first that is the last one seen of its lane; v_within: how many
 * stand before the end of the last lane that was seen, where there may be more lanes. v_end: the lane whose depth has
 * ended the look, 0 where the number of lanes did, null where all was seen.
 */
const jobsOfLanes = `
      WITH tops AS MATERIALIZED (SELECT queue, top FROM @lane_turn WHERE queue = ANY (l_queue)),
      found AS (
        SELECT l.lane, greatest(l.turn, t.top, 0) AS top, l.turn, j.*, j.route = ANY (p_routes) AND (j.timer_at IS NULL OR j.timer_at > p_now) AS is_offered
        FROM unnest(l_key, l_turn, l_queue) WITH ORDINALITY l(key, turn, queue, lane) LEFT JOIN tops t ON t.queue = l.queue CROSS JOIN LATERAL (
          SELECT ctid AS place, seq, rank, route, timer_at, lane_step, lane_gates, octet_length(${wholeInput("w")}) AS bytes
          FROM @waiting w WHERE lane_key = l.key AND state = ${ready} ORDER BY rank, seq LIMIT v_deep) j),
      placed AS (
        SELECT *, row_number() OVER w AS number, bool_and(is_offered) OVER w AS may_go, lead(coalesce(lane_gates, '')) OVER w = coalesce(lane_gates, '') AS is_alike, (top + sum(lane_step::float8) OVER w)::int8 AS after,
          CASE WHEN lane_step IS NULL THEN rank WHEN row_number() OVER w = 1 THEN coalesce(turn, top) ELSE (top + sum(lane_step::float8) OVER w)::int8 - lane_step END AS pos
        FROM found WINDOW w AS (PARTITION BY lane ORDER BY rank, seq ROWS UNBOUNDED PRECEDING))
      SELECT array_agg(place), array_agg(seq), array_agg(rank), array_agg(lane), array_agg(route), array_agg(lane_gates), array_agg(bytes), array_agg(pos), array_agg(after),
        array_agg(number = v_deep), array_agg(may_go), array_agg(is_alike), bool_and(may_go), sum(bytes), count(*), array_position(array_agg(number = v_deep AND may_go), true),
        CASE WHEN v_rows >= v_lanes THEN count(*) FILTER (WHERE (pos, seq) <= (l_pos[v_lanes], l_seq[v_lanes])) END
      INTO c_place, c_seq, c_rank, c_lane, c_route, c_gates, c_bytes, c_pos, c_after, c_more, c_go, c_alike, v_all_go, v_bytes, v_certain, v_deepest, v_within
        FROM (SELECT * FROM placed ORDER BY pos, seq) c;
      v_end := CASE WHEN v_within <= coalesce(v_deepest, v_within) THEN 0 ELSE c_lane[v_deepest] END;
      v_certain := least(v_certain, v_deepest, v_within);`;

/**
 * A row of u for each gate that a candidate has to pass, in their order; a row of g for each gate. v_all_pass: each gate
 * lets all that ask for it pass together, and none has tokens to be counted.
 */
const gatesOfJobs = `
      WITH uses AS MATERIALIZED (
        SELECT c.at, u.key, u.weight, u.cap, true AS is_keyed FROM unnest(c_gates[:v_certain]) WITH ORDINALITY c(gates, at) CROSS JOIN LATERAL ${keyUses("c.gates")} WHERE c.gates IS NOT NULL
        UNION ALL SELECT c.at, u.key, u.weight, NULL, false FROM unnest(c_route[:v_certain]) WITH ORDINALITY c(route, at)
          JOIN (SELECT DISTINCT route, key, weight FROM @gate_use WHERE route = ANY (p_routes) AND key = ANY (p_gates)) u ON u.route = c.route),
      asked AS MATERIALIZED (SELECT key, is_keyed, sum(weight::float8) AS weight, min(cap) AS least_cap, count(cap) < count(*) AS by_gate FROM uses GROUP BY key, is_keyed),
      keys AS MATERIALIZED (SELECT key FROM asked WHERE is_keyed),
      states AS MATERIALIZED (
        SELECT row_number() OVER () AS number, g.*, ${timeLeft("p_now")} AS by_time FROM (
          SELECT s.*, true AS is_keyed FROM (${manyKeyStates}) s
          UNION ALL SELECT g.key, ${held}, g.cap, g.step_us, g.burst_us, g.tat_us, g.closed_until, false FROM @gate g WHERE g.key = ANY (p_gates)) g)
      SELECT * INTO v_timed, g_key, g_keyed, g_held, g_cap, g_time, g_step, g_burst, g_tat, g_closed, g_shut, u_at, u_gate, u_weight, u_cap, v_all_pass FROM
        (SELECT bool_or(step_us IS NOT NULL OR closed_until IS NOT NULL), array_agg(key), array_agg(is_keyed), array_agg(held), array_agg(cap), array_agg(by_time), array_agg(step_us),
          array_agg(burst_us), array_agg(tat_us), array_agg(closed_until), array_agg(key = ANY (p_shut)) FROM (SELECT * FROM states ORDER BY number) s) s,
        (SELECT array_agg(at), array_agg(number), array_agg(weight), array_agg(use_cap) FROM (
          SELECT u.at, s.number, u.weight, u.cap AS use_cap FROM uses u JOIN states s ON s.key = u.key AND s.is_keyed = u.is_keyed ORDER BY u.at) u) u,
        (SELECT bool_and(a.key <> ALL (p_shut) AND coalesce(a.weight <= least(s.by_time, least(a.least_cap, CASE WHEN a.by_gate THEN s.cap END) - s.held), true)) AND NOT bool_or(s.step_us IS NOT NULL)
          FROM asked a JOIN states s ON s.key = a.key AND s.is_keyed = a.is_keyed) p;`;

/**
 * The same where nothing but caps can refuse: all that ask for a gate pass together, or it has to be looked at one by
 * one. v_quick: they do. Two joins and eleven lists less than above for each gate of a key.
 */
const quickGates = `
        WITH uses AS MATERIALIZED (
          SELECT c.at, u.key, u.weight, u.cap FROM unnest(c_gates[:least(v_certain, p_max)]) WITH ORDINALITY c(gates, at) CROSS JOIN LATERAL ${keyUses("c.gates")} WHERE c.gates IS NOT NULL),
        keys AS MATERIALIZED (SELECT key, sum(weight::float8) AS weight, min(cap) AS least_cap, count(cap) < count(*) AS by_gate FROM uses GROUP BY key)
        SELECT * INTO u_at, u_key, u_weight, u_cap, v_quick FROM (SELECT array_agg(at), array_agg(key), array_agg(weight), array_agg(cap) FROM uses) u,
          (SELECT bool_and(m.key_step_us IS NULL AND coalesce(k.weight <= least(k.least_cap, CASE WHEN k.by_gate THEN m.key_cap END) - coalesce(p.held, 0), true)) FROM keys k ${manyKeyHolds}) p;`;

/** Whether a use finds less of its gate than this. */
const hasLess = (use: string, than: string): string =>
  `least(g_time[u_gate[${use}]], coalesce(u_cap[${use}], g_cap[u_gate[${use}]]) - g_held[u_gate[${use}]]) < ${than}`;

/** The candidates one by one, as store/rules/admit.ts has it; at once where it is known that all of them pass. */
const admit = `
      v_taken := 0; v_got := 0; v_use := 1; v_any_shut := false; v_any_parks := false; v_takes := array_fill(false, ARRAY[v_certain]); v_chosen := '{}'; places := NULL; seqs := NULL; gates := NULL; v_over := array_fill(false, ARRAY[v_count]);
      v_last := array_fill(NULL::int4, ARRAY[v_count]); v_seen := v_last; v_from := v_last; v_to := v_last; v_parks := v_last;
      g_passed := array_fill(0::int8, ARRAY[coalesce(array_length(g_key, 1), 0)]); g_weight := g_passed;
      IF (v_quick OR g_key IS NULL OR v_all_pass) AND v_all_go AND v_bytes < p_bytes THEN
        v_taken := least(v_certain, p_max);
        v_got := v_bytes;
        FOR v_at IN 1..v_taken LOOP
          v_last[c_lane[v_at]] := v_at;
        END LOOP;
        v_seen := v_last;
        v_chosen := ARRAY(SELECT generate_series(1, v_taken));
        places := c_place[1:v_taken];
        seqs := c_seq[1:v_taken];
        IF v_quick OR g_key IS NOT NULL THEN
          gates := c_gates[1:v_taken];
          v_takes := array_fill(true, ARRAY[v_taken]);
        END IF;
      END IF;
      FOR v_at IN v_taken + 1..v_certain LOOP
        EXIT WHEN v_taken >= p_max OR v_got >= p_bytes;
        v_first := v_use;
        WHILE u_at[v_use] = v_at LOOP v_use := v_use + 1; END LOOP;
        v_lane := c_lane[v_at];
        CONTINUE WHEN v_over[v_lane] OR NOT c_go[v_at];
        v_seen[v_lane] := v_at;
        v_from[v_lane] := v_first;
        v_to[v_lane] := v_use - 1;
        v_refused := false;
        FOR v_i IN v_first..v_use - 1 LOOP
          v_refused := v_refused OR g_shut[u_gate[v_i]];
        END LOOP;
        IF NOT v_refused THEN
          FOR v_i IN v_first..v_use - 1 LOOP
            CONTINUE WHEN NOT coalesce(${hasLess("v_i", "u_weight[v_i]")}, false);
            v_refused := true;
            -- A cap of the job's own refuses nobody else.
            CONTINUE WHEN u_cap[v_i] IS NOT NULL AND NOT coalesce(g_time[u_gate[v_i]] < u_weight[v_i], false);
            v_any_shut := true;
            g_shut[u_gate[v_i]] := true;
            g_weight[u_gate[v_i]] := u_weight[v_i];
          END LOOP;
        END IF;
        IF v_refused THEN
          v_over[v_lane] := true;
          CONTINUE;
        END IF;
        FOR v_i IN v_first..v_use - 1 LOOP
          v_gate := u_gate[v_i];
          g_held[v_gate] := g_held[v_gate] + u_weight[v_i];
          g_time[v_gate] := g_time[v_gate] - u_weight[v_i];
          g_passed[v_gate] := coalesce(g_passed[v_gate], 0) + u_weight[v_i];
        END LOOP;
        v_last[v_lane] := v_at;
        v_taken := v_taken + 1;
        v_chosen[v_taken] := v_at;
        places[v_taken] := c_place[v_at];
        seqs[v_taken] := c_seq[v_at];
        gates[v_taken] := c_gates[v_at];
        v_takes[v_at] := true;
        v_got := v_got + coalesce(c_bytes[v_at], 0);
      END LOOP;`;

/**
 * The rows are taken hold of; lanes of which one is held by somebody else are left out, and the look is taken again.
 */
const hold = `
      IF v_taken > 0 THEN
        v_held := ARRAY(SELECT ctid FROM @waiting WHERE ctid = ANY (places) AND state = ${ready} FOR UPDATE SKIP LOCKED);
        IF cardinality(v_held) < v_taken THEN
          v_skipped := v_skipped || ARRAY(SELECT DISTINCT l_key[c_lane[c]] FROM unnest(v_chosen) c WHERE c_place[c] <> ALL (v_held));
          CONTINUE;
        END IF;
      END IF;`;

/**
 * A lane whose first job was refused waits at the first gate of a key that lets nobody pass; v_parks: by lane the use
 * that says so.
 */
const choosePlaces = `
      FOR v_lane IN 1..CASE WHEN true = ANY (v_over) THEN v_count ELSE 0 END LOOP
        CONTINUE WHEN NOT v_over[v_lane];
        FOR v_i IN v_from[v_lane]..v_to[v_lane] LOOP
          CONTINUE WHEN NOT g_keyed[u_gate[v_i]] OR NOT coalesce(${hasLess("v_i", "1")}, false);
          v_parks[v_lane] := v_i;
          v_any_parks := true;
          EXIT;
        END LOOP;
      END LOOP;`;

const gateRows = `unnest(g_key, g_keyed, g_step, g_burst, g_tat, g_closed, g_passed, g_weight) WITH ORDINALITY g(key, is_keyed, step_us, burst_us, tat_us, closed_until, passed, weight, number)`;
const tat =
  "CASE WHEN g.passed > 0 AND g.step_us IS NOT NULL THEN greatest(g.tat_us, p_now * 1000) + g.passed * g.step_us ELSE g.tat_us END";

/** Whether the next of a lane by rank has to wait until the one that was taken gives its gate back. */
const restsBehind = (taken: string): string =>
  `(c_alike[${taken}] AND c_after[${taken}] IS NULL AND ${isAlone(`c_gates[${taken}]`)})`;

/** The next job of a lane is known, unless all were taken that were looked at. */
const write = `
      IF v_quick THEN
        INSERT INTO @permit SELECT u.key, c_seq[u.at], u.weight, u.cap IS NOT NULL FROM unnest(u_at, u_key, u_weight, u_cap) u(at, key, weight, cap) WHERE u.at <= v_taken;
      ELSIF g_key IS NOT NULL THEN
        INSERT INTO @permit SELECT g_key[u.gate], c_seq[u.at], u.weight, u.cap IS NOT NULL FROM unnest(u_at, u_gate, u_weight, u_cap) u(at, gate, weight, cap)
          WHERE v_takes[u.at] AND g_keyed[u.gate];
        IF v_timed THEN
          INSERT INTO @key_clock AS k SELECT g.key, ${tat}, o.opens FROM ${gateRows}
            CROSS JOIN LATERAL (SELECT CASE WHEN g.number IN (SELECT u_gate[p] FROM unnest(v_parks) p) THEN ${opensAfter("g.passed", "1", "p_now")} END AS opens) o
            WHERE g.is_keyed AND (o.opens IS NOT NULL OR (g.passed > 0 AND g.step_us IS NOT NULL))
            ON CONFLICT (key) DO UPDATE SET tat_us = excluded.tat_us, opens_at = coalesce(excluded.opens_at, k.opens_at);
          UPDATE @gate o SET tat_us = ${tat} FROM ${gateRows} WHERE o.key = ANY (p_gates) AND o.key = g.key AND NOT g.is_keyed AND g.passed > 0 AND g.step_us IS NOT NULL;
        END IF;
        IF v_any_shut THEN
          SELECT p_shut || array_agg(g.key), min(${opensAfter("g.passed", "g.weight", "p_now")}) INTO shut, opens FROM ${gateRows} WHERE g_shut[g.number];
        END IF;
      END IF;
      IF v_rows > 0 THEN
        WITH seen AS MATERIALIZED (
          SELECT s.lane, l_place[s.lane] AS place, l_key[s.lane] AS key, s.taken, c_gates[s.looked] AS gates, g_key[u_gate[s.park]] AS parked, u_cap[s.park] AS own_cap
          FROM unnest(v_seen, v_last, v_parks) WITH ORDINALITY s(looked, taken, park, lane)
          WHERE s.lane <= v_rows AND (s.taken IS NOT NULL OR s.park IS NOT NULL AND g_key[u_gate[s.park]] IS DISTINCT FROM l_parked[s.lane])),
        nexts AS (SELECT lane, min(at) AS at FROM unnest(c_lane) WITH ORDINALITY c(lane, at) WHERE at > coalesce(v_last[lane], 0) GROUP BY lane),
        heads AS MATERIALIZED (
          SELECT s.place, coalesce(c_after[s.taken], l_turn[s.lane]) AS turn, coalesce(c_route[n.at], h.route) AS route, coalesce(c_seq[n.at], h.seq) AS seq,
            CASE WHEN n.at IS NULL THEN h.rank ELSE c_rank[n.at] END AS rank, CASE WHEN n.at IS NULL THEN h.lane_step ELSE c_after[n.at] END AS step,
            coalesce(c_gates[n.at], h.lane_gates) = s.gates AS asks_alike, s.parked, s.own_cap, s.taken IS NOT NULL AND l_turn[s.lane] IS NULL AND ${restsBehind("s.taken")} AS rests
          FROM seen s LEFT JOIN nexts n ON n.lane = s.lane
          LEFT JOIN LATERAL (${headOf("s.key", " AND n.at IS NULL AND c_more[s.taken] AND (rank, seq) > (c_rank[s.taken], c_seq[s.taken])")}) h ON true),
        gone AS (DELETE FROM @lane WHERE ctid = ANY (ARRAY(SELECT h.place FROM heads h WHERE (h.route IS NULL AND h.turn IS NULL) OR h.rests)))
        UPDATE @lane l SET route = h.route, pos = CASE WHEN h.step IS NULL AND h.rank IS NOT NULL THEN h.rank ELSE h.turn END, seq = h.seq, turn = h.turn,
            parked = CASE WHEN h.asks_alike THEN h.parked END, own_cap = CASE WHEN h.asks_alike THEN h.own_cap END
          FROM heads h WHERE l.ctid = h.place AND (h.route IS NOT NULL OR h.turn IS NOT NULL) AND h.rests IS NOT TRUE;
      END IF;
      IF p_resting <> '{}' THEN
        IF true = ANY (v_over) THEN
          v_refusals := ARRAY(SELECT l_key[s.lane] FROM unnest(v_over, v_last) WITH ORDINALITY s(is_over, taken, lane) WHERE s.lane > v_rows AND s.is_over AND s.taken IS NULL);
          IF v_refusals <> '{}' THEN PERFORM @refresh_lanes_v1(p_now, v_refusals, '{}'); END IF;
        END IF;
        left_resting := ARRAY(SELECT l_key[s.lane] FROM unnest(v_over, v_last) WITH ORDINALITY s(is_over, taken, lane) WHERE s.lane > v_rows
          AND CASE WHEN s.taken IS NULL THEN NOT s.is_over ELSE CASE WHEN c_alike[s.taken] IS NULL THEN c_more[s.taken] ELSE ${restsBehind("s.taken")} IS NOT TRUE END END);
        IF v_skipped <> '{}' THEN left_resting := left_resting || ARRAY(SELECT unnest(p_resting) INTERSECT SELECT unnest(v_skipped)); END IF;
      END IF;
      IF c_after[v_chosen[1]] IS NOT NULL THEN
        WITH tops AS (
          INSERT INTO @lane_turn AS t SELECT l_queue[c_lane[c]], max(c_pos[c]) FROM unnest(v_chosen) c WHERE c_after[c] IS NOT NULL GROUP BY 1
          ON CONFLICT (queue) DO UPDATE SET top = greatest(t.top, excluded.top) RETURNING queue, top)
        DELETE FROM @lane l USING tops t WHERE l.queue = t.queue AND l.route IS NULL AND l.turn <= t.top;
      END IF;
      IF p_woken <> '{}' THEN
        left_woken := ARRAY(SELECT unnest(p_woken) EXCEPT SELECT l_key[s.lane] FROM unnest(v_last, v_parks) WITH ORDINALITY s(taken, park, lane) WHERE coalesce(s.taken, s.park) IS NOT NULL);
      END IF;`;

export const claimLanesSql = `
-- Takes up to p_max jobs of p_routes, until their inputs reach p_bytes, and writes what that means for their lanes
-- and gates; the caller leases them. gates: of the keys of each, null where none of them has any. p_gates: the gates of the routes, which are locked. shut: p_shut, and what has
-- refused somebody. p_floor: open lanes of a lower place are not looked at (floors.ts says why); lowest, look_us: the
-- first place that was seen, and how long finding lanes took. p_woken: lanes that wait at gates and are looked at
-- again; left_woken: those that were not written. p_resting: lanes without a row that rest no more; left_resting: those
-- that do not rest again. p_look: the number of this look, from 0; p_deep: what the last one has
-- told as next_deep, how far into lanes to look. again: there may be more to take. bad: jobs whose input is gone; then nothing was taken.
CREATE FUNCTION @pick_lanes_v1(p_now int8, p_routes int8[], p_max int4, p_bytes int8, p_gates text[], p_shut text[], p_woken text[], p_resting text[], p_floor int8, p_look int4, p_deep int4,
  OUT again bool, OUT next_deep int4, OUT places tid[], OUT seqs int8[], OUT gates text[], OUT shut text[], OUT opens int8, OUT more bool, OUT bad text[], OUT left_woken text[], OUT left_resting text[], OUT lowest int8, OUT look_us int8) LANGUAGE plpgsql ${byIndex} AS $$
#variable_conflict use_column
DECLARE
  v_heads record; v_rows int4; v_refusals text[]; v_lanes int4 := least(greatest(p_max, 16) * (2 ^ p_look)::int4, ${lanesMax}); v_count int4; v_deep int4 := p_deep; v_end int4; v_skipped text[] := '{}'; v_taken int4; v_got int8; v_bytes int8; v_use int4; v_first int4; v_lane int4; v_gate int4;
  v_refused bool; v_over bool[]; v_last int4[]; v_seen int4[]; v_from int4[]; v_to int4[]; v_chosen int4[]; v_parks int4[]; v_held tid[]; v_clock int8; v_certain int4; v_deepest int4; v_within int4; v_timed bool; v_any_shut bool; v_any_parks bool; v_began timestamptz; v_takes bool[];
  l_place tid[]; l_key text[]; l_pos int8[]; l_seq int8[]; l_turn int8[]; l_queue text[]; l_parked text[];
  c_place tid[]; c_seq int8[]; c_rank int8[]; c_lane int4[]; c_route int8[]; c_gates text[]; c_bytes int8[]; c_pos int8[]; c_after int8[]; c_more bool[]; c_go bool[]; c_alike bool[]; v_all_go bool; v_all_pass bool;
  g_key text[]; g_keyed bool[]; g_held int8[]; g_cap int8[]; g_time float8[]; g_step float8[]; g_burst float8[]; g_tat float8[]; g_closed int8[]; g_shut bool[];
  v_quick bool; u_key text[]; g_passed int8[]; g_weight int8[]; u_at int4[]; u_gate int4[]; u_weight int8[]; u_cap int8[];
BEGIN
  shut := p_shut;
  left_woken := p_woken;
  left_resting := p_resting;
  more := false;
  again := false;
  look_us := 0;
  LOOP
    v_began := clock_timestamp();${lanesOfRoutes}
    look_us := look_us + extract(epoch FROM clock_timestamp() - v_began) * 1000000;
    v_count := coalesce(array_length(l_key, 1), 0);
    IF p_look = 0 AND v_count > 0 AND (v_count >= p_max OR v_rows = 0) AND p_gates IS NULL AND p_shut = '{}' AND v_skipped = '{}' THEN
      SELECT * INTO v_heads FROM @pick_heads_v1(p_now, p_routes, p_max, p_bytes, v_rows, l_place, l_key, l_turn, l_queue, CASE WHEN v_rows >= v_lanes THEN ARRAY[l_pos[v_lanes], l_seq[v_lanes] + 1] END, p_woken, p_resting) h;
      IF v_heads.places IS NOT NULL THEN
        again := v_heads.again; places := v_heads.places; seqs := v_heads.seqs; gates := v_heads.gates;
        left_woken := v_heads.left_woken; left_resting := v_heads.left_resting; lowest := least(l_pos[1], v_heads.lowest);
        EXIT;
      END IF;
    END IF;
    IF v_count > 0 THEN
      v_deep := greatest(ceil(p_max::float8 / v_count)::int4 + 1, v_deep);${jobsOfLanes}
      lowest := coalesce(lowest, least(l_pos[1], c_pos[1]));
      v_quick := false;
      IF p_gates IS NOT NULL OR array_length(array_remove(c_gates, NULL), 1) > 0 THEN
        IF v_all_go AND v_bytes < p_bytes AND p_gates IS NULL AND p_shut = '{}' AND NOT EXISTS (SELECT 1 FROM @gate WHERE ${isOfKey}) THEN${quickGates}
        END IF;
        IF v_quick THEN
          g_key := NULL;
        ELSE${gatesOfJobs}
        END IF;
      END IF;${admit}${choosePlaces}
      again := v_taken < p_max AND v_got < p_bytes AND v_end IS NOT NULL;
      IF again THEN
        next_deep := CASE WHEN v_end = 0 OR v_over[v_end] THEN v_deep ELSE 2 * v_deep END;
        IF v_taken = 0 AND NOT v_any_parks AND v_lanes < ${lanesMax} THEN
          v_lanes := v_lanes * 2;
          v_deep := 2 * v_deep;
          CONTINUE;
        END IF;
        again := (v_taken > 0 OR v_any_parks) AND p_look < ${looksMax};
        more := NOT again;
      END IF;
      more := more OR (v_got >= p_bytes AND (v_taken < v_certain OR v_end IS NOT NULL));
      IF array_position(c_bytes, NULL) IS NOT NULL THEN
        SELECT array_agg(w.id) INTO bad FROM unnest(v_chosen) c JOIN @waiting w ON w.ctid = c_place[c] WHERE c_bytes[c] IS NULL;
        EXIT WHEN bad IS NOT NULL;
      END IF;${hold}${write}
    END IF;
    EXIT;
  END LOOP;
  SELECT opens_at INTO v_clock FROM @key_clock WHERE opens_at IS NOT NULL ORDER BY opens_at LIMIT 1;
  opens := least(opens, v_clock);
END $$;
`;
