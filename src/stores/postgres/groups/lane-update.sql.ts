/**
 * The rows that a claim of lanes writes besides the leases (claim-lanes.sql.ts): permits and clocks of gates, for each
 * lane its new first job or the gate at which it waits, and the highest turn of each queue.
 */
import { stateCodes } from "../../../model/job/job-state.ts";
import { headOf } from "./lanes.sql.ts";
import { opensAfter } from "./lane.sql.ts";
import { sql } from "../../../store/sql.ts";

const { ready } = stateCodes;

/** Locks the rows. If another call holds a row of a lane, the lane is left out and the look is repeated. */
export const hold = sql`
  IF v_taken > 0 THEN
    v_held := ARRAY(
      SELECT ctid FROM @waiting WHERE ctid = ANY (places) AND state = ${ready} FOR UPDATE SKIP LOCKED);
    IF cardinality(v_held) < v_taken THEN
      v_skipped := v_skipped || ARRAY(
        SELECT DISTINCT l_key[c_lane[c]] FROM unnest(v_chosen) c WHERE c_place[c] <> ALL (v_held));
      CONTINUE;
    END IF;
  END IF;`;

const gateRows = sql`
  unnest(g_key, g_keyed, g_step, g_burst, g_tat, g_closed, g_passed, g_weight)
    WITH ORDINALITY g(key, is_keyed, step_us, burst_us, tat_us, closed_until, passed, weight, number)`;
const tatAfterClaim = sql`
  CASE WHEN g.passed > 0 AND g.step_us IS NOT NULL
    THEN greatest(g.tat_us, p_now * 1000) + g.passed * g.step_us ELSE g.tat_us END`;

/** The next job of a lane is known, unless all jobs of it that were read were taken. */
export const writeLanes = sql`
  IF g_key IS NOT NULL THEN
    INSERT INTO @permit
    SELECT g_key[u.gate], c_seq[u.at], u.weight, u.cap IS NOT NULL
    FROM unnest(u_at, u_gate, u_weight, u_cap) u(at, gate, weight, cap)
    WHERE v_takes[u.at] AND g_keyed[u.gate];
    IF v_timed THEN
      INSERT INTO @key_clock AS k
      SELECT g.key,
        ${tatAfterClaim}, o.opens
      FROM
        ${gateRows}
        CROSS JOIN LATERAL (
          SELECT CASE WHEN g.number IN (SELECT u_gate[p] FROM unnest(v_wait_uses) p) THEN
            ${opensAfter("g.passed", "1", "p_now")} END AS opens) o
      WHERE g.is_keyed AND (o.opens IS NOT NULL OR (g.passed > 0 AND g.step_us IS NOT NULL))
        ON CONFLICT (key) DO UPDATE SET tat_us = excluded.tat_us,
          opens_at = coalesce(excluded.opens_at, k.opens_at);
      UPDATE @gate o SET tat_us =
        ${tatAfterClaim}
      FROM
        ${gateRows}
      WHERE o.key = ANY (p_gates) AND o.key = g.key AND NOT g.is_keyed AND g.passed > 0 AND g.step_us IS NOT NULL;
    END IF;
    IF v_any_shut THEN
      SELECT p_shut || array_agg(g.key), min(
        ${opensAfter("g.passed", "g.weight", "p_now")})
      INTO shut, opens FROM
        ${gateRows}
      WHERE g_shut[g.number];
    END IF;
  END IF;
  WITH seen AS MATERIALIZED (
    SELECT s.lane, l_place[s.lane] AS place, l_key[s.lane] AS key, s.taken, c_gates[s.looked] AS gates,
      g_key[u_gate[s.wait_use]] AS waits_at, u_cap[s.wait_use] AS own_cap
    FROM unnest(v_seen, v_last, v_wait_uses) WITH ORDINALITY s(looked, taken, wait_use, lane)
    WHERE s.taken IS NOT NULL
      OR s.wait_use IS NOT NULL AND g_key[u_gate[s.wait_use]] IS DISTINCT FROM l_waits_at[s.lane]),
  nexts AS (
    SELECT lane, min(at) AS at FROM unnest(c_lane) WITH ORDINALITY c(lane, at)
    WHERE at > coalesce(v_last[lane], 0) GROUP BY lane),
  heads AS MATERIALIZED (
    SELECT s.place, coalesce(c_after[s.taken], l_turn[s.lane]) AS turn, coalesce(c_route[n.at], h.route) AS route,
      coalesce(c_seq[n.at], h.seq) AS seq, CASE WHEN n.at IS NULL THEN h.rank ELSE c_rank[n.at] END AS rank,
      CASE WHEN n.at IS NULL THEN h.lane_step ELSE c_after[n.at] END AS step,
      coalesce(c_gates[n.at], h.lane_gates) = s.gates AS asks_alike, s.waits_at, s.own_cap
    FROM seen s LEFT JOIN nexts n ON n.lane = s.lane LEFT JOIN LATERAL (
      ${headOf(
        "s.key",
        sql`
        AND n.at IS NULL AND c_more[s.taken]
          AND (rank, seq) > (c_rank[s.taken], c_seq[s.taken])`,
      )}) h ON true),
  gone AS (
    DELETE FROM @lane WHERE ctid = ANY (ARRAY(
      SELECT h.place FROM heads h WHERE h.route IS NULL AND h.turn IS NULL)))
  UPDATE @lane l SET route = h.route,
    pos = CASE WHEN h.step IS NULL AND h.rank IS NOT NULL THEN h.rank ELSE h.turn END,
    seq = h.seq, turn = h.turn, waits_at = CASE WHEN h.asks_alike THEN h.waits_at END,
    own_cap = CASE WHEN h.asks_alike THEN h.own_cap END
  FROM heads h WHERE l.ctid = h.place AND (h.route IS NOT NULL OR h.turn IS NOT NULL);
  IF c_after[v_chosen[1]] IS NOT NULL THEN
    WITH tops AS (
      INSERT INTO @lane_turn AS t
      SELECT l_queue[c_lane[c]], max(c_pos[c]) FROM unnest(v_chosen) c WHERE c_after[c] IS NOT NULL GROUP BY 1
        ON CONFLICT (queue) DO UPDATE SET top = greatest(t.top, excluded.top) RETURNING queue, top)
    DELETE FROM @lane l USING tops t WHERE l.queue = t.queue AND l.route IS NULL AND l.turn <= t.top;
  END IF;
  IF p_woken <> '{}' THEN
    left_woken := ARRAY(
      SELECT unnest(p_woken) EXCEPT SELECT l_key[s.lane]
      FROM unnest(v_last, v_wait_uses) WITH ORDINALITY s(taken, wait_use, lane)
      WHERE coalesce(s.taken, s.wait_use) IS NOT NULL);
  END IF;`;
