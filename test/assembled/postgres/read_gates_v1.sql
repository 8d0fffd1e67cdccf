-- Gates by keys, or those from p_first on that come after p_after. In byte order.
CREATE FUNCTION @read_gates_v1(p_now int8, p_keys text[], p_first text, p_after text, p_max int4,
  OUT now int8, OUT gates jsonb) LANGUAGE plpgsql STABLE AS $$
BEGIN
  now := @begin_v1(p_now, NULL);
  SELECT coalesce(jsonb_agg(to_jsonb(g) || CASE WHEN g.key LIKE E'%\t%' THEN
      (SELECT to_jsonb(s) || jsonb_build_object(
          'tat_us', CASE WHEN s.tat_us > now * 1000 THEN s.tat_us ELSE 0 END, 'has_keys', false)
        FROM (
          SELECT k.key, (SELECT coalesce(sum(p.weight), 0)::int8 FROM @permit p WHERE p.key = k.key) AS held,
            coalesce(o.cap, m.key_cap) AS cap,
            CASE WHEN o.step_us IS NULL THEN m.key_step_us ELSE o.step_us END AS step_us,
            CASE WHEN o.step_us IS NULL THEN m.key_burst_us ELSE o.burst_us END AS burst_us,
            coalesce(t.tat_us, 0) AS tat_us, o.closed_until
          FROM (SELECT g.key) k
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
                AND true OFFSET 0) t ON true) s)
    ELSE jsonb_build_object('held',
      (SELECT coalesce(sum(t.count * u.weight), 0)::int8
        FROM (SELECT DISTINCT route, weight FROM @gate_use WHERE key = g.key) u
          JOIN @state_count t ON t.route = u.route AND t.state = 3)) END ORDER BY g.key), '[]')
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
        (SELECT to_jsonb(s) || jsonb_build_object(
            'tat_us', CASE WHEN s.tat_us > now * 1000 THEN s.tat_us ELSE 0 END, 'has_keys', false)
          FROM (
            SELECT k.key, (SELECT coalesce(sum(p.weight), 0)::int8 FROM @permit p WHERE p.key = k.key) AS held,
              coalesce(o.cap, m.key_cap) AS cap,
              CASE WHEN o.step_us IS NULL THEN m.key_step_us ELSE o.step_us END AS step_us,
              CASE WHEN o.step_us IS NULL THEN m.key_burst_us ELSE o.burst_us END AS burst_us,
              coalesce(t.tat_us, 0) AS tat_us, o.closed_until
            FROM (SELECT g.key) k
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
                  AND true OFFSET 0) t ON true) s)
      FROM (
        SELECT k AS key FROM unnest(p_keys) k
        WHERE k LIKE E'%\t%' AND NOT EXISTS (SELECT 1 FROM @gate o WHERE o.key = k)
          AND (EXISTS (SELECT 1 FROM @permit p WHERE p.key = k)
            OR EXISTS (SELECT 1 FROM @key_clock t WHERE t.key = k AND t.tat_us > now * 1000))) g) e;
    gates := coalesce(gates, '[]');
  END IF;
END $$;
