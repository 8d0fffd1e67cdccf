-- One end meets each of these targets. If all of them wait for nothing else and are alike (is_alike), they are freed
-- where they lie, in the order of their ids. left: those that have moved since they were read.
CREATE FUNCTION @free_many_v1(p_now int8, p_ids text[], OUT is_alike bool, OUT events text, OUT left text[])
  LANGUAGE plpgsql
  SET enable_seqscan = off SET enable_bitmapscan = off SET jit = off
  SET plan_cache_mode = force_generic_plan AS $$
#variable_conflict use_column
DECLARE
  v_seen record; w int8[];
  v_how text[]; v_due int8; v_ttl int8; v_state int2; v_count int4; v_ids text; l_route int8[]; l_rev int4[];
  l_attempt int4[]; v_lanes text[]; v_lane_routes int8[]; v_events text;
BEGIN
  SELECT count(*) AS jobs, count(freed) AS places, min(waits) AS waits, max(waits) AS last_waits,
    min(freed) AS freed, max(freed) AS last_freed
  INTO v_seen FROM @waiting WHERE id = ANY (p_ids) AND state = 0;
  w := string_to_array(v_seen.waits, ',');
  is_alike := v_seen.places = cardinality(p_ids) AND v_seen.jobs = v_seen.places
    AND v_seen.waits = v_seen.last_waits AND v_seen.freed = v_seen.last_freed
    AND w[1] = 1 AND w[2] >= 0 AND w[4] <> 1 AND cardinality(w) = 4;
  IF NOT is_alike THEN RETURN; END IF;
  w[1] := 0;
  v_how := string_to_array(v_seen.freed, ',');
  v_due := CASE left(v_how[1], 1) WHEN '@' THEN 0 ELSE p_now END + substr(v_how[1], 2)::int8;
  v_ttl := v_due + nullif(v_how[4], '')::int8;
  v_state := CASE WHEN v_due <= p_now THEN 2 ELSE 1 END;
  WITH placed AS (
    UPDATE @waiting SET waits = array_to_string(w, ','), state = v_state, rev = rev + 1, due_at = v_due,
      rank = v_how[2]::int8 + v_how[3]::int8 * v_due, ttl_at = v_ttl,
      timer_at = least(CASE v_state WHEN 1 THEN v_due END, deadline_at, v_ttl)
    WHERE id = ANY (p_ids) AND state = 0 AND waits = v_seen.waits AND freed = v_seen.freed
    RETURNING id, route, rev, attempt, lane_key)
  SELECT count(*), string_agg(id, E'\x1f'),
    CASE WHEN min(route) = max(route)
      THEN ARRAY[min(route)] ELSE array_agg(route) END,
    CASE WHEN min(rev) = max(rev)
      THEN ARRAY[min(rev)] ELSE array_agg(rev) END,
    CASE WHEN min(attempt) = max(attempt)
      THEN ARRAY[min(attempt)] ELSE array_agg(attempt) END,
    array_agg(lane_key) FILTER (WHERE lane_key IS NOT NULL), array_agg(route) FILTER (WHERE lane_key IS NOT NULL)
  INTO v_count, v_ids, l_route, l_rev, l_attempt, v_lanes, v_lane_routes FROM placed;
  IF array_length(l_route, 1) = 1 AND array_length(l_rev, 1) = 1 AND array_length(l_attempt, 1) = 1 THEN
    v_events := concat_ws(E'\x1f', 16, l_rev[1], l_route[1], v_state, l_attempt[1],
    CASE v_state WHEN 1 THEN 'n' || v_due ELSE '' END, v_ids);
    INSERT INTO @state_count VALUES (l_route[1], 0, -v_count),
      (l_route[1], v_state, v_count);
  ELSE
    WITH grouped AS (
      SELECT coalesce(g.route, l_route[1]) AS route, coalesce(g.rev, l_rev[1]) AS rev,
        coalesce(g.attempt, l_attempt[1]) AS attempt, false AS is_first, count(*) AS jobs,
        string_agg(g.id, E'\x1f') AS ids
      FROM unnest(l_route, l_rev, l_attempt, string_to_array(v_ids, E'\x1f'))
        WITH ORDINALITY g(route, rev, attempt, id, o)
      GROUP BY 1, 2, 3, 4),
    counted AS (
      INSERT INTO @state_count SELECT route, 0, -sum(jobs) FROM grouped GROUP BY route
        UNION ALL SELECT route, v_state, sum(jobs) FROM grouped GROUP BY route)
    SELECT string_agg(
      concat_ws(E'\x1f', 16, rev, route, v_state, attempt,
        CASE v_state WHEN 1 THEN 'n' || v_due ELSE '' END, ids), E'\x1e')
    INTO v_events FROM grouped;
  END IF;
  events := @append_events_v1(events, v_events);
  IF v_lanes IS NOT NULL AND v_state = 2 THEN
    PERFORM @lanes_changed_v1(v_lanes, v_lane_routes, NULL);
  END IF;
  IF v_count < cardinality(p_ids) THEN
    "left" := ARRAY(
      SELECT unnest(p_ids) EXCEPT SELECT unnest(string_to_array(v_ids, E'\x1f')));
  END IF;
END $$;
