/**
 * Puts and reads gates (rule R7, limits/admit.sql.ts). A put waits a moment for claims that may be passing the gate, so
 * that the new bounds hold from the answer on. It does not wait for a claim that is itself held up: the put is sent
 * again, and then takes only the locks that are free (patiently in call.ts).
 *
 * A settle or a change by which jobs leave \`running\` answers the routes that share a capped gate with them.
 */
import { waitBriefly } from "../functions/each-item.sql.ts";
import { allGates, gateLock, held } from "./admit.sql.ts";
import { keyStates, laneLock, scopeOfKey } from "../groups/lane.sql.ts";
import { sql } from "../../../store/sql.ts";

const areNew =
  "EXISTS (SELECT 1 FROM unnest(v_keys) k WHERE NOT EXISTS (SELECT 1 FROM @gate g WHERE g.key = k))";
const scopesInOrder = sql`
  (SELECT ${laneLock("s")} AS lock FROM (
    SELECT DISTINCT ${scopeOfKey("k")} AS s FROM unnest(v_keys) k) s ORDER BY 1) l`;
const gatesInOrder = sql`
  (SELECT ${gateLock("k")} AS lock FROM unnest(v_keys) k ORDER BY 1) l`;

/** The pattern of gates of keys, which belong to a limit or a group. */
const anyKeyed = "E'%\\t%'";

/** The shown fields of gate g, the gate of a key: its bounds, and its token time if that is still ahead. */
const shownKey = sql`
  (SELECT to_jsonb(s) || jsonb_build_object(
      'tat_us', CASE WHEN s.tat_us > now * 1000 THEN s.tat_us ELSE 0 END, 'has_keys', false)
    FROM (
      ${keyStates("(SELECT g.key) k")}) s)`;

export const gatesSql = sql`
-- guard: the version that must be there, 0 for none, null for any. version: the new one, or the current one of a
-- refusal.
CREATE FUNCTION @put_gate_v1(p_now int8, p_put jsonb, OUT kind text, OUT version int8) LANGUAGE plpgsql AS $$
#variable_conflict use_column
DECLARE
  v_key text := p_put->>'key'; v_guard int8 := (p_put->>'guard')::int8;
  v_burst float8 := (p_put->'rate'->>'burstUs')::float8;
BEGIN
  INSERT INTO @gate AS g
  SELECT v_key, 1, (p_put->>'cap')::int8, (p_put->'rate'->>'stepUs')::float8, v_burst,
    CASE WHEN (p_put->>'emptiesRate')::bool AND v_burst IS NOT NULL THEN p_now * 1000 + v_burst ELSE 0 END,
    @due_v1(p_now, p_put->'closed'), (p_put->>'isIntakeClosed')::bool, p_put->>'body',
    jsonb_typeof(p_put->'perKey') = 'object', (p_put->'perKey'->>'cap')::int8,
    (p_put->'perKey'->'rate'->>'stepUs')::float8, (p_put->'perKey'->'rate'->>'burstUs')::float8
  WHERE v_guard IS NULL OR v_guard = 0 OR EXISTS (SELECT 1 FROM @gate o WHERE o.key = v_key)
    ON CONFLICT (key) DO UPDATE SET version = g.version + 1, cap = excluded.cap, step_us = excluded.step_us,
      burst_us = excluded.burst_us, tat_us = greatest(g.tat_us, excluded.tat_us),
      closed_until = excluded.closed_until, is_intake_closed = excluded.is_intake_closed, body = excluded.body,
      has_keys = excluded.has_keys, key_cap = excluded.key_cap, key_step_us = excluded.key_step_us,
      key_burst_us = excluded.key_burst_us
    WHERE v_guard IS NULL OR g.version = v_guard
    RETURNING g.version INTO version;
  kind := CASE WHEN version IS NULL THEN 'changed' ELSE 'ok' END;
  IF kind = 'ok' AND (p_put->>'emptiesRate')::bool AND v_key LIKE ${anyKeyed} THEN
    INSERT INTO @key_clock AS c
    SELECT s.key, p_now * 1000 + s.burst_us FROM (
      ${keyStates("(SELECT v_key AS key) k")}) s
    WHERE s.step_us IS NOT NULL
      ON CONFLICT (key) DO UPDATE SET tat_us = greatest(c.tat_us, excluded.tat_us);
  END IF;
  version := coalesce(version, (SELECT o.version FROM @gate o WHERE o.key = v_key), 0);
END $$;

-- ready: the routes of the gates that were put. p_careful: takes only locks that are free.
CREATE FUNCTION @put_gates_v1(p_now int8, p_commit text, p_puts jsonb, p_careful bool,
  OUT answers jsonb, OUT ready int8[]) LANGUAGE plpgsql AS $$
DECLARE
  v_now int8; v_put jsonb; v_one record; v_events text; v_waits text[];
  v_keys text[] := ARRAY(SELECT DISTINCT p->>'key' FROM jsonb_array_elements(p_puts) p);
  v_keyed bool := EXISTS (SELECT 1 FROM unnest(v_keys) k WHERE k LIKE ${anyKeyed})
    OR EXISTS (SELECT 1 FROM jsonb_array_elements(p_puts) p WHERE jsonb_typeof(p->'perKey') = 'object')
    OR EXISTS (SELECT 1 FROM @gate WHERE key = ANY (v_keys) AND has_keys);
BEGIN
  IF p_careful THEN
    IF v_keyed THEN
      PERFORM pg_try_advisory_xact_lock(l.lock) FROM
        ${scopesInOrder};
    END IF;
    PERFORM pg_try_advisory_xact_lock(l.lock) FROM
      ${gatesInOrder};
  ELSE
    ${waitBriefly}
    IF ${areNew} THEN
      PERFORM pg_advisory_xact_lock(${allGates});
    END IF;
    IF v_keyed THEN
      PERFORM pg_advisory_xact_lock(l.lock) FROM
        ${scopesInOrder};
    END IF;
    PERFORM pg_advisory_xact_lock(l.lock) FROM
      ${gatesInOrder};
  END IF;
  v_now := @begin_v1(p_now, p_commit);
  answers := '[]';
  FOR v_put IN SELECT * FROM jsonb_array_elements(p_puts) LOOP
    SELECT * INTO v_one FROM @put_gate_v1(v_now, v_put);
    answers := answers || to_jsonb(v_one);
    IF v_one.kind = 'ok' THEN v_events := @append_events_v1(v_events, v_put->>'emits'); END IF;
  END LOOP;
  PERFORM @emit_v1(v_now, v_events, false);
  ready := ARRAY(SELECT DISTINCT route FROM @gate_use WHERE key = ANY (v_keys));
  IF v_keyed THEN
    -- Lanes that wait at these gates, or at the gates of keys of these limits.
    WITH waits AS MATERIALIZED (
      SELECT l.waits_at, l.route FROM unnest(v_keys) k
        JOIN @lane l ON l.waits_at = k OR (l.waits_at >= k || E'\\t' AND l.waits_at < k || E'\\n'))
    SELECT array_agg(DISTINCT waits_at), ready || array_agg(DISTINCT route) INTO v_waits, ready FROM waits;
    IF v_waits IS NOT NULL THEN PERFORM @gates_changed_v1(v_waits); END IF;
  END IF;
END $$;

-- Gates by keys, or those from p_first on that come after p_after. In byte order.
CREATE FUNCTION @read_gates_v1(p_now int8, p_keys text[], p_first text, p_after text, p_max int4,
  OUT now int8, OUT gates jsonb) LANGUAGE plpgsql STABLE AS $$
BEGIN
  now := @begin_v1(p_now, NULL);
  SELECT coalesce(jsonb_agg(to_jsonb(g) || CASE WHEN g.key LIKE ${anyKeyed} THEN
      ${shownKey}
    ELSE jsonb_build_object('held',
      ${held}) END ORDER BY g.key), '[]')
  INTO gates FROM (
    SELECT * FROM @gate g
    WHERE CASE WHEN p_keys IS NULL
      THEN g.key >= p_first AND (p_after IS NULL OR g.key > p_after) ELSE g.key = ANY (p_keys) END
    ORDER BY g.key LIMIT p_max) g;
  -- Gates of keys that were never put, but are held or have spent tokens.
  IF p_keys IS NOT NULL THEN
    SELECT jsonb_agg(e ORDER BY e->>'key' COLLATE "C") INTO gates FROM (
      SELECT jsonb_array_elements(gates) AS e
      UNION ALL SELECT jsonb_build_object('version', 0, 'is_intake_closed', false, 'body', NULL) ||
        ${shownKey}
      FROM (
        SELECT k AS key FROM unnest(p_keys) k
        WHERE k LIKE ${anyKeyed} AND NOT EXISTS (SELECT 1 FROM @gate o WHERE o.key = k)
          AND (EXISTS (SELECT 1 FROM @permit p WHERE p.key = k)
            OR EXISTS (SELECT 1 FROM @key_clock t WHERE t.key = k AND t.tat_us > now * 1000))) g) e;
    gates := coalesce(gates, '[]');
  END IF;
END $$;

-- The routes that may have room after jobs have left these; null for none.
CREATE FUNCTION @sharing_v1(p_routes int8[]) RETURNS int8[] LANGUAGE sql STABLE SET enable_nestloop = on AS $$
  SELECT array_agg(DISTINCT o.route)
  FROM @gate_use u JOIN @gate g ON g.key = u.key AND g.cap IS NOT NULL JOIN @gate_use o ON o.key = u.key
  WHERE u.route = ANY (p_routes)
$$;
`;
