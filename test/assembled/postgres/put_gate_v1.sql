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
  IF kind = 'ok' AND (p_put->>'emptiesRate')::bool AND v_key LIKE E'%\t%' THEN
    INSERT INTO @key_clock AS c
    SELECT s.key, p_now * 1000 + s.burst_us FROM (
      SELECT k.key, (SELECT coalesce(sum(p.weight), 0)::int8 FROM @permit p WHERE p.key = k.key) AS held,
        coalesce(o.cap, m.key_cap) AS cap,
        CASE WHEN o.step_us IS NULL THEN m.key_step_us ELSE o.step_us END AS step_us,
        CASE WHEN o.step_us IS NULL THEN m.key_burst_us ELSE o.burst_us END AS burst_us,
        coalesce(t.tat_us, 0) AS tat_us, o.closed_until
      FROM (SELECT v_key AS key) k
        LEFT JOIN LATERAL (
          SELECT * FROM @gate r
          WHERE r.key = k.key
            AND true OFFSET 0) o ON true
        LEFT JOIN LATERAL (
          SELECT * FROM @gate r
          WHERE r.key = split_part(k.key, E'\t', 1)
            AND true OFFSET 0) m ON true
        LEFT JOIN LATERAL (
          SELECT * FROM @key_clock r
          WHERE r.key = k.key
            AND true OFFSET 0) t ON true) s
    WHERE s.step_us IS NOT NULL
      ON CONFLICT (key) DO UPDATE SET tat_us = greatest(c.tat_us, excluded.tat_us);
  END IF;
  version := coalesce(version, (SELECT o.version FROM @gate o WHERE o.key = v_key), 0);
END $$;
