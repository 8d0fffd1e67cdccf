/**
 * Gates at a claim (rule R7, limits/admit.sql.ts): fragments of claim_v1, for calls with a route that has a gate which
 * was put. A look at the gates precedes each look at the first jobs of the routes. The found jobs are cut before the
 * first one that a gate refuses. That gate is shut for the rest of the call, and the routes that need it leave the
 * offer. So one more look is taken for each gate that gets shut, and plain routes of the same offer go on.
 *
 * A route that is unknown at the beginning of the call also leaves its offer, because its first job may be committed
 * between the look for gates and the look for jobs. If there are no gates, that does not matter: none can be added
 * meanwhile.
 *
 * A claim never waits long for another one. If it cannot lock a gate within a moment, or if a gate has got a cap while
 * the claim waited for its lock, the gate is shut from the beginning. The answer says when to claim again.
 */
import { storeLimits } from "../../../store/contract-limits.ts";
import { timeNow } from "../functions/call.sql.ts";
import { allGates, gateLock, opensAt, tatAfter, permitsLeft } from "./admit.sql.ts";
import { sql } from "../../../store/sql.ts";

const { lockWaitMs } = storeLimits;

/** Lower than the rank of any job, for routes that were not looked at. */
const anyRank = -Number.MAX_SAFE_INTEGER;

/**
 * v_all_routes: the routes of an offer; v_offer: those that are not shut; u_routes to u_permits: a row for each gate of
 * them.
 */
export const declareGates = sql`
  v_has_gates bool; v_gated bool; v_known int8[]; v_gates text[]; v_busy bool; v_shut text[] := '{}'; v_opens int8;
  v_lowest int8[]; v_all_routes int8[]; v_most int8[]; v_rated bool; v_cut int4; v_refusing text[]; v_weights int8[];
  u_routes int8[]; u_keys text[]; u_weights int8[]; u_permits float8[];`;

/**
 * Runs at the beginning of a call, before it looks. So a put that adds a gate waits for claims that did not see the
 * gate. The attempt costs a tenth of a statement and nearly always succeeds.
 */
export const shareAllGates = sql`
  IF NOT pg_try_advisory_xact_lock_shared(${allGates}) THEN
    PERFORM pg_advisory_xact_lock_shared(${allGates});
  END IF;`;

/** Whether there is any gate. */
export const hasGates = "EXISTS (SELECT 1 FROM @gate)";

/** If there is one: v_gates, the gates of the call's routes, which are locked; null if they have none. */
export const lockGates = sql`
  IF v_has_gates THEN
    SELECT coalesce(array_agg(DISTINCT u.route), '{}'), count(g.key) > 0 INTO v_known, v_gated
    FROM @gate_use u LEFT JOIN @gate g ON g.key = u.key WHERE u.route = ANY (p_routes);
    IF v_gated THEN
      SELECT l.keys, l.is_busy INTO v_gates, v_busy FROM @lock_gates_v1(v_known) l;
      now := greatest(now, ${timeNow});
    END IF;
    IF v_busy THEN
      v_shut := v_gates;
      v_opens := now + ${lockWaitMs};
    END IF;
  END IF;`;

/** Runs at the beginning of an offer: an unknown route has no jobs for this call. */
export const leaveUnknown = sql`
  IF v_has_gates AND NOT v_offer <@ v_known THEN
    v_offer := ARRAY(SELECT r FROM unnest(v_offer) r WHERE r = ANY (v_known));
    CONTINUE WHEN v_offer = '{}';
  END IF;
  v_all_routes := v_offer;`;

/** Leaves the routes in v_offer that are not shut. v_most: how many jobs of each may pass at most. */
export const lookAtGates = sql`
  v_cut := NULL;
  WITH gates AS MATERIALIZED (
    SELECT g.key, g.step_us IS NOT NULL AS is_rated,
      CASE WHEN g.key = ANY (v_shut) THEN -1 ELSE
        ${permitsLeft("now")} END AS permits
    FROM @gate g WHERE g.key = ANY (v_gates)),
  uses AS (
    SELECT DISTINCT route, key, weight FROM @gate_use WHERE route = ANY (v_offer) AND key = ANY (v_gates))
  SELECT array_agg(u.route), array_agg(u.key), array_agg(u.weight), array_agg(g.permits), bool_or(g.is_rated)
  INTO u_routes, u_keys, u_weights, u_permits, v_rated FROM uses u JOIN gates g ON g.key = u.key;
  SELECT array_agg(o.route), array_agg(m.most) INTO v_offer, v_most
  FROM unnest(v_offer) o(route) LEFT JOIN (
    SELECT route, floor(min(permits / weight))::int8 AS most
    FROM unnest(u_routes, u_weights, u_permits) u(route, weight, permits) GROUP BY route) m ON m.route = o.route
  WHERE m.most IS NULL OR m.most >= 0;
  IF v_lowest[v_i] IS NULL AND array_length(v_offer, 1) IS DISTINCT FROM array_length(v_all_routes, 1) THEN
    v_lowest[v_i] := ${anyRank};
  END IF;
  EXIT WHEN v_offer IS NULL;`;

/** Keeps of the jobs at v_places, whose routes are v_seen, those before the first one that a gate refuses. */
export const cutByGates = sql`
  IF u_routes IS NOT NULL THEN
    WITH asked AS (
      SELECT j.at, u.key, u.weight, u.permits, sum(u.weight) OVER (PARTITION BY u.key ORDER BY j.at) AS sum
      FROM unnest(v_seen) WITH ORDINALITY j(route, at)
        JOIN unnest(u_routes, u_keys, u_weights, u_permits) u(route, key, weight, permits) ON u.route = j.route)
    SELECT at, array_agg(key), array_agg(weight) INTO v_cut, v_refusing, v_weights
    FROM asked WHERE sum > permits GROUP BY at ORDER BY at LIMIT 1;
    IF v_cut IS NOT NULL THEN
      v_places := v_places[:v_cut - 1];
      v_order := v_order[:v_cut - 1];
    END IF;
  END IF;`;

/** Takes tokens for the jobs that were leased. */
export const takeTokens = sql`
  IF v_rated THEN
    UPDATE @gate g SET tat_us = ${tatAfter("t.permits", "now")} FROM (
      SELECT u.key, sum(u.weight)::float8 AS permits
      FROM unnest(l_seq, l_route) j(seq, route)
        JOIN unnest(u_routes, u_keys, u_weights) u(route, key, weight) ON u.route = coalesce(j.route, l_route[1])
      GROUP BY u.key) t
    WHERE g.key = t.key AND g.step_us IS NOT NULL;
  END IF;`;

/** Shuts the gates that have refused a job for the rest of the call. */
export const shutGates = sql`
  v_shut := v_shut || v_refusing;
  SELECT least(v_opens, min(${opensAt("r.weight", "now")})) INTO v_opens
  FROM unnest(v_refusing, v_weights) r(key, weight) JOIN @gate g ON g.key = r.key;`;

export const claimGatesSql = sql`
-- Waits a moment for the lock of a gate.
CREATE FUNCTION @wait_gate_v1(p_lock int8, p_shared bool) RETURNS bool LANGUAGE plpgsql
  SET lock_timeout = '${lockWaitMs}' AS $$
BEGIN
  IF p_shared THEN
    PERFORM pg_advisory_xact_lock_shared(p_lock);
  ELSE
    PERFORM pg_advisory_xact_lock(p_lock);
  END IF;
  RETURN true;
EXCEPTION WHEN lock_not_available THEN
  RETURN false;
END $$;

-- Locks the gates of these routes that were put, and answers their keys. is_busy: not all of them could be locked as
-- needed.
CREATE FUNCTION @lock_gates_v1(p_routes int8[], OUT keys text[], OUT is_busy bool) LANGUAGE plpgsql AS $$
DECLARE v_locks int8[]; v_free bool[];
BEGIN
  SELECT array_agg(key ORDER BY lock), array_agg(lock ORDER BY lock), array_agg(is_free ORDER BY lock)
  INTO keys, v_locks, v_free FROM (
    SELECT DISTINCT g.key, ${gateLock("g.key")} AS lock, g.cap IS NULL AND g.step_us IS NULL AS is_free
    FROM @gate_use u JOIN @gate g ON g.key = u.key WHERE u.route = ANY (p_routes)) g;
  is_busy := false;
  FOR v_i IN 1..cardinality(keys) LOOP
    CONTINUE WHEN CASE
      WHEN v_free[v_i] THEN pg_try_advisory_xact_lock_shared(v_locks[v_i])
      ELSE pg_try_advisory_xact_lock(v_locks[v_i]) END;
    is_busy := NOT @wait_gate_v1(v_locks[v_i], v_free[v_i]);
    EXIT WHEN is_busy;
  END LOOP;
  IF true = ANY (v_free) AND NOT is_busy THEN
    is_busy := EXISTS (SELECT 1 FROM unnest(keys, v_free) k(key, is_free) JOIN @gate g ON g.key = k.key
        WHERE k.is_free AND (g.cap IS NOT NULL OR g.step_us IS NOT NULL));
  END IF;
END $$;
`;
