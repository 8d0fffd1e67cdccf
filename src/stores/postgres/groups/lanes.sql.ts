/**
 * Lanes as a claim finds them (docs/decisions/0023). The table lane has the first ready job of each lane (its route,
 * its place among the others) and the gate at which the lane waits. Changes since the last claim are in lane_change.
 * The next claim applies them, or a submit does if many have piled up. All of this happens under the locks of the
 * scopes in p_scopes (lane.sql.ts).
 *
 * A lane that waits at a gate is in no index that a claim reads. It begins to wait when its first job becomes one that
 * its gate cannot let pass, or when a claim has refused it. When something about the gate has changed, a claim looks
 * again at the first lanes of each route, up to the number that the gate may let pass. If more lanes wait there, the
 * gate is an open gate: the claim appends a change for it. So the next claim goes on if these lanes have not taken all
 * permits.
 */
import { stateCodes } from "../../../model/job/job-state.ts";
import { sql } from "../../../store/sql.ts";
import { byIndex } from "../functions/call.sql.ts";
import { byKey, keyStates, keyUses, opensAfter, scopeOfKey, scopesOf, timeLeft } from "./lane.sql.ts";

const { ready } = stateCodes;

/** The most rows of lane_change that one claim applies. */
const changesMax = 100;
/**
 * Rows from which on changes count as piled up. With the rows of two large submits a claim takes a few times as long as
 * without.
 */
const piledUp = 20;
/** If at most this many lanes wait at a gate, all of them are looked at again, whatever the gate lets pass. */
const fewLanes = 4;
const wokenMax = 1000;

/**
 * While a long reader keeps Postgres from clearing applied changes, claims would walk over their dead rows. So a look
 * begins after the changes of transactions that had ended at an earlier look. That floor moves after this many
 * transactions.
 */
const floorStep = 5000;
/**
 * Changes of transactions below the floor were applied already. The floor does not count on another server than the one
 * that has set it.
 */
const floorOf = sql`
  coalesce((
    SELECT l.xact FROM @lane_floor l
    WHERE l.scope = s.scope AND l.xact <= pg_snapshot_xmax(pg_current_snapshot())), '0')`;

/** The first ready job of a lane. */
export const headOf = (lane: string, where = ""): string => sql`
  SELECT route, rank, seq, lane_step, lane_gates FROM @waiting
  WHERE lane_key = ${lane} AND state = ${ready} ${where}
  ORDER BY rank, seq LIMIT 1`;

/** The permits that gate s has left for a lane with this own cap. */
const leftFor = (ownCap: string, s = "s"): string =>
  sql`coalesce(least(${s}.by_time, coalesce(${ownCap}, ${s}.cap) - ${s}.held), ${wokenMax})`;

const statesOf = (keys: string): string => sql`
  SELECT g.key, g.held, g.cap,
    ${timeLeft("p_now")} AS by_time,
    ${opensAfter("0", "1", "p_now")} AS opens, g.tat_us
  FROM (
    ${keyStates(keys)}) g`;

/**
 * The first gate of a job that lets no permit of it pass. A gate that is not locked does not count: a call that opens
 * it at this moment would not see that a lane waits there.
 */
const closedFor = (gates: string): string => sql`
  SELECT u.key AS gate, u.cap, s.tat_us, CASE WHEN s.by_time < 1 THEN s.opens END AS opens FROM
    ${keyUses(gates)}
    CROSS JOIN LATERAL (
      ${statesOf("(SELECT u.key AS key) k")}) s
  WHERE ${gates} IS NOT NULL AND ${scopeOfKey("u.key")} = ANY (p_scopes)
    AND ${leftFor("u.cap")} < 1
  LIMIT 1`;

/** Sets the clocks of full gates at which lanes wait. */
const setClocks = (full: string): string => sql`
  INSERT INTO @key_clock
  SELECT key, tat_us, opens FROM
    ${full}
    ON CONFLICT (key) DO UPDATE SET opens_at = excluded.opens_at`;

export const lanesSql = sql`
-- Shows the first job of each of these lanes. If the first job has changed, or the lane is in p_reopened, the lane
-- waits if a gate of that job lets no permit pass.
CREATE FUNCTION @refresh_lanes_v1(p_now int8, p_lanes text[], p_reopened text[], p_scopes text[]) RETURNS void
  LANGUAGE plpgsql
  ${byIndex} AS $$
#variable_conflict use_column
BEGIN
  WITH heads AS MATERIALIZED (
    SELECT k.key, h.route, h.rank, h.seq, h.lane_step, h.lane_gates,
      o.route AS old_route, o.seq AS old_seq, o.pos AS old_pos, o.turn AS old_turn
    FROM unnest(p_lanes) k(key)
      ${byKey("lane", "k.key", "o")}
      LEFT JOIN LATERAL (
        ${headOf("k.key")}) h ON true),
  gone AS (
    DELETE FROM @lane WHERE key = ANY (ARRAY(
      SELECT h.key FROM heads h WHERE h.route IS NULL AND h.old_route IS NOT NULL AND h.old_turn IS NULL))),
  emptied AS (
    UPDATE @lane SET route = NULL, seq = NULL, waits_at = NULL, own_cap = NULL WHERE key = ANY (ARRAY(
      SELECT h.key FROM heads h WHERE h.route IS NULL AND h.old_route IS NOT NULL AND h.old_turn IS NOT NULL))),
  shown AS MATERIALIZED (
    SELECT h.key, q.queue, h.route, n.pos, h.seq, n.turn, c.* FROM heads h
      CROSS JOIN LATERAL (
        SELECT coalesce((SELECT r.queue FROM @route r WHERE r.number = h.route LIMIT 1), '') AS queue) q
      CROSS JOIN LATERAL (
        SELECT CASE
          WHEN h.lane_step IS NULL OR (h.old_route IS NOT NULL AND h.old_turn IS NOT NULL) THEN h.old_turn
          ELSE greatest(h.old_turn, (SELECT t.top FROM @lane_turn t WHERE t.queue = q.queue), 0) END AS turn) t
      CROSS JOIN LATERAL (SELECT t.turn, CASE WHEN h.lane_step IS NULL THEN h.rank ELSE t.turn END AS pos) n
      LEFT JOIN LATERAL (
        ${closedFor("h.lane_gates")}) c ON true
    WHERE h.route IS NOT NULL
      AND ((h.old_route, h.old_seq, h.old_pos) IS DISTINCT FROM (h.route, h.seq, n.pos)
        OR h.key = ANY (p_reopened))),
  clocked AS (
    ${setClocks(sql`
      (SELECT DISTINCT ON (gate) gate AS key, tat_us, opens FROM shown WHERE opens IS NOT NULL) s
      WHERE true`)})
  INSERT INTO @lane AS l SELECT key, queue, route, pos, seq, turn, gate, cap FROM shown
    ON CONFLICT (key) DO UPDATE SET queue = excluded.queue, route = excluded.route, pos = excluded.pos,
      seq = excluded.seq, turn = excluded.turn, waits_at = excluded.waits_at, own_cap = excluded.own_cap;
END $$;

-- Which lanes that wait at these gates are looked at again (woken; the caller writes them), and at which gates more
-- lanes wait after them (open_gates).
CREATE FUNCTION @wake_lanes_v1(p_now int8, p_gates text[], OUT woken text[], OUT open_gates text[]) LANGUAGE plpgsql
  ${byIndex} AS $$
#variable_conflict use_column
DECLARE v_many text[]; v_gate text; v_route int8; v_count int4; v_state record; v_woken bool;
BEGIN
  SELECT coalesce(array_agg(key) FILTER (WHERE lanes <= ${fewLanes}), '{}'),
    array_agg(DISTINCT gate) FILTER (WHERE lanes > ${fewLanes})
  INTO woken, v_many FROM (
    SELECT g.key AS gate, l.key, count(*) OVER (PARTITION BY g.key) AS lanes
    FROM unnest(p_gates) g(key)
      CROSS JOIN LATERAL (SELECT key FROM @lane WHERE waits_at = g.key LIMIT ${fewLanes + 1}) l) w;
  open_gates := '{}';
  FOREACH v_gate IN ARRAY coalesce(v_many, '{}') LOOP
    SELECT * INTO v_state FROM (
      ${statesOf("(SELECT v_gate AS key) k")}) g;
    IF v_state.by_time < 1 AND v_state.opens IS NOT NULL THEN
      ${setClocks("(SELECT v_gate AS key, v_state.tat_us, v_state.opens) s WHERE true")};
    END IF;
    v_route := NULL;
    v_woken := false;
    LOOP
      SELECT route, ${leftFor("own_cap", "v_state")}
      INTO v_route, v_count FROM @lane
      WHERE waits_at = v_gate AND route > coalesce(v_route, -1) ORDER BY route, pos, seq LIMIT 1;
      EXIT WHEN v_route IS NULL;
      CONTINUE WHEN v_count < 1;
      v_woken := true;
      woken := woken || ARRAY(
        SELECT key FROM @lane WHERE waits_at = v_gate AND route = v_route
        ORDER BY pos, seq LIMIT least(v_count, ${wokenMax}));
    END LOOP;
    IF v_woken THEN open_gates := open_gates || v_gate; END IF;
  END LOOP;
END $$;

-- Applies the changes in these scopes. more: there are more changes than one claim applies. p_all: applies all of them,
-- also those below the floor.
CREATE FUNCTION @apply_lane_changes_v1(p_now int8, p_scopes text[], p_all bool,
  OUT woken text[], OUT open_gates text[], OUT more bool) LANGUAGE plpgsql
  ${byIndex} AS $$
#variable_conflict use_column
DECLARE v_open xid8; v_places tid[]; v_lanes text[]; v_reopened text[]; v_gates text[];
BEGIN
  SELECT array_agg(ctid), pg_snapshot_xmin(pg_current_snapshot()) INTO v_places, v_open FROM (
    SELECT t.ctid FROM unnest(p_scopes) s(scope)
      CROSS JOIN LATERAL (
        SELECT CASE WHEN p_all THEN '0' ELSE ${floorOf} END AS floor) f
      CROSS JOIN LATERAL (
        SELECT ctid FROM @lane_change WHERE scope = s.scope AND xact >= f.floor
        ORDER BY xact LIMIT ${changesMax}) t
    LIMIT ${changesMax}) t;
  more := coalesce(cardinality(v_places) = ${changesMax}, false);
  woken := '{}';
  open_gates := '{}';
  IF v_places IS NOT NULL THEN
    WITH gone AS (DELETE FROM @lane_change WHERE ctid = ANY (v_places) RETURNING lanes, gates, is_reopened)
    SELECT (SELECT array_agg(DISTINCT k) FROM gone, unnest(lanes) k),
      (SELECT array_agg(k) FROM gone, unnest(lanes) k WHERE is_reopened),
      (SELECT array_agg(DISTINCT k) FROM gone, unnest(gates) k)
    INTO v_lanes, v_reopened, v_gates;
    IF NOT more THEN
      INSERT INTO @lane_floor AS o
      SELECT scope, v_open FROM unnest(p_scopes) s(scope)
      WHERE v_open::text::int8 > (${floorOf})::text::int8 + ${floorStep}
        ON CONFLICT (scope) DO UPDATE SET xact = excluded.xact;
    END IF;
  END IF;
  IF v_lanes IS NOT NULL THEN
    PERFORM @refresh_lanes_v1(p_now, v_lanes, coalesce(v_reopened, '{}'), p_scopes);
  END IF;
  IF EXISTS (SELECT 1 FROM @key_clock WHERE scope = ANY (p_scopes) AND opens_at <= p_now) THEN
    WITH rung AS (
      UPDATE @key_clock SET opens_at = NULL WHERE scope = ANY (p_scopes) AND opens_at <= p_now RETURNING key)
    SELECT v_gates || array_agg(key) INTO v_gates FROM rung;
  END IF;
  IF v_gates IS NOT NULL AND EXISTS (SELECT 1 FROM @lane WHERE waits_at IS NOT NULL) THEN
    SELECT w.woken, w.open_gates INTO woken, open_gates FROM @wake_lanes_v1(p_now, v_gates) w;
  END IF;
END $$;

-- Runs at the end of a submit of jobs with lanes. If no worker claims there, changes pile up until a claim would be
-- slow. Then they are applied now, unless a claim is running: the submit does not wait for it.
CREATE FUNCTION @relieve_claims_v1(p_now int8, p_queues text[]) RETURNS void LANGUAGE plpgsql
  ${byIndex} AS $$
DECLARE v_rows int4; v_locked record; v_lanes record;
BEGIN
  SELECT count(*) INTO v_rows FROM (
    SELECT 1 FROM (
      ${scopesOf("p_queues")}) s
      CROSS JOIN LATERAL (
        SELECT 1 FROM @lane_change
        WHERE scope = s.scope AND xact >= ${floorOf}
        ORDER BY xact LIMIT ${piledUp}) t
    LIMIT ${piledUp}) t;
  IF v_rows < ${piledUp} THEN RETURN; END IF;
  SELECT * INTO v_locked FROM @lock_scopes_v1(p_queues, false);
  IF v_locked.is_busy THEN RETURN; END IF;
  SELECT * INTO v_lanes FROM @apply_lane_changes_v1(p_now, v_locked.scopes, false);
  PERFORM @reopen_lanes_v1(p_now, v_lanes.woken, v_lanes.open_gates);
END $$;

-- At the end of a claim: lanes that were woken and not written yet wait no more. Open gates are looked at again by the
-- next claim, or when their clock opens them.
CREATE FUNCTION @reopen_lanes_v1(p_now int8, p_woken text[], p_open_gates text[]) RETURNS void LANGUAGE plpgsql
  ${byIndex} AS $$
BEGIN
  IF p_woken <> '{}' THEN
    UPDATE @lane SET waits_at = NULL, own_cap = NULL WHERE key = ANY (p_woken) AND waits_at IS NOT NULL;
  END IF;
  IF p_open_gates <> '{}' THEN
    WITH states AS MATERIALIZED (
      ${statesOf(sql`
        (SELECT a AS key FROM unnest(p_open_gates) a WHERE EXISTS (SELECT 1 FROM @lane l WHERE l.waits_at = a)) k`)}),
    clocked AS (
      ${setClocks("states WHERE opens IS NOT NULL AND by_time < 1")})
    INSERT INTO @lane_change (scope, gates)
    SELECT ${scopeOfKey("key")}, ARRAY[key] FROM states s
    WHERE ${leftFor("NULL::int8")} >= 1;
  END IF;
END $$;
`;
