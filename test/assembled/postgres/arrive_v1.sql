-- The ends of these members go along p_max edges each after p_passed (null: from the first one on), in order of
-- p_places. events: of the jobs that were freed. defers: deferred work was left.
CREATE FUNCTION @arrive_v1(p_now int8, p_places int4[], p_ids text[], p_flows text[], p_edges text[], p_states int2[],
  p_passed int4[], p_max int4, OUT events text, OUT defers bool) LANGUAGE plpgsql
  SET enable_seqscan = off SET enable_nestloop = off SET enable_mergejoin = off SET jit = off
  SET plan_cache_mode = force_generic_plan AS $$
#variable_conflict use_column
DECLARE
  g_id text[]; g_ended int2[]; g_meets int4[]; g_misses int4[]; g_times int8[]; v_asked text[];
  v_flows text[] := p_flows; v_left text[]; v_deferred text[]; v_is_left bool;
  t_place tid[]; t_id text[]; t_waits text[]; t_freed text[]; t_state int2[]; v_target record; w int8[];
  v_is_met bool; v_ordered text[]; v_judged record;
  v_is_one bool := cardinality(p_ids) = 1; v_are_met bool; v_own int4; v_many record;
  v_how text[]; v_due int8; v_ttl int8; v_state int2; v_count int4; v_ids text; l_route int8[]; l_rev int4[];
  l_attempt int4[]; v_lanes text[]; v_lane_routes int8[]; v_events text;
BEGIN
  -- If a member has more edges, the first one that is left is also read: it shows that work has to be deferred.
  IF v_is_one THEN
    SELECT array_agg(id) FILTER (WHERE NOT is_left),
    array_agg(ended) FILTER (WHERE NOT is_left),
    array_agg(meets) FILTER (WHERE NOT is_left),
    array_agg(misses) FILTER (WHERE NOT is_left),
      bool_or(is_left), bool_and(meets = 1 AND misses = 0) FILTER (WHERE ended IS NULL)
    INTO g_id, g_ended, g_meets, g_misses, v_is_left, v_are_met FROM (
      SELECT m.place, e.o, e.o > coalesce(m.passed, 0) + p_max AS is_left,
        CASE WHEN length(e.edge) = 2 THEN m.flow
          ELSE m.flow || '.' || substr(e.edge, 3) END AS id,
        CASE WHEN length(e.edge) = 2 THEN m.state END AS ended,
        ((((ascii(substr(e.edge, 1, 1)) - ascii('0')) % 39) >> (m.state - 5)) & 1) AS meets,
        ((((ascii(substr(e.edge, 2, 1)) - ascii('0')) % 39) >> (m.state - 5)) & 1) AS misses
      FROM
        unnest(p_places, p_flows, p_edges, p_states, p_passed) m(place, flow, edges, state, passed)
        CROSS JOIN LATERAL jsonb_array_elements_text(m.edges::jsonb) WITH ORDINALITY e(edge, o)
      WHERE e.o > coalesce(m.passed, 0) AND e.o <= coalesce(m.passed, 0) + p_max + 1
      ORDER BY m.place, e.o) g;
  ELSE
    SELECT array_agg(id) FILTER (WHERE NOT is_left),
    array_agg(ended) FILTER (WHERE NOT is_left),
    array_agg(meets) FILTER (WHERE NOT is_left),
    array_agg(misses) FILTER (WHERE NOT is_left),
      array_agg(times) FILTER (WHERE NOT is_left), bool_or(is_left)
    INTO g_id, g_ended, g_meets, g_misses, g_times, v_is_left FROM (
      SELECT m.times, e.o, e.o > coalesce(m.passed, 0) + p_max AS is_left,
        CASE WHEN length(e.edge) = 2 THEN m.flow
          ELSE m.flow || '.' || substr(e.edge, 3) END AS id,
        CASE WHEN length(e.edge) = 2 THEN m.state END AS ended,
        ((((ascii(substr(e.edge, 1, 1)) - ascii('0')) % 39) >> (m.state - 5)) & 1) AS meets,
        ((((ascii(substr(e.edge, 2, 1)) - ascii('0')) % 39) >> (m.state - 5)) & 1) AS misses
      FROM
        (SELECT flow, edges, state, passed, count(*) AS times
          FROM unnest(p_flows, p_edges, p_states, p_passed) m(flow, edges, state, passed) GROUP BY 1, 2, 3, 4) m
        CROSS JOIN LATERAL jsonb_array_elements_text(m.edges::jsonb) WITH ORDINALITY e(edge, o)
      WHERE e.o > coalesce(m.passed, 0) AND e.o <= coalesce(m.passed, 0) + p_max + 1) g;
  END IF;
  IF v_is_left THEN
    v_deferred := ARRAY(
      SELECT m.id FROM unnest(p_ids, p_edges, p_passed) m(id, edges, passed)
      WHERE coalesce(jsonb_array_length(m.edges::jsonb), 0) > coalesce(m.passed, 0) + p_max);
  END IF;
  IF v_are_met AND cardinality(g_id) >= 16 THEN
    -- The flow is locked before its members, because it comes before them in the order of ids. Its edge is the first
    -- one.
    v_own := count(*) FROM unnest(g_ended) e WHERE e IS NOT NULL;
    IF v_own > 0 THEN PERFORM 1 FROM @waiting WHERE id = p_flows[1] FOR UPDATE; END IF;
    SELECT * INTO v_many FROM @free_many_v1(p_now, g_id[v_own + 1:]);
    IF v_many.is_alike THEN
      events := v_many.events;
      v_left := coalesce(v_many.left, '{}');
      g_id := g_id[:v_own] || v_left;
      g_ended := g_ended[:v_own] || array_fill(NULL::int2, ARRAY[cardinality(v_left)]);
      g_meets := g_meets[:cardinality(g_id)];
      g_misses := g_misses[:v_own] || array_fill(0, ARRAY[cardinality(v_left)]);
    END IF;
  END IF;
  v_asked := g_id;
  FOR i IN 1..50 LOOP
    EXIT WHEN coalesce(cardinality(v_asked), 0) = 0;
    SELECT t_place || array_agg(place), t_id || array_agg(id), t_waits || array_agg(waits),
      t_freed || array_agg(freed), t_state || array_agg(state)
    INTO t_place, t_id, t_waits, t_freed, t_state FROM (
      SELECT ctid AS place, id, waits, freed, state FROM @waiting
      WHERE id = ANY (v_asked) AND state = 0 ORDER BY id FOR UPDATE) t;
    -- Usually each target is named once and is found, so one pass is enough.
    EXIT WHEN cardinality(t_id) = cardinality(g_id);
    v_left := ARRAY(SELECT unnest(v_asked) EXCEPT SELECT unnest(t_id));
    EXIT WHEN v_left = '{}';
    v_flows := ARRAY(SELECT unnest(v_flows) INTERSECT SELECT unnest(v_left));
    IF v_flows <> '{}' THEN
      SELECT t_place || array_agg(place), t_id || array_agg(id), t_waits || array_agg(waits),
        t_freed || array_agg(freed), t_state || array_agg(state)
      INTO t_place, t_id, t_waits, t_freed, t_state FROM (
        SELECT NULL::tid AS place, id, waits, freed, state FROM @history
        WHERE id = ANY (v_flows) AND true ORDER BY id FOR UPDATE) t;
      v_left := ARRAY(SELECT unnest(v_left) EXCEPT SELECT unnest(t_id));
    END IF;
    EXIT WHEN NOT EXISTS (SELECT 1 FROM @waiting WHERE id = ANY (v_left) AND state = 0)
      AND NOT EXISTS (SELECT 1 FROM @history WHERE id = ANY (v_left) AND id = ANY (v_flows));
    IF i = 50 THEN
      RAISE EXCEPTION 'millrace: what the end of a member leads to moves too fast' USING ERRCODE = '40001';
    END IF;
    v_asked := v_left;
  END LOOP;

  -- Targets that are alike and have the same arrivals are written and emitted together.
  FOR v_target IN
    SELECT t.waits, t.freed, t.state, c.met, c.missed, c.ends, array_agg(t.id) AS ids, array_agg(t.place) AS places
    FROM (
      SELECT id, sum(meets * times) AS met, sum(misses * times) AS missed,
        CASE WHEN count(ended) > 0 THEN ARRAY[
          coalesce(sum(times) FILTER (WHERE ended = 5), 0),
          coalesce(sum(times) FILTER (WHERE ended = 6), 0),
          coalesce(sum(times) FILTER (WHERE ended = 7), 0),
          coalesce(sum(times) FILTER (WHERE ended = 8), 0),
          coalesce(sum(times) FILTER (WHERE ended = 9), 0)] END AS ends
      FROM (
        SELECT id, ended, meets, misses, coalesce(times, 1) AS times
        FROM unnest(g_id, g_ended, g_meets, g_misses, g_times) g(id, ended, meets, misses, times)) g
      GROUP BY id) c
      JOIN unnest(t_place, t_id, t_waits, t_freed, t_state) t(place, id, waits, freed, state) ON t.id = c.id
    GROUP BY 1, 2, 3, 4, 5, 6
  LOOP
    w := string_to_array(v_target.waits, ',');
    -- If some ends miss it, or more come than it needs, their order matters.
    IF v_target.state <> 0 OR v_target.missed > 0 OR (w[1] > 0 AND w[1] < v_target.met) THEN
      v_ordered := v_ordered || v_target.ids;
      CONTINUE;
    END IF;
    v_is_met := w[1] > 0 AND w[1] = v_target.met;
    IF v_is_met AND w[4] = 1 THEN v_deferred := v_deferred || v_target.ids; END IF;
    w[1] := w[1] - v_target.met;
    IF v_target.ends IS NOT NULL AND cardinality(w) > 4 THEN
      FOR i IN 1..5 LOOP w[5 + i] := w[5 + i] + v_target.ends[i]; END LOOP;
    END IF;
    IF NOT v_is_met OR v_target.freed IS NULL OR w[2] < 0 THEN
      UPDATE @waiting SET waits = array_to_string(w, ',') WHERE ctid = ANY (v_target.places);
      CONTINUE;
    END IF;
    v_how := string_to_array(v_target.freed, ',');
    v_due := CASE left(v_how[1], 1) WHEN '@' THEN 0 ELSE p_now END + substr(v_how[1], 2)::int8;
    v_ttl := v_due + nullif(v_how[4], '')::int8;
    v_state := CASE WHEN v_due <= p_now THEN 2 ELSE 1 END;
    WITH placed AS (
      UPDATE @waiting SET waits = array_to_string(w, ','), state = v_state, rev = rev + 1, due_at = v_due,
        rank = v_how[2]::int8 + v_how[3]::int8 * v_due, ttl_at = v_ttl,
        timer_at = least(CASE v_state WHEN 1 THEN v_due END, deadline_at, v_ttl)
      WHERE ctid = ANY (v_target.places)
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
  END LOOP;
  IF v_ordered IS NOT NULL THEN
    IF NOT v_is_one THEN
      SELECT array_agg(id) FILTER (WHERE NOT is_left),
      array_agg(ended) FILTER (WHERE NOT is_left),
      array_agg(meets) FILTER (WHERE NOT is_left),
      array_agg(misses) FILTER (WHERE NOT is_left)
      INTO g_id, g_ended, g_meets, g_misses FROM (
        SELECT m.place, e.o, e.o > coalesce(m.passed, 0) + p_max AS is_left,
          CASE WHEN length(e.edge) = 2 THEN m.flow
            ELSE m.flow || '.' || substr(e.edge, 3) END AS id,
          CASE WHEN length(e.edge) = 2 THEN m.state END AS ended,
          ((((ascii(substr(e.edge, 1, 1)) - ascii('0')) % 39) >> (m.state - 5)) & 1) AS meets,
          ((((ascii(substr(e.edge, 2, 1)) - ascii('0')) % 39) >> (m.state - 5)) & 1) AS misses
        FROM
          unnest(p_places, p_flows, p_edges, p_states, p_passed) m(place, flow, edges, state, passed)
          CROSS JOIN LATERAL jsonb_array_elements_text(m.edges::jsonb) WITH ORDINALITY e(edge, o)
        WHERE e.o > coalesce(m.passed, 0) AND e.o <= coalesce(m.passed, 0) + p_max + 1
        ORDER BY m.place, e.o) g;
    END IF;
    SELECT * INTO v_judged FROM @arrive_in_order_v1(p_now, v_ordered, g_id, g_ended, g_meets, g_misses,
      t_place, t_id, t_waits, t_freed, t_state);
    events := @append_events_v1(events, v_judged.events);
    v_deferred := v_deferred || v_judged.deferred;
  END IF;
  defers := cardinality(v_deferred) > 0;
  IF defers THEN PERFORM @defer_work_v1(p_now, v_deferred); ELSE defers := false; END IF;
END $$;
