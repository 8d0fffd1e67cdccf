-- The first jobs of these lanes and what their gates let pass, both in one snapshot: the function is STABLE, so its
-- statements share the caller's snapshot. With two snapshots, a job that returned to its lane between them would be
-- missing in the first and hold nothing in the second, and the next job would overtake it.
CREATE FUNCTION @lane_candidates_v1(p_now int8, p_routes int8[], p_scopes text[], p_gates text[], p_shut text[],
  l_key text[], l_turn int8[], l_queue text[], v_bound int8[], v_deep int4,
  OUT c_place tid[], OUT c_seq int8[], OUT c_rank int8[], OUT c_lane int4[], OUT c_route int8[],
  OUT c_gates text[], OUT c_bytes int8[], OUT c_pos int8[], OUT c_after int8[], OUT c_more bool[],
  OUT c_go bool[], OUT v_all_go bool, OUT v_bytes int8, OUT v_certain int4, OUT v_end int4,
  OUT g_key text[], OUT g_keyed bool[], OUT g_held int8[], OUT g_cap int8[], OUT g_time float8[],
  OUT g_step float8[], OUT g_burst float8[], OUT g_tat float8[], OUT g_closed int8[], OUT g_shut bool[],
  OUT u_at int4[], OUT u_gate int4[], OUT u_weight int8[], OUT u_cap int8[], OUT v_timed bool,
  OUT v_unknown bool, OUT v_all_pass bool) LANGUAGE plpgsql STABLE AS $$
#variable_conflict use_column
DECLARE v_deepest int4; v_within int4;
BEGIN
  WITH tops AS MATERIALIZED (SELECT queue, top FROM @lane_turn WHERE queue = ANY (l_queue)),
  found AS (
    SELECT l.lane, greatest(l.turn, t.top, 0) AS top, l.turn, j.*,
      j.route = ANY (p_routes) AND (j.timer_at IS NULL OR j.timer_at > p_now) AS is_offered
    FROM unnest(l_key, l_turn, l_queue) WITH ORDINALITY l(key, turn, queue, lane)
      LEFT JOIN tops t ON t.queue = l.queue
      CROSS JOIN LATERAL (
        SELECT ctid AS place, seq, rank, route, timer_at, lane_step, lane_gates,
          octet_length(coalesce(w.input, (SELECT p.input FROM @payload p WHERE p.seq = w.seq))) AS bytes
        FROM @waiting w WHERE lane_key = l.key AND state = 2 ORDER BY rank, seq LIMIT v_deep) j),
  placed AS (
    SELECT *, row_number() OVER w AS number, bool_and(is_offered) OVER w AS may_go,
      (top + sum(lane_step::float8) OVER w)::int8 AS after,
      CASE
        WHEN lane_step IS NULL THEN rank
        WHEN row_number() OVER w = 1 THEN coalesce(turn, top)
        ELSE (top + sum(lane_step::float8) OVER w)::int8 - lane_step END AS pos
    FROM found WINDOW w AS (PARTITION BY lane ORDER BY rank, seq ROWS UNBOUNDED PRECEDING))
  SELECT array_agg(place), array_agg(seq), array_agg(rank), array_agg(lane), array_agg(route), array_agg(lane_gates),
    array_agg(bytes), array_agg(pos), array_agg(after), array_agg(number = v_deep), array_agg(may_go),
    bool_and(may_go), sum(bytes), count(*), array_position(array_agg(number = v_deep AND may_go), true),
    CASE WHEN v_bound IS NOT NULL THEN count(*) FILTER (WHERE (pos, seq) < (v_bound[1], v_bound[2])) END
  INTO c_place, c_seq, c_rank, c_lane, c_route, c_gates, c_bytes, c_pos, c_after, c_more, c_go, v_all_go, v_bytes,
    v_certain, v_deepest, v_within
  FROM (SELECT * FROM placed ORDER BY pos, seq) c;
  v_end := CASE WHEN v_within <= coalesce(v_deepest, v_within) THEN 0 ELSE c_lane[v_deepest] END;
  v_certain := least(v_certain, v_deepest, v_within);
  IF p_gates IS NOT NULL OR array_length(array_remove(c_gates, NULL), 1) > 0 THEN
    WITH uses AS MATERIALIZED (
      SELECT c.at, u.key, u.weight, u.cap, true AS is_keyed
      FROM unnest(c_gates[:v_certain]) WITH ORDINALITY c(gates, at) CROSS JOIN LATERAL
        (SELECT substr(t, length(split_part(t, ':', 1)) + length(split_part(t, ':', 2)) + 3) AS key,
          split_part(t, ':', 1)::int8 AS weight, nullif(split_part(t, ':', 2), '')::int8 AS cap
          FROM jsonb_array_elements_text(c.gates::jsonb) t) u
      WHERE c.gates IS NOT NULL
      UNION ALL SELECT c.at, u.key, u.weight, NULL, false
      FROM unnest(c_route[:v_certain]) WITH ORDINALITY c(route, at) JOIN (
        SELECT DISTINCT route, key, weight FROM @gate_use
        WHERE route = ANY (p_routes) AND key = ANY (p_gates)) u ON u.route = c.route),
    asked AS MATERIALIZED (
      SELECT key, is_keyed, sum(weight::float8) AS weight, min(cap) AS least_cap, count(cap) < count(*) AS by_gate
      FROM uses GROUP BY key, is_keyed),
    keys AS MATERIALIZED (SELECT key FROM asked WHERE is_keyed),
    states AS MATERIALIZED (
      SELECT row_number() OVER () AS number, g.*,
        is_keyed AND NOT split_part(g.key, E'\t', 1) = ANY (p_scopes) AS is_unknown,
        CASE WHEN g.closed_until > p_now THEN 0
          WHEN g.step_us IS NOT NULL THEN
            greatest(0, floor(
              (p_now * 1000 + g.burst_us - greatest(g.tat_us, p_now * 1000)) / g.step_us)) END AS by_time
      FROM (
        SELECT s.*, true AS is_keyed FROM (
          SELECT k.key, coalesce(p.held, 0) AS held,
            coalesce(o.cap, m.key_cap) AS cap,
            CASE WHEN o.step_us IS NULL THEN m.key_step_us ELSE o.step_us END AS step_us,
            CASE WHEN o.step_us IS NULL THEN m.key_burst_us ELSE o.burst_us END AS burst_us,
            coalesce(t.tat_us, 0) AS tat_us, o.closed_until
          FROM keys k
            LEFT JOIN (
              SELECT p.key, sum(p.weight::float8)::int8 AS held FROM @permit p
              WHERE p.key = ANY (ARRAY(SELECT key FROM keys)) GROUP BY p.key) p ON p.key = k.key
            LEFT JOIN (
              SELECT * FROM @gate WHERE key = ANY (ARRAY(SELECT DISTINCT split_part(k.key, E'\t', 1) FROM keys k))) m
              ON m.key = split_part(k.key, E'\t', 1)
            LEFT JOIN LATERAL (
              SELECT * FROM @gate r
              WHERE r.key = k.key
                AND (SELECT EXISTS (SELECT 1 FROM @gate WHERE key LIKE E'%\t%')) OFFSET 0) o ON true
            LEFT JOIN LATERAL (
              SELECT * FROM @key_clock r
              WHERE r.key = k.key
                AND (o.closed_until IS NOT NULL OR o.step_us IS NOT NULL
                  OR m.key_step_us IS NOT NULL) OFFSET 0) t ON true) s
        UNION ALL SELECT g.key,
          (SELECT coalesce(sum(t.count * u.weight), 0)::int8
            FROM (SELECT DISTINCT route, weight FROM @gate_use WHERE key = g.key) u
              JOIN @state_count t ON t.route = u.route AND t.state = 3), g.cap, g.step_us, g.burst_us, g.tat_us,
          g.closed_until, false
        FROM @gate g WHERE g.key = ANY (p_gates)) g)
    SELECT * INTO v_timed, v_unknown, g_key, g_keyed, g_held, g_cap, g_time, g_step, g_burst, g_tat, g_closed, g_shut,
      u_at, u_gate, u_weight, u_cap, v_all_pass
    FROM (
      SELECT bool_or(step_us IS NOT NULL OR closed_until IS NOT NULL), bool_or(is_unknown), array_agg(key),
        array_agg(is_keyed AND NOT is_unknown), array_agg(held), array_agg(cap), array_agg(by_time), array_agg(step_us),
        array_agg(burst_us), array_agg(tat_us), array_agg(closed_until), array_agg(key = ANY (p_shut) OR is_unknown)
      FROM (SELECT * FROM states ORDER BY number) s) s, (
      SELECT array_agg(at), array_agg(number), array_agg(weight), array_agg(use_cap) FROM (
        SELECT u.at, s.number, u.weight, u.cap AS use_cap
        FROM uses u JOIN states s ON s.key = u.key AND s.is_keyed = u.is_keyed ORDER BY u.at) u) u, (
      SELECT bool_and(a.key <> ALL (p_shut) AND NOT s.is_unknown AND coalesce(a.weight <= least(
          s.by_time, least(a.least_cap, CASE WHEN a.by_gate THEN s.cap END) - s.held), true))
        AND NOT bool_or(s.step_us IS NOT NULL)
      FROM asked a JOIN states s ON s.key = a.key AND s.is_keyed = a.is_keyed) p;
  END IF;
END $$;
