-- Which lanes that wait at these gates are looked at again (woken; the caller writes them), and at which gates more
-- lanes wait after them (open_gates).
CREATE FUNCTION @wake_lanes_v1(p_now int8, p_gates text[], OUT woken text[], OUT open_gates text[]) LANGUAGE plpgsql
  SET enable_seqscan = off SET enable_bitmapscan = off SET jit = off
  SET plan_cache_mode = force_generic_plan AS $$
#variable_conflict use_column
DECLARE v_many text[]; v_gate text; v_route int8; v_count int4; v_state record; v_woken bool;
BEGIN
  SELECT coalesce(array_agg(key) FILTER (WHERE lanes <= 4), '{}'),
    array_agg(DISTINCT gate) FILTER (WHERE lanes > 4)
  INTO woken, v_many FROM (
    SELECT g.key AS gate, l.key, count(*) OVER (PARTITION BY g.key) AS lanes
    FROM unnest(p_gates) g(key)
      CROSS JOIN LATERAL (SELECT key FROM @lane WHERE waits_at = g.key LIMIT 5) l) w;
  open_gates := '{}';
  FOREACH v_gate IN ARRAY coalesce(v_many, '{}') LOOP
    SELECT * INTO v_state FROM (
      SELECT g.key, g.held, g.cap,
        CASE WHEN g.closed_until > p_now THEN 0
          WHEN g.step_us IS NOT NULL THEN
            greatest(0, floor(
              (p_now * 1000 + g.burst_us - greatest(g.tat_us, p_now * 1000)) / g.step_us)) END AS by_time,
        CASE WHEN g.closed_until IS DISTINCT FROM 8640000000000000 THEN (
          SELECT at FROM (
            SELECT greatest(g.closed_until, ceil((
              CASE WHEN 0 > 0
                THEN greatest(g.tat_us, p_now * 1000) + 0 * g.step_us ELSE g.tat_us END
                + 1 * g.step_us - g.burst_us) / 1000))::int8 AS at) o
          WHERE at > p_now) END AS opens, g.tat_us
      FROM (
        SELECT k.key, (SELECT coalesce(sum(p.weight), 0)::int8 FROM @permit p WHERE p.key = k.key) AS held,
          coalesce(o.cap, m.key_cap) AS cap,
          CASE WHEN o.step_us IS NULL THEN m.key_step_us ELSE o.step_us END AS step_us,
          CASE WHEN o.step_us IS NULL THEN m.key_burst_us ELSE o.burst_us END AS burst_us,
          coalesce(t.tat_us, 0) AS tat_us, o.closed_until
        FROM (SELECT v_gate AS key) k
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
              AND true OFFSET 0) t ON true) g) g;
    IF v_state.by_time < 1 AND v_state.opens IS NOT NULL THEN
      INSERT INTO @key_clock
      SELECT key, tat_us, opens FROM
        (SELECT v_gate AS key, v_state.tat_us, v_state.opens) s WHERE true
        ON CONFLICT (key) DO UPDATE SET opens_at = excluded.opens_at;
    END IF;
    v_route := NULL;
    v_woken := false;
    LOOP
      SELECT route, coalesce(least(v_state.by_time, coalesce(own_cap, v_state.cap) - v_state.held), 1000)
      INTO v_route, v_count FROM @lane
      WHERE waits_at = v_gate AND route > coalesce(v_route, -1) ORDER BY route, pos, seq LIMIT 1;
      EXIT WHEN v_route IS NULL;
      CONTINUE WHEN v_count < 1;
      v_woken := true;
      woken := woken || ARRAY(
        SELECT key FROM @lane WHERE waits_at = v_gate AND route = v_route
        ORDER BY pos, seq LIMIT least(v_count, 1000));
    END LOOP;
    IF v_woken THEN open_gates := open_gates || v_gate; END IF;
  END LOOP;
END $$;
