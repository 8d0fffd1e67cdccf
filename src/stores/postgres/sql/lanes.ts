/**
 * Lanes as a claim finds them (docs/decisions/0023): table lane shows the first ready job of each (its route, its place
 * among the others) and at which gate it waits. What has happened since the last claim lies in lane_touch; the next one
 * brings it in. All of this under the lock of lanes (sql/rules/lane.ts).
 *
 * A lane that waits at a gate is in no index that a claim reads. When something about the gate has changed, the first lanes
 * of each route are looked at again, as many as it may let pass. A gate at which more wait stays ajar: the claim touches it
 * again, so that the next one goes on if these have not taken what there is.
 */
import { stateCodes } from "../../../model/job-state.ts";
import { keyStates, opensAfter, timeLeft } from "./rules/lane.ts";

const { ready } = stateCodes;

/** So many touches are brought in by one claim. */
const touchesMax = 4000;
/** Where so few lanes wait at a gate they are all looked at again. */
const fewLanes = 4;
const wokenMax = 1000;

export const byIndex =
  "SET enable_seqscan = off SET enable_bitmapscan = off SET jit = off SET plan_cache_mode = force_generic_plan";

/** The first ready job of a lane. */
export const headOf = (lane: string, behind = ""): string =>
  `SELECT route, rank, seq, lane_step, lane_gates FROM @waiting WHERE lane_key = ${lane} AND state = ${ready}${behind} ORDER BY rank, seq LIMIT 1`;

/** Permits that a lane with this own cap finds at gate s. */
const leftFor = (ownCap: string, s = "s"): string =>
  `coalesce(least(${s}.by_time, coalesce(${ownCap}, ${s}.cap) - ${s}.held), ${wokenMax})`;

const statesOf = (keys: string): string =>
  `SELECT g.key, g.held, g.cap, ${timeLeft("p_now")} AS by_time, ${opensAfter("0", "1", "p_now")} AS opens, g.tat_us FROM (${keyStates(keys)}) g`;

/** The clock of a full gate at which lanes wait. */
const setClocks = (full: string): string =>
  `INSERT INTO @key_clock SELECT key, tat_us, opens FROM ${full} ON CONFLICT (key) DO UPDATE SET opens_at = excluded.opens_at`;

export const lanesSql = `
-- Shows the first job of each of these lanes. One whose first job is another than before waits at no gate; nor do those
-- of p_reopened.
CREATE FUNCTION @refresh_lanes_v1(p_lanes text[], p_reopened text[]) RETURNS void LANGUAGE plpgsql ${byIndex} AS $$
#variable_conflict use_column
BEGIN
  WITH heads AS MATERIALIZED (
    SELECT k.key, h.route, h.rank, h.seq, h.lane_step, o.route AS old_route, o.seq AS old_seq, o.pos AS old_pos, o.turn AS old_turn
    FROM unnest(p_lanes) k(key) LEFT JOIN LATERAL (${headOf("k.key")}) h ON true LEFT JOIN @lane o ON o.key = k.key),
  gone AS (DELETE FROM @lane l USING heads h WHERE l.key = h.key AND h.route IS NULL AND h.old_turn IS NULL),
  emptied AS (UPDATE @lane l SET route = NULL, seq = NULL, parked = NULL, own_cap = NULL FROM heads h
    WHERE l.key = h.key AND h.route IS NULL AND h.old_turn IS NOT NULL AND h.old_route IS NOT NULL)
  INSERT INTO @lane AS l SELECT h.key, q.queue, h.route, n.pos, h.seq, n.turn FROM heads h
    CROSS JOIN LATERAL (SELECT coalesce((SELECT r.queue FROM @route r WHERE r.number = h.route LIMIT 1), '') AS queue) q
    CROSS JOIN LATERAL (SELECT CASE WHEN h.lane_step IS NULL OR (h.old_route IS NOT NULL AND h.old_turn IS NOT NULL) THEN h.old_turn
      ELSE greatest(h.old_turn, (SELECT t.top FROM @lane_turn t WHERE t.queue = q.queue), 0) END AS turn) t
    CROSS JOIN LATERAL (SELECT t.turn, CASE WHEN h.lane_step IS NULL THEN h.rank ELSE t.turn END AS pos) n
    WHERE h.route IS NOT NULL AND ((h.old_route, h.old_seq, h.old_pos) IS DISTINCT FROM (h.route, h.seq, n.pos) OR h.key = ANY (p_reopened))
    ON CONFLICT (key) DO UPDATE SET queue = excluded.queue, route = excluded.route, pos = excluded.pos, seq = excluded.seq, turn = excluded.turn,
      parked = NULL, own_cap = NULL;
END $$;

-- Lanes that wait at these gates and may pass are open again. Answers the gates at which others wait behind them.
CREATE FUNCTION @wake_lanes_v1(p_now int8, p_gates text[]) RETURNS text[] LANGUAGE plpgsql ${byIndex} AS $$
DECLARE v_many text[]; v_ajar text[] := '{}'; v_gate text; v_route int8; v_count int4; v_state record; v_woken bool;
BEGIN
  WITH waits AS MATERIALIZED (
    SELECT g.key AS gate, l.key, l.own_cap, count(*) OVER (PARTITION BY g.key) AS lanes FROM unnest(p_gates) g(key)
    CROSS JOIN LATERAL (SELECT key, own_cap FROM @lane WHERE parked = g.key LIMIT ${fewLanes + 1}) l),
  states AS MATERIALIZED (${statesOf("(SELECT DISTINCT gate AS key FROM waits) k")}),
  opened AS (UPDATE @lane l SET parked = NULL, own_cap = NULL FROM waits w JOIN states s ON s.key = w.gate
    WHERE l.key = w.key AND w.lanes <= ${fewLanes} AND ${leftFor("w.own_cap")} >= 1),
  clocked AS (${setClocks("states WHERE opens IS NOT NULL AND by_time < 1")})
  SELECT array_agg(DISTINCT gate) INTO v_many FROM waits WHERE lanes > ${fewLanes};
  FOREACH v_gate IN ARRAY coalesce(v_many, '{}') LOOP
    SELECT * INTO v_state FROM (${statesOf("(SELECT v_gate AS key) k")}) g;
    v_route := NULL;
    v_woken := false;
    LOOP
      SELECT route, ${leftFor("own_cap", "v_state")} INTO v_route, v_count FROM @lane
        WHERE parked = v_gate AND route > coalesce(v_route, -1) ORDER BY route, pos, seq LIMIT 1;
      EXIT WHEN v_route IS NULL;
      CONTINUE WHEN v_count < 1;
      v_woken := true;
      UPDATE @lane SET parked = NULL, own_cap = NULL WHERE key IN (
        SELECT key FROM @lane WHERE parked = v_gate AND route = v_route ORDER BY pos, seq LIMIT least(v_count, ${wokenMax}));
    END LOOP;
    IF v_woken AND EXISTS (SELECT 1 FROM @lane WHERE parked = v_gate) THEN v_ajar := v_ajar || v_gate; END IF;
  END LOOP;
  RETURN v_ajar;
END $$;

-- Brings in what has happened. more: there are more touches than one claim brings in.
CREATE FUNCTION @drain_lanes_v1(p_now int8, OUT ajar text[], OUT more bool) LANGUAGE plpgsql ${byIndex} AS $$
#variable_conflict use_column
DECLARE v_count int4; v_lanes text[]; v_reopened text[]; v_gates text[]; v_rung text[];
BEGIN
  WITH gone AS (DELETE FROM @lane_touch WHERE ctid = ANY (ARRAY(SELECT ctid FROM @lane_touch LIMIT ${touchesMax})) RETURNING lane, gate)
  SELECT count(*), array_agg(DISTINCT lane) FILTER (WHERE lane IS NOT NULL), array_agg(DISTINCT lane) FILTER (WHERE gate = ''),
    array_agg(DISTINCT gate) FILTER (WHERE gate <> '') INTO v_count, v_lanes, v_reopened, v_gates FROM gone;
  more := v_count = ${touchesMax};
  IF v_lanes IS NOT NULL THEN PERFORM @refresh_lanes_v1(v_lanes, coalesce(v_reopened, '{}')); END IF;
  WITH rung AS (UPDATE @key_clock SET opens_at = NULL WHERE opens_at <= p_now RETURNING key) SELECT array_agg(key) INTO v_rung FROM rung;
  v_gates := v_gates || v_rung;
  ajar := CASE WHEN v_gates IS NULL THEN '{}' ELSE @wake_lanes_v1(p_now, v_gates) END;
END $$;

-- At the end of a claim: gates that are ajar are looked at again by the next one, or when their clock opens them.
CREATE FUNCTION @leave_ajar_v1(p_now int8, p_gates text[]) RETURNS void LANGUAGE sql AS $$
  WITH states AS MATERIALIZED (${statesOf("unnest(p_gates) k(key)")}),
  clocked AS (${setClocks("states WHERE opens IS NOT NULL AND by_time < 1")})
  INSERT INTO @lane_touch (gate) SELECT key FROM states s WHERE ${leftFor("NULL::int8")} >= 1
$$;
`;
