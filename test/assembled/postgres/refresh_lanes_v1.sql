-- Shows the first job of each of these lanes. If the first job has changed, or the lane is in p_reopened, the lane
-- waits if a gate of that job lets no permit pass.
CREATE FUNCTION @refresh_lanes_v1(p_now int8, p_lanes text[], p_reopened text[], p_scopes text[]) RETURNS void
  LANGUAGE plpgsql
  SET enable_seqscan = off SET enable_bitmapscan = off SET jit = off
  SET plan_cache_mode = force_generic_plan AS $$
#variable_conflict use_column
BEGIN
  WITH heads AS MATERIALIZED (
    SELECT k.key, h.route, h.rank, h.seq, h.lane_step, h.lane_gates,
      o.route AS old_route, o.seq AS old_seq, o.pos AS old_pos, o.turn AS old_turn
    FROM unnest(p_lanes) k(key)
      LEFT JOIN LATERAL (
        SELECT * FROM @lane r
        WHERE r.key = k.key
          AND true OFFSET 0) o ON true
      LEFT JOIN LATERAL (
        SELECT route, rank, seq, lane_step, lane_gates FROM @waiting
        WHERE lane_key = k.key AND state = 2 
        ORDER BY rank, seq LIMIT 1) h ON true),
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
        SELECT u.key AS gate, u.cap, s.tat_us, CASE WHEN s.by_time < 1 THEN s.opens END AS opens FROM
          (SELECT substr(t, length(split_part(t, ':', 1)) + length(split_part(t, ':', 2)) + 3) AS key,
            split_part(t, ':', 1)::int8 AS weight, nullif(split_part(t, ':', 2), '')::int8 AS cap
            FROM jsonb_array_elements_text(h.lane_gates::jsonb) t) u
          CROSS JOIN LATERAL (
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
              FROM (SELECT u.key AS key) k
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
                    AND true OFFSET 0) t ON true) g) s
        WHERE h.lane_gates IS NOT NULL AND split_part(u.key, E'\t', 1) = ANY (p_scopes)
          AND coalesce(least(s.by_time, coalesce(u.cap, s.cap) - s.held), 1000) < 1
        LIMIT 1) c ON true
    WHERE h.route IS NOT NULL
      AND ((h.old_route, h.old_seq, h.old_pos) IS DISTINCT FROM (h.route, h.seq, n.pos)
        OR h.key = ANY (p_reopened))),
  clocked AS (
    INSERT INTO @key_clock
    SELECT key, tat_us, opens FROM
      (SELECT DISTINCT ON (gate) gate AS key, tat_us, opens FROM shown WHERE opens IS NOT NULL) s
      WHERE true
      ON CONFLICT (key) DO UPDATE SET opens_at = excluded.opens_at)
  INSERT INTO @lane AS l SELECT key, queue, route, pos, seq, turn, gate, cap FROM shown
    ON CONFLICT (key) DO UPDATE SET queue = excluded.queue, route = excluded.route, pos = excluded.pos,
      seq = excluded.seq, turn = excluded.turn, waits_at = excluded.waits_at, own_cap = excluded.own_cap;
END $$;
