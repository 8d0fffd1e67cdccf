-- ready: the routes of the gates that were put. p_careful: takes only locks that are free.
CREATE FUNCTION @put_gates_v1(p_now int8, p_commit text, p_puts jsonb, p_careful bool,
  OUT answers jsonb, OUT ready int8[]) LANGUAGE plpgsql AS $$
DECLARE
  v_now int8; v_put jsonb; v_one record; v_events text; v_waits text[];
  v_keys text[] := ARRAY(SELECT DISTINCT p->>'key' FROM jsonb_array_elements(p_puts) p);
  v_keyed bool := EXISTS (SELECT 1 FROM unnest(v_keys) k WHERE k LIKE E'%\t%')
    OR EXISTS (SELECT 1 FROM jsonb_array_elements(p_puts) p WHERE jsonb_typeof(p->'perKey') = 'object')
    OR EXISTS (SELECT 1 FROM @gate WHERE key = ANY (v_keys) AND has_keys);
BEGIN
  IF p_careful THEN
    IF v_keyed THEN
      PERFORM pg_try_advisory_xact_lock(l.lock) FROM
        (SELECT hashtextextended('@lane' || s, 0) AS lock FROM (
          SELECT DISTINCT split_part(k, E'\t', 1) AS s FROM unnest(v_keys) k) s ORDER BY 1) l;
    END IF;
    PERFORM pg_try_advisory_xact_lock(l.lock) FROM
      (SELECT hashtextextended('@gate' || k, 0) AS lock FROM unnest(v_keys) k ORDER BY 1) l;
  ELSE
    PERFORM set_config('lock_timeout', '30', true);
    IF EXISTS (SELECT 1 FROM unnest(v_keys) k WHERE NOT EXISTS (SELECT 1 FROM @gate g WHERE g.key = k)) THEN
      PERFORM pg_advisory_xact_lock(hashtextextended('@gate', 0));
    END IF;
    IF v_keyed THEN
      PERFORM pg_advisory_xact_lock(l.lock) FROM
        (SELECT hashtextextended('@lane' || s, 0) AS lock FROM (
          SELECT DISTINCT split_part(k, E'\t', 1) AS s FROM unnest(v_keys) k) s ORDER BY 1) l;
    END IF;
    PERFORM pg_advisory_xact_lock(l.lock) FROM
      (SELECT hashtextextended('@gate' || k, 0) AS lock FROM unnest(v_keys) k ORDER BY 1) l;
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
        JOIN @lane l ON l.waits_at = k OR (l.waits_at >= k || E'\t' AND l.waits_at < k || E'\n'))
    SELECT array_agg(DISTINCT waits_at), ready || array_agg(DISTINCT route) INTO v_waits, ready FROM waits;
    IF v_waits IS NOT NULL THEN PERFORM @gates_changed_v1(v_waits); END IF;
  END IF;
END $$;
