/**
 * Which jobs of lanes a claim takes (rules R6, R7), in their order: the first jobs of open lanes, and behind each the next
 * of its lane. By rank that is the order of all these jobs. By turn the i-th job of a lane stands where the lane will be
 * after i - 1 turns, which is known beforehand: max(turn, T) and the steps of the jobs before it.
 *
 * Jobs are looked for in sets, as far as their order is certain: up to the last lane that was seen where there may be more,
 * and up to the last job of a lane that may have more. Then they pass their gates one by one. Where that does not fill the
 * offer, the look is taken again over twice as many. Nothing is written before it is known who passes.
 *
 * Rows that somebody else holds are never waited for and never overtaken: their lanes are left out.
 */
import { stateCodes } from "../../../model/job-state.ts";
import { storeLimits } from "../../../store/limits.ts";
import { wholeInput } from "../columns.ts";
import { held } from "./rules/gate.ts";
import { keyStates, keyUses, laneLock, opensAfter, timeLeft } from "./rules/lane.ts";
import { byIndex, headOf } from "./lanes.ts";

const { ready } = stateCodes;
const { lockWaitMs } = storeLimits;

/** So many lanes are looked at by one claim; who wants more comes again. */
const lanesMax = 4096;

/** v_laned: routes of the call that have lanes; null for none. */
export const declareLanes = `
  v_has_lanes bool; v_laned int8[]; v_is_laned bool; v_pick_lanes record; v_ajar text[]; v_lane_shut text[] := '{}';`;

export const hasLanes = "EXISTS (SELECT 1 FROM @route WHERE lanes IS NOT NULL)";

/** Before the gates are locked. Offers of lanes are left out where another claim of lanes takes too long. */
export const lockLanes = `
  IF v_has_lanes THEN
    SELECT array_agg(DISTINCT number) INTO v_laned FROM @route WHERE number = ANY (p_routes) AND lanes IS NOT NULL;
    IF v_laned IS NOT NULL THEN
      IF pg_try_advisory_xact_lock(${laneLock}) OR @wait_gate_v1(${laneLock}, false) THEN
        now := greatest(now, coalesce(p_now, floor(extract(epoch FROM clock_timestamp()) * 1000)::int8));
        SELECT d.ajar, d.more INTO v_ajar, v_more FROM @drain_lanes_v1(now) d;
      ELSE
        v_opens := now + ${lockWaitMs};
      END IF;
    END IF;
  END IF;`;

/** Picks into v_places, in order. */
export const pickLanes = `
        SELECT * INTO v_pick_lanes FROM @pick_lanes_v1(now, ARRAY(SELECT r FROM unnest(v_offer) r WHERE r = ANY (v_laned)), v_left, v_bytes, v_gates, v_shut || v_lane_shut);
        v_cut := NULL;
        v_rated := false;
        v_places := v_pick_lanes.places;
        v_lane_shut := v_pick_lanes.shut;
        v_opens := least(v_opens, v_pick_lanes.opens);
        v_more := v_more OR v_pick_lanes.more OR (v_ajar <> '{}' AND coalesce(array_length(v_places, 1), 0) < v_left);`;

/** At the end of a call. */
export const leaveLanes = `
  IF v_ajar <> '{}' THEN PERFORM @leave_ajar_v1(now, v_ajar); END IF;`;

const lanesOfRoutes = `
      SELECT array_agg(key), array_agg(pos), array_agg(seq), array_agg(turn), array_agg(queue) INTO l_key, l_pos, l_seq, l_turn, l_queue FROM (
        SELECT l.* FROM unnest(p_routes) r(route) CROSS JOIN LATERAL (
          SELECT key, pos, seq, turn, queue FROM @lane WHERE route = r.route AND parked IS NULL ORDER BY pos, seq LIMIT v_lanes) l
        WHERE key <> ALL (v_skipped) ORDER BY pos, seq LIMIT v_lanes) l;`;

const jobsOfLanes = `
      WITH found AS MATERIALIZED (
        SELECT l.lane, greatest(l.turn, t.top, 0) AS top, l.turn, j.*, j.route = ANY (p_routes) AND (j.timer_at IS NULL OR j.timer_at > p_now) AS is_offered
        FROM unnest(l_key, l_turn, l_queue) WITH ORDINALITY l(key, turn, queue, lane) LEFT JOIN @lane_turn t ON t.queue = l.queue CROSS JOIN LATERAL (
          SELECT ctid AS place, seq, rank, route, timer_at, lane_step, lane_gates, octet_length(${wholeInput("w")}) AS bytes
          FROM @waiting w WHERE lane_key = l.key AND state = ${ready} ORDER BY rank, seq LIMIT v_deep) j),
      placed AS MATERIALIZED (
        SELECT *, bool_and(is_offered) OVER w AS may_go, count(*) OVER (PARTITION BY lane) = v_deep AS has_more,
          (top + sum(lane_step) OVER w)::int8 AS after, CASE WHEN lane_step IS NULL THEN rank WHEN row_number() OVER w = 1 THEN coalesce(turn, top) ELSE (top + sum(lane_step) OVER w)::int8 - lane_step END AS pos
        FROM found WINDOW w AS (PARTITION BY lane ORDER BY rank, seq)),
      ends AS (SELECT min(last) AS last FROM (
        SELECT ARRAY[l_pos[v_lanes], l_seq[v_lanes]] AS last WHERE v_count >= v_lanes
        UNION ALL SELECT max(ARRAY[pos, seq]) FROM placed WHERE has_more GROUP BY lane HAVING bool_and(may_go)) e)
      SELECT array_agg(place), array_agg(seq), array_agg(rank), array_agg(lane), array_agg(route), array_agg(lane_gates), array_agg(bytes), array_agg(pos), array_agg(after),
        (SELECT last FROM ends) IS NULL INTO c_place, c_seq, c_rank, c_lane, c_route, c_gates, c_bytes, c_pos, c_after, v_whole FROM (
        SELECT placed.* FROM placed, ends WHERE may_go AND (last IS NULL OR ARRAY[pos, seq] <= last) ORDER BY pos, seq) c;`;

/** A row of u for each gate that a candidate has to pass, in their order; a row of g for each gate. */
const gatesOfJobs = `
      WITH uses AS MATERIALIZED (
        SELECT c.at, u.key, u.weight, u.cap, true AS is_keyed FROM unnest(c_gates) WITH ORDINALITY c(gates, at) CROSS JOIN LATERAL ${keyUses("c.gates")} WHERE c.gates IS NOT NULL
        UNION ALL SELECT c.at, u.key, u.weight, NULL, false FROM unnest(c_route) WITH ORDINALITY c(route, at)
          JOIN (SELECT DISTINCT route, key, weight FROM @gate_use WHERE route = ANY (p_routes) AND key = ANY (p_gates)) u ON u.route = c.route),
      states AS MATERIALIZED (
        SELECT row_number() OVER () AS number, g.*, ${timeLeft("p_now")} AS by_time FROM (
          SELECT s.*, true AS is_keyed FROM (${keyStates("(SELECT DISTINCT key FROM uses WHERE is_keyed) k")}) s
          UNION ALL SELECT g.key, ${held}, g.cap, g.step_us, g.burst_us, g.tat_us, g.closed_until, false FROM @gate g WHERE g.key IN (SELECT key FROM uses WHERE NOT is_keyed)) g)
      SELECT * INTO g_key, g_keyed, g_held, g_cap, g_time, g_step, g_burst, g_tat, g_closed, g_shut, u_at, u_gate, u_weight, u_cap FROM
        (SELECT array_agg(key ORDER BY number), array_agg(is_keyed ORDER BY number), array_agg(held ORDER BY number), array_agg(cap ORDER BY number),
          array_agg(by_time ORDER BY number), array_agg(step_us ORDER BY number), array_agg(burst_us ORDER BY number), array_agg(tat_us ORDER BY number),
          array_agg(closed_until ORDER BY number), array_agg(key = ANY (p_shut) ORDER BY number) FROM states) s,
        (SELECT array_agg(u.at ORDER BY u.at), array_agg(s.number ORDER BY u.at), array_agg(u.weight ORDER BY u.at), array_agg(u.cap ORDER BY u.at)
          FROM uses u JOIN states s ON s.key = u.key AND s.is_keyed = u.is_keyed) u;`;

/** Whether a use finds less of its gate than this. */
const hasLess = (use: string, than: string): string =>
  `least(g_time[u_gate[${use}]], coalesce(u_cap[${use}], g_cap[u_gate[${use}]]) - g_held[u_gate[${use}]]) < ${than}`;

/** The candidates one by one, as store/rules/admit.ts has it. */
const admit = `
      v_taken := 0; v_got := 0; v_use := 1; v_chosen := '{}'; v_over := array_fill(false, ARRAY[v_count]);
      v_last := array_fill(NULL::int4, ARRAY[v_count]); v_seen := v_last; v_from := v_last; v_to := v_last; v_parks := v_last;
      g_passed := array_fill(0::int8, ARRAY[coalesce(array_length(g_key, 1), 0)]); g_weight := g_passed;
      FOR v_at IN 1..coalesce(array_length(c_seq, 1), 0) LOOP
        EXIT WHEN v_taken >= p_max OR v_got >= p_bytes;
        v_first := v_use;
        WHILE u_at[v_use] = v_at LOOP v_use := v_use + 1; END LOOP;
        v_lane := c_lane[v_at];
        CONTINUE WHEN v_over[v_lane];
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
        v_got := v_got + coalesce(c_bytes[v_at], 0);
      END LOOP;`;

/** The rows are taken hold of; lanes of which one is held by somebody else are left out, and the look is taken again. */
const hold = `
      places := NULL;
      IF v_taken > 0 THEN
        SELECT array_agg(c_place[c] ORDER BY o), array_agg(c_seq[c] ORDER BY o) INTO places, seqs FROM unnest(v_chosen) WITH ORDINALITY t(c, o);
        v_held := ARRAY(SELECT ctid FROM @waiting WHERE ctid = ANY (places) AND state = ${ready} FOR UPDATE SKIP LOCKED);
        IF NOT places <@ v_held THEN
          v_skipped := v_skipped || ARRAY(SELECT DISTINCT l_key[c_lane[c]] FROM unnest(v_chosen) c WHERE c_place[c] <> ALL (v_held));
          CONTINUE;
        END IF;
      END IF;`;

/** A lane waits at the first gate of a key that lets nobody pass; v_parks: by lane the use that says so. */
const choosePlaces = `
      FOR v_lane IN 1..v_count LOOP
        CONTINUE WHEN v_from[v_lane] IS NULL;
        FOR v_i IN v_from[v_lane]..v_to[v_lane] LOOP
          CONTINUE WHEN NOT g_keyed[u_gate[v_i]] OR NOT coalesce(${hasLess("v_i", "1")}, false);
          v_parks[v_lane] := v_i;
          EXIT;
        END LOOP;
      END LOOP;`;

const gateRows = `unnest(g_key, g_keyed, g_step, g_burst, g_tat, g_closed, g_passed, g_weight) WITH ORDINALITY g(key, is_keyed, step_us, burst_us, tat_us, closed_until, passed, weight, number)`;
const tat =
  "CASE WHEN g.passed > 0 AND g.step_us IS NOT NULL THEN greatest(g.tat_us, p_now * 1000) + g.passed * g.step_us ELSE g.tat_us END";

const write = `
      IF g_key IS NOT NULL THEN
        INSERT INTO @permit SELECT g_key[u_gate[v.i]], c_seq[c.at], u_weight[v.i], u_cap[v.i] IS NOT NULL FROM unnest(v_chosen) c(at)
          JOIN unnest(u_at) WITH ORDINALITY v(at, i) ON v.at = c.at WHERE g_keyed[u_gate[v.i]];
        INSERT INTO @key_clock AS k SELECT g.key, ${tat}, o.opens FROM ${gateRows}
          CROSS JOIN LATERAL (SELECT CASE WHEN g.number IN (SELECT u_gate[p] FROM unnest(v_parks) p) THEN ${opensAfter("g.passed", "1", "p_now")} END AS opens) o
          WHERE g.is_keyed AND (o.opens IS NOT NULL OR (g.passed > 0 AND g.step_us IS NOT NULL))
          ON CONFLICT (key) DO UPDATE SET tat_us = excluded.tat_us, opens_at = coalesce(excluded.opens_at, k.opens_at);
        IF p_gates IS NOT NULL THEN
          UPDATE @gate o SET tat_us = ${tat} FROM ${gateRows} WHERE o.key = g.key AND NOT g.is_keyed AND g.passed > 0 AND g.step_us IS NOT NULL;
        END IF;
        SELECT p_shut || array_agg(g.key) FILTER (WHERE g_shut[g.number]), min(${opensAfter("g.passed", "g.weight", "p_now")}) INTO shut, opens FROM ${gateRows} WHERE g_shut[g.number];
      END IF;
      WITH seen AS MATERIALIZED (
        SELECT l_key[s.lane] AS key, s.taken, c_rank[s.taken] AS rank, c_seq[s.taken] AS seq, c_after[s.taken] AS turn, c_gates[s.looked] AS gates,
          g_key[u_gate[s.park]] AS parked, u_cap[s.park] AS own_cap
        FROM unnest(v_seen, v_last, v_parks) WITH ORDINALITY s(looked, taken, park, lane) WHERE s.taken IS NOT NULL OR s.park IS NOT NULL),
      heads AS MATERIALIZED (
        SELECT s.key, s.turn, h.route, h.rank, h.seq, h.lane_step, CASE WHEN h.lane_gates = s.gates THEN s.parked END AS parked,
          CASE WHEN h.lane_gates = s.gates THEN s.own_cap END AS own_cap
        FROM seen s LEFT JOIN LATERAL (${headOf("s.key", " AND (rank, seq) > (coalesce(s.rank, -9223372036854775808), coalesce(s.seq, 0))")}) h ON true),
      gone AS (DELETE FROM @lane l USING heads h WHERE l.key = h.key AND h.route IS NULL AND coalesce(h.turn, l.turn) IS NULL)
      UPDATE @lane l SET route = h.route, seq = h.seq, turn = coalesce(h.turn, l.turn), parked = h.parked, own_cap = h.own_cap,
          pos = CASE WHEN h.lane_step IS NULL AND h.rank IS NOT NULL THEN h.rank ELSE coalesce(h.turn, l.turn) END
        FROM heads h WHERE l.key = h.key AND (h.route IS NOT NULL OR coalesce(h.turn, l.turn) IS NOT NULL);
      WITH tops AS (
        INSERT INTO @lane_turn AS t SELECT l_queue[c_lane[c]], max(c_pos[c]) FROM unnest(v_chosen) c WHERE c_after[c] IS NOT NULL GROUP BY 1
        ON CONFLICT (queue) DO UPDATE SET top = greatest(t.top, excluded.top) RETURNING queue, top)
      DELETE FROM @lane l USING tops t WHERE l.queue = t.queue AND l.route IS NULL AND l.turn <= t.top;`;

export const claimLanesSql = `
-- Takes up to p_max jobs of p_routes, until their inputs reach p_bytes, and writes what that means for their lanes and
-- gates; the caller leases them. p_gates: the gates of the routes, which are locked. shut: p_shut, and what has refused
-- somebody. bad: jobs whose input is gone; then nothing was taken.
CREATE FUNCTION @pick_lanes_v1(p_now int8, p_routes int8[], p_max int4, p_bytes int8, p_gates text[], p_shut text[],
  OUT places tid[], OUT seqs int8[], OUT shut text[], OUT opens int8, OUT more bool, OUT bad text[]) LANGUAGE plpgsql ${byIndex} AS $$
#variable_conflict use_column
DECLARE
  v_lanes int4 := greatest(p_max, 16); v_count int4; v_deep int4; v_whole bool; v_skipped text[] := '{}'; v_taken int4; v_got int8; v_use int4; v_first int4; v_lane int4; v_gate int4;
  v_refused bool; v_over bool[]; v_last int4[]; v_seen int4[]; v_from int4[]; v_to int4[]; v_chosen int4[]; v_parks int4[]; v_held tid[]; v_clock int8;
  l_key text[]; l_pos int8[]; l_seq int8[]; l_turn int8[]; l_queue text[];
  c_place tid[]; c_seq int8[]; c_rank int8[]; c_lane int4[]; c_route int8[]; c_gates text[]; c_bytes int8[]; c_pos int8[]; c_after int8[];
  g_key text[]; g_keyed bool[]; g_held int8[]; g_cap int8[]; g_time float8[]; g_step float8[]; g_burst float8[]; g_tat float8[]; g_closed int8[]; g_shut bool[];
  g_passed int8[]; g_weight int8[]; u_at int4[]; u_gate int4[]; u_weight int8[]; u_cap int8[];
BEGIN
  shut := p_shut;
  more := false;
  LOOP${lanesOfRoutes}
    v_count := coalesce(array_length(l_key, 1), 0);
    IF v_count > 0 THEN
      v_deep := greatest(ceil(p_max::float8 / v_count)::int4 + 1, coalesce(2 * v_deep, 0));${jobsOfLanes}
      IF p_gates IS NOT NULL OR array_length(array_remove(c_gates, NULL), 1) > 0 THEN${gatesOfJobs}
      END IF;${admit}
      IF v_taken < p_max AND v_got < p_bytes AND NOT v_whole THEN
        IF v_lanes < ${lanesMax} THEN
          v_lanes := v_lanes * 2;
          CONTINUE;
        END IF;
        more := true;
      END IF;
      more := more OR (v_got >= p_bytes AND (v_taken < array_length(c_seq, 1) OR NOT v_whole));
      bad := ARRAY(SELECT w.id FROM unnest(v_chosen) c JOIN @waiting w ON w.ctid = c_place[c] WHERE c_bytes[c] IS NULL);
      EXIT WHEN bad <> '{}';
      bad := NULL;${hold}${choosePlaces}${write}
    END IF;
    EXIT;
  END LOOP;
  SELECT opens_at INTO v_clock FROM @key_clock WHERE opens_at IS NOT NULL ORDER BY opens_at LIMIT 1;
  opens := least(opens, v_clock);
END $$;
`;
