-- At the end of a claim: lanes that were woken and not written yet wait no more. Open gates are looked at again by the
-- next claim, or when their clock opens them.
CREATE FUNCTION @reopen_lanes_v1(p_now int8, p_woken text[], p_open_gates text[]) RETURNS void LANGUAGE plpgsql
  SET enable_seqscan = off SET enable_bitmapscan = off SET jit = off
  SET plan_cache_mode = force_generic_plan AS $$
BEGIN
  IF p_woken <> '{}' THEN
    UPDATE @lane SET waits_at = NULL, own_cap = NULL WHERE key = ANY (p_woken) AND waits_at IS NOT NULL;
  END IF;
  IF p_open_gates <> '{}' THEN
    WITH states AS MATERIALIZED (
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
        FROM (SELECT a AS key FROM unnest(p_open_gates) a WHERE EXISTS (SELECT 1 FROM @lane l WHERE l.waits_at = a)) k
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
              AND true OFFSET 0) t ON true) g),
    clocked AS (
      INSERT INTO @key_clock
      SELECT key, tat_us, opens FROM
        states WHERE opens IS NOT NULL AND by_time < 1
        ON CONFLICT (key) DO UPDATE SET opens_at = excluded.opens_at)
    INSERT INTO @lane_change (scope, gates)
    SELECT split_part(key, E'\t', 1), ARRAY[key] FROM states s
    WHERE coalesce(least(s.by_time, coalesce(NULL::int8, s.cap) - s.held), 1000) >= 1;
  END IF;
END $$;
