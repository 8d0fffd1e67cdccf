/**
 * The audit of lanes. It counts the permits that jobs hold, and the first jobs that lanes show, anew from the jobs. In
 * one snapshot, the stored values together with the changes that were appended are exact at every commit. So any
 * difference is an error.
 */
import { stateCodes } from "../../../model/job/job-state.ts";
import { byKey, keyStates, keyUses, laneLock, scopeOfKey, scopeOfQueue, timeLeft } from "./lane.sql.ts";
import { headOf } from "./lanes.sql.ts";
import { sql } from "../../../store/sql.ts";

const { ready } = stateCodes;

const heldBy = (table: string, which: string): string => sql`
  SELECT u.key, j.seq, u.weight, u.cap IS NOT NULL FROM @${table} j CROSS JOIN LATERAL
    ${keyUses("j.lane_gates")}
  WHERE j.lane_gates IS NOT NULL AND ${which}`;

const isKeeping = "j.keeps_lane = 1 AND u.cap IS NOT NULL";

/** Also deletes clocks of keys that no longer delay anything. */
export const auditPermits = sql`
  WITH real AS MATERIALIZED (
    ${heldBy("leased", "true")}
    UNION ALL
    ${heldBy("waiting", isKeeping)}
    UNION ALL
    ${heldBy("history", isKeeping)}),
  missing AS (SELECT * FROM real EXCEPT ALL SELECT key, seq, weight, is_own FROM @permit),
  surplus AS (SELECT key, seq, weight, is_own FROM @permit EXCEPT ALL SELECT * FROM real),
  gone AS (
    DELETE FROM @permit p USING surplus s
    WHERE p.seq = s.seq AND (p.key, p.weight, p.is_own) = (s.key, s.weight, s.is_own) RETURNING p.key),
  added AS (INSERT INTO @permit SELECT m.* FROM missing m RETURNING key)
  SELECT (SELECT count(*) FROM gone) + (SELECT count(*) FROM added), (SELECT array_agg(key) FROM gone)
  INTO v_rows, v_gates;
  IF v_gates IS NOT NULL THEN PERFORM @gates_changed_v1(v_gates); END IF;
  repaired := jsonb_build_object('permit', v_rows);
  DELETE FROM @key_clock WHERE tat_us <= v_now * 1000 AND opens_at IS NULL;`;

/**
 * Lanes after p_after: whether they show their first jobs, and whether a lane waits at a gate that would let it pass.
 */
export const auditLanes = sql`
  v_scopes := ARRAY(
    SELECT ${scopeOfQueue("queue")} FROM @route WHERE lanes IS NOT NULL
    UNION SELECT scope FROM @lane_scope UNION SELECT scope FROM @lane_change);
  PERFORM pg_advisory_xact_lock(l.lock) FROM (
    SELECT ${laneLock("s")} AS lock FROM unnest(v_scopes) s ORDER BY 1) l;
  LOOP
    SELECT d.woken, d.open_gates, d.more INTO v_keys, v_gates, v_more
    FROM @apply_lane_changes_v1(v_now, v_scopes, true) d;
    PERFORM @reopen_lanes_v1(v_now, v_keys, v_gates);
    EXIT WHEN NOT v_more;
  END LOOP;
  SELECT array_agg(key), count(*), max(key) INTO v_keys, checked, last FROM (
    (SELECT DISTINCT lane_key AS key FROM @waiting
      WHERE state = ${ready} AND lane_key > p_after ORDER BY 1 LIMIT p_max)
    UNION (SELECT key FROM @lane WHERE key > p_after ORDER BY 1 LIMIT p_max)
    ORDER BY 1 LIMIT p_max) k;
  v_wrong := ARRAY(
    SELECT k FROM unnest(v_keys) k
      LEFT JOIN LATERAL (
        ${headOf("k")}) h ON true
      ${byKey("lane", "k", "l")}
    WHERE NOT EXISTS (SELECT 1 FROM @lane_change t WHERE k = ANY (t.lanes))
      AND (l.route, l.seq, l.pos) IS DISTINCT FROM (h.route, h.seq, CASE
        WHEN h.lane_step IS NULL THEN coalesce(h.rank, l.turn)
        ELSE coalesce(l.turn, l.pos - 1) END));
  -- A lane without ready jobs has no row, or a row that only remembers its turn. So only a row with a job is wrong
  -- then.
  v_wrong := ARRAY(
    SELECT w FROM unnest(v_wrong) w
    WHERE EXISTS (SELECT 1 FROM @lane l WHERE l.key = w AND l.route IS NOT NULL)
      OR EXISTS (SELECT 1 FROM @waiting j WHERE j.lane_key = w AND j.state = ${ready}));
  PERFORM @refresh_lanes_v1(v_now, v_wrong, v_wrong, v_scopes);
  WITH asleep AS (
    SELECT DISTINCT l.waits_at FROM @lane l JOIN LATERAL (
      SELECT g.held, g.cap,
        ${timeLeft("v_now")} AS by_time
      FROM (
        ${keyStates("(SELECT l.waits_at AS key) k")}) g) s ON true
    WHERE l.key = ANY (v_keys) AND l.waits_at IS NOT NULL
      AND coalesce(least(s.by_time, coalesce(l.own_cap, s.cap) - s.held), 1) >= 1
      AND NOT EXISTS (SELECT 1 FROM @lane_change t WHERE l.waits_at = ANY (t.gates))),
  unknown AS (
    INSERT INTO @lane_scope
    SELECT l.queue, ${scopeOfKey("u.key")}
    FROM @lane l
      CROSS JOIN LATERAL (
        ${headOf("l.key")}) h
      CROSS JOIN LATERAL
        ${keyUses("h.lane_gates")}
    WHERE l.key = ANY (v_keys) AND ${scopeOfKey("u.key")} <> ${scopeOfQueue("l.queue")}
    EXCEPT SELECT queue, scope FROM @lane_scope RETURNING 1)
  SELECT array_agg(waits_at), (SELECT count(*) FROM unknown) INTO v_gates, v_rows FROM asleep;
  IF v_gates IS NOT NULL THEN PERFORM @gates_changed_v1(v_gates); END IF;
  repaired := jsonb_build_object('lane', coalesce(array_length(v_wrong, 1), 0),
    'waiting-lane', coalesce(cardinality(v_gates), 0), 'lane-scope', v_rows);`;
