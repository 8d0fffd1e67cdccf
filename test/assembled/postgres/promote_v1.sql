-- Promotes due jobs, up to p_max (rule R5). ready: their routes; more: whether more may be due.
CREATE FUNCTION @promote_v1(p_now int8, p_commit text, p_max int4,
  OUT now int8, OUT jobs int8, OUT ready int8[], OUT more bool, OUT next_clock int8) LANGUAGE plpgsql
  SET enable_seqscan = off SET enable_bitmapscan = off SET jit = off
  SET plan_cache_mode = force_generic_plan AS $$
#variable_conflict use_column
DECLARE
  v_events text; v_routes int8[]; v_due int4; v_share int4; v_count int4 := 0; v_ids text; l_route int8[];
  l_rev int4[]; l_attempt int4[]; v_lanes text[]; v_lane_routes int8[]; v_laned int8[];
BEGIN
  now := @begin_v1(p_now, p_commit);
  SELECT count(*), array_agg(DISTINCT route) INTO v_due, v_routes FROM (
    SELECT route FROM @waiting WHERE state = 1 AND due_at <= now ORDER BY due_at, seq LIMIT p_max + 1) d;
  IF v_due > p_max THEN
    WITH RECURSIVE head AS (
      (SELECT route, due_at FROM @waiting WHERE state = 1 AND true
        ORDER BY route, due_at, seq LIMIT 1)
      UNION ALL SELECT n.* FROM head CROSS JOIN LATERAL
      (SELECT route, due_at FROM @waiting WHERE state = 1 AND route > head.route
        ORDER BY route, due_at, seq LIMIT 1) n)
    SELECT array_agg(route ORDER BY due_at, route) INTO v_routes FROM head WHERE due_at <= now;
  END IF;
  IF v_due > 0 THEN
    v_share := greatest(1, p_max / array_length(v_routes, 1));
    WITH promoted AS (
      UPDATE @waiting SET state = 2, rev = rev + 1, timer_at = least(deadline_at, ttl_at), keeps_lane = 0
      WHERE ctid = ANY (ARRAY(
        SELECT d.ctid FROM unnest(v_routes[1:p_max]) r(route) CROSS JOIN LATERAL (
          SELECT ctid FROM @waiting w WHERE state = 1 AND w.route = r.route AND due_at <= now
          ORDER BY due_at, seq LIMIT v_share FOR UPDATE SKIP LOCKED) d))
      RETURNING route, rev, attempt, id, seq, lane_key, lane_gates)
    SELECT count(*), string_agg(id, E'\x1f'), array_agg(DISTINCT route),
      CASE WHEN min(route) = max(route)
        THEN ARRAY[min(route)] ELSE array_agg(route) END,
      CASE WHEN min(rev) = max(rev)
        THEN ARRAY[min(rev)] ELSE array_agg(rev) END,
      CASE WHEN min(attempt) = max(attempt)
        THEN ARRAY[min(attempt)] ELSE array_agg(attempt) END,
      array_agg(lane_key) FILTER (WHERE lane_key IS NOT NULL), array_agg(route) FILTER (WHERE lane_key IS NOT NULL),
      array_agg(seq) FILTER (WHERE lane_gates IS NOT NULL)
    INTO v_count, v_ids, ready, l_route, l_rev, l_attempt, v_lanes, v_lane_routes, v_laned FROM promoted;
    IF v_count > 0 THEN
      IF array_length(l_route, 1) = 1 AND array_length(l_rev, 1) = 1 AND array_length(l_attempt, 1) = 1 THEN
        v_events := concat_ws(E'\x1f', 2, l_rev[1], l_route[1], 2, l_attempt[1],
        '', v_ids);
        INSERT INTO @state_count VALUES (l_route[1], 1, -v_count),
          (l_route[1], 2, v_count);
      ELSE
        WITH grouped AS (
          SELECT coalesce(g.route, l_route[1]) AS route, coalesce(g.rev, l_rev[1]) AS rev,
            coalesce(g.attempt, l_attempt[1]) AS attempt, false AS is_first, count(*) AS jobs,
            string_agg(g.id, E'\x1f') AS ids
          FROM unnest(l_route, l_rev, l_attempt, string_to_array(v_ids, E'\x1f'))
            WITH ORDINALITY g(route, rev, attempt, id, o)
          GROUP BY 1, 2, 3, 4),
        counted AS (
          INSERT INTO @state_count SELECT route, 1, -sum(jobs) FROM grouped GROUP BY route
            UNION ALL SELECT route, 2, sum(jobs) FROM grouped GROUP BY route)
        SELECT string_agg(
          concat_ws(E'\x1f', 2, rev, route, 2, attempt,
            '', ids), E'\x1e')
        INTO v_events FROM grouped;
      END IF;
      PERFORM @emit_v1(now, v_events, false);
    END IF;
    IF v_lanes IS NOT NULL THEN
      PERFORM @lanes_changed_v1(v_lanes, v_lane_routes, NULL);
      -- A retry that kept its lane has held the gate of its group until now.
      PERFORM @return_permits_v1(v_laned);
    END IF;
  END IF;
  jobs := v_count;
  -- If nothing could be promoted, other calls hold the due jobs, so looking again at once is useless.
  more := jobs > 0 AND EXISTS (
    SELECT 1 FROM @waiting WHERE state = 1 AND due_at <= now ORDER BY due_at, seq LIMIT 1);
  next_clock := @next_clock_v1();
END $$;
