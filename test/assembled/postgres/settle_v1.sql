-- p_routes to p_scopes: the routes of all jobs in effects. p_places: the place of each plain settle in the order of the
-- call; null if they are in that order. p_fences: one if all are the same. p_states, p_kinds, p_keeps, p_reasons: the
-- ending of each run. p_durables: whether the jobs of each run are durable; null if none are. Answers one text: time;
-- {position of a plain settle: why it was not applied}; answers of p_singles; routes that may have room at a gate;
-- whether deferred work was left; events of p_singles and of jobs that were freed.
CREATE FUNCTION @settle_v1(p_now int8, p_commit text, p_inside bool, p_steps int4[],
  p_routes int8[], p_queues text, p_names text, p_requires text, p_gates text, p_lanes text, p_scopes text,
  p_ids text, p_seqs int8[], p_fences int8[], p_states int2[], p_kinds int2[], p_keeps int8[], p_reasons text,
  p_results text, p_logs text, p_durables bool[], p_places int4[], p_singles jsonb) RETURNS text LANGUAGE plpgsql
  SET enable_seqscan = off SET enable_nestloop = off SET enable_mergejoin = off SET jit = off
  SET plan_cache_mode = force_generic_plan AS $$
#variable_conflict use_column
DECLARE
  now int8 := coalesce(p_now, floor(extract(epoch FROM clock_timestamp()) * 1000)::int8);
  v_asked text[] := string_to_array(p_ids, E'\x1e', E'\x02');
  v_reasons text[] := string_to_array(p_reasons, E'\x1e', E'\x02');
  v_results text[] := string_to_array(p_results, E'\x1e', E'\x02');
  v_logs text[] := string_to_array(p_logs, E'\x1e', E'\x02');
  v_state int2; v_keep int8; v_reason text; v_durable bool; v_parents text[];
  v_step int4; v_from int4 := 1; v_to int4; v_run int4 := 0;
  v_single int4 := 0; v_answer jsonb; v_answers jsonb; v_refused jsonb; v_events text; v_emitted text; v_all text;
  v_count int4; v_ids text; l_route int8[]; l_rev int4[]; l_attempt int4[]; v_done int4[]; v_keys text[];
  v_freed int8[]; v_dropped int8[]; v_tagged int8[]; v_tags text[]; v_left int8[]; v_ready int8[];
  v_left_lanes text[]; v_limits text[]; v_lanes text[]; v_laned int8[];
  r_at int4[]; r_id text[]; r_flow text[]; r_edges text[]; r_route int8[];
  m_place int4[]; m_id text[]; m_flow text[]; m_edges text[]; m_state int2[]; v_arrived record; v_defers bool := false;
BEGIN
  IF p_commit IS NOT NULL THEN PERFORM set_config('synchronous_commit', p_commit, true); END IF;
  IF NOT p_inside THEN PERFORM set_config('lock_timeout', '30', true); END IF;
  IF p_singles IS NOT NULL THEN
    PERFORM @keep_routes_v1(p_routes, string_to_array(p_queues, E'\x1e', E'\x02'),
      string_to_array(p_names, E'\x1e', E'\x02'),
      string_to_array(p_requires, E'\x1e', E'\x02'), string_to_array(p_gates, E'\x1e', E'\x02'),
      string_to_array(p_lanes, E'\x1e', E'\x02'), string_to_array(p_scopes, E'\x1e', E'\x02'));
    PERFORM @lock_keys_v1(jsonb_path_query_array(p_singles, '$[*].effects'));
    IF array_length(p_steps, 1) > 1 AND NOT p_inside THEN
      PERFORM @lock_targets_v1(v_asked || ARRAY(
        SELECT s->>'id' FROM jsonb_array_elements(p_singles) s WHERE NOT (s->>'isLate')::bool), NULL);
    END IF;
  END IF;
  FOREACH v_step IN ARRAY p_steps LOOP
    IF v_step = 0 THEN
      IF m_id IS NOT NULL THEN
        IF p_inside THEN
          PERFORM @defer_work_v1(now, m_id);
          v_defers := true;
        ELSE
          SELECT * INTO v_arrived
          FROM @arrive_v1(now, m_place, m_id, m_flow, m_edges, m_state, NULL, 64);
          v_emitted := @append_events_v1(v_emitted, v_arrived.events);
          v_all := @append_events_v1(v_all, v_arrived.events);
          v_defers := v_defers OR v_arrived.defers;
        END IF;
        m_place := NULL; m_id := NULL; m_flow := NULL; m_edges := NULL; m_state := NULL;
      END IF;
      v_answer := @item_v1('settle_one_v1', now, p_singles->v_single);
      v_single := v_single + 1;
      v_emitted := @append_events_v1(v_emitted, v_answer->>'events');
      v_all := @append_events_v1(v_all, v_answer->>'events');
      v_left := v_left || (v_answer->>'left')::int8;
      v_defers := v_defers OR coalesce((v_answer->>'defers')::bool, false);
      v_answers := coalesce(v_answers, '[]') || jsonb_build_array(v_answer - '{events,left,lane,defers}'::text[]);
      IF v_answer->>'lane' IS NOT NULL THEN
        v_left_lanes := v_left_lanes || (v_answer->'lane'->>'lane');
        v_limits := v_limits || ARRAY(SELECT jsonb_array_elements_text(v_answer->'lane'->'limits'));
      END IF;
      CONTINUE;
    END IF;
    v_run := v_run + 1;
    v_state := p_states[v_run]; v_keep := p_keeps[v_run]; v_reason := v_reasons[v_run];
    v_durable := coalesce(p_durables[v_run], false);
    v_to := v_from + v_step - 1;
    WITH ended AS (
      DELETE FROM @leased l
      USING unnest(v_asked[v_from:v_to], p_seqs[v_from:v_to], p_fences[v_from:v_to])
        WITH ORDINALITY a(id, seq, fence, o)
      WHERE l.id = ANY (v_asked[v_from:v_to]) AND l.id = a.id AND l.seq = a.seq
        AND l.fence = coalesce(a.fence, p_fences[1])
      RETURNING l.seq, l.created_at, l.route, l.rank, l.due_at, l.fence, l.rev, l.attempt, l.durable, l.counts_attempt,
      l.cancel_asked, l.holds, l.keeps_lane, l.id, l.input, l.unique_hold, l.lane_step, l.deadline_at,
      l.ttl_at, l.claimed_at, l.started_at, l.result_until, l.digest, l.unique_key, l.lane_key, l.lane_gates,
      l.flow, l.edges, l.freed, l.tags, l.policy, l.meta, l.change_token, l.waits, l.attempts, l.progress,
      l.owner,
        a.o::int4 + v_from - 1 AS at),
    kept AS (
      INSERT INTO @history (
        seq, created_at, route, rank, due_at, fence, rev, attempt, durable, state, counts_attempt,
        cancel_asked, holds, keeps_lane, id, input, unique_hold, lane_step, deadline_at, ttl_at, timer_at,
        settled_fence, claimed_at, started_at, lease_ends_at, attempt_ends_at, ended_at, keep_until,
        result_until, digest, unique_key, lane_key, lane_gates, flow, edges, freed, tags, policy, meta,
        change_token, waits, attempts, progress, owner, reason, result)
      SELECT seq, created_at, route, rank, due_at, fence, rev + 1, attempt, durable, v_state, counts_attempt,
      cancel_asked, 0, keeps_lane, id, input, unique_hold, lane_step, deadline_at, ttl_at, NULL, fence,
      claimed_at, started_at, NULL, NULL, now,
      CASE WHEN (flow IS NOT NULL AND waits IS NOT NULL) THEN 8640000000000000 ELSE now + v_keep END,
      result_until, digest, unique_key, lane_key, lane_gates, flow, edges, freed, tags, policy, meta,
      change_token,
      CASE WHEN (flow IS NOT NULL AND waits IS NOT NULL) AND NOT p_inside THEN
        concat_ws(',', split_part(waits, ',', 1), split_part(waits, ',', 2),
          least(coalesce(jsonb_array_length(edges::jsonb), 0), 64), split_part(waits, ',', 4))
      ELSE waits END,
      coalesce(v_logs[at], attempts), progress, owner, v_reason, v_results[at]
      FROM ended WHERE v_keep IS DISTINCT FROM 0 OR (flow IS NOT NULL AND waits IS NOT NULL))
    SELECT count(*), array_agg(at),
      string_agg(id || E'\x1f' ||
        CASE WHEN started_at IS NULL THEN '!' ELSE '' END
          || CASE WHEN octet_length(coalesce(v_logs[at], '')) <= 48
            OR length(coalesce(v_logs[at], '')) <= 48 THEN coalesce(v_logs[at], '') ELSE '' END, E'\x1e'),
      CASE WHEN min(route) = max(route)
        THEN ARRAY[min(route)] ELSE array_agg(route) END,
      CASE WHEN min(rev + 1) = max(rev + 1)
        THEN ARRAY[min(rev + 1)] ELSE array_agg(rev + 1) END,
      CASE WHEN min(attempt) = max(attempt)
        THEN ARRAY[min(attempt)] ELSE array_agg(attempt) END,
      array_agg(unique_key) FILTER (WHERE holds <> 0),
      array_agg(seq) FILTER (WHERE holds <> 0),
      array_agg(seq) FILTER (WHERE v_keep = 0 AND NOT (flow IS NOT NULL AND waits IS NOT NULL)),
      array_agg(seq) FILTER (WHERE v_keep = 0 AND NOT (flow IS NOT NULL AND waits IS NOT NULL) AND tags IS NOT NULL),
      array_agg(tags) FILTER (WHERE v_keep = 0 AND NOT (flow IS NOT NULL AND waits IS NOT NULL) AND tags IS NOT NULL),
      array_agg(lane_key) FILTER (WHERE lane_gates IS NOT NULL),
      array_agg(seq) FILTER (WHERE lane_gates IS NOT NULL),
      array_agg(id) FILTER (WHERE v_durable AND (durable & 8) <> 0),
      array_agg(at) FILTER (WHERE (flow IS NOT NULL AND waits IS NOT NULL)),
      array_agg(id) FILTER (WHERE (flow IS NOT NULL AND waits IS NOT NULL)),
      array_agg(flow) FILTER (WHERE (flow IS NOT NULL AND waits IS NOT NULL)),
      array_agg(edges) FILTER (WHERE (flow IS NOT NULL AND waits IS NOT NULL)),
      array_agg(route) FILTER (WHERE (flow IS NOT NULL AND waits IS NOT NULL))
    INTO v_count, v_done, v_ids, l_route, l_rev, l_attempt, v_keys, v_freed, v_dropped, v_tagged, v_tags, v_lanes,
      v_laned, v_parents, r_at, r_id, r_flow, r_edges, r_route FROM ended;
    IF v_count > 0 THEN
      IF array_length(l_route, 1) = 1 AND array_length(l_rev, 1) = 1 AND array_length(l_attempt, 1) = 1 THEN
        v_events := concat_ws(E'\x1f', p_kinds[v_run] || '+', l_rev[1], l_route[1], v_state, l_attempt[1],
        coalesce('s' || v_reason, ''), replace(v_ids, E'\x1e', E'\x1f'));
        INSERT INTO @state_count VALUES (l_route[1], 3, -v_count),
          (l_route[1], v_state, CASE WHEN v_keep = 0 THEN 0 ELSE v_count END);
      ELSE
        WITH grouped AS (
          SELECT coalesce(g.route, l_route[1]) AS route, coalesce(g.rev, l_rev[1]) AS rev,
            coalesce(g.attempt, l_attempt[1]) AS attempt, false AS is_first, count(*) AS jobs,
            string_agg(g.id, E'\x1f') AS ids
          FROM unnest(l_route, l_rev, l_attempt, string_to_array(v_ids, E'\x1e'))
            WITH ORDINALITY g(route, rev, attempt, id, o)
          GROUP BY 1, 2, 3, 4),
        counted AS (
          INSERT INTO @state_count SELECT route, 3, -sum(jobs) FROM grouped GROUP BY route
            UNION ALL SELECT route, v_state, CASE WHEN v_keep = 0 THEN 0 ELSE sum(jobs) END FROM grouped GROUP BY route)
        SELECT string_agg(
          concat_ws(E'\x1f', p_kinds[v_run] || '+', rev, route, v_state, attempt,
            coalesce('s' || v_reason, ''), ids), E'\x1e')
        INTO v_events FROM grouped;
      END IF;
      v_all := @append_events_v1(v_all, v_events);
      v_left := v_left || l_route;
    END IF;
    IF r_at IS NOT NULL THEN
      m_place := m_place || CASE
        WHEN p_places IS NULL THEN r_at ELSE ARRAY(SELECT p_places[at] FROM unnest(r_at) at) END;
      m_id := m_id || r_id; m_flow := m_flow || r_flow; m_edges := m_edges || r_edges;
      m_state := m_state || array_fill(v_state, ARRAY[cardinality(r_at)]);
      -- Members are kept even if their ending keeps nothing, so they are counted.
      IF v_keep = 0 THEN INSERT INTO @state_count SELECT r, v_state, count(*) FROM unnest(r_route) r GROUP BY r; END IF;
    END IF;
    IF v_parents IS NOT NULL THEN
      PERFORM @defer_work_v1(now, v_parents);
      v_defers := true;
    END IF;
    -- A job without gates of keys does not keep the next job of its lane waiting, so only the others are looked at.
    IF v_laned IS NOT NULL THEN
      v_left_lanes := v_left_lanes || v_lanes;
      v_limits := v_limits || @return_permits_v1(v_laned);
    END IF;
    IF v_keys IS NOT NULL THEN
      DELETE FROM @uniq u USING unnest(v_keys, v_freed) f(key, seq)
      WHERE u.key = ANY (v_keys) AND u.key = f.key AND u.seq = f.seq;
    END IF;
    -- delete_attached_v1 in sets: job by job it cost more than keeping the jobs. Only jobs with tags are done one by
    -- one.
    IF v_dropped IS NOT NULL THEN
      IF v_durable THEN
        DELETE FROM @entry WHERE seq = ANY (v_dropped);
        DELETE FROM @slip WHERE seq = ANY (v_dropped);
      END IF;
      DELETE FROM @journal WHERE seq = ANY (v_dropped);
      DELETE FROM @payload WHERE seq = ANY (v_dropped);
      IF v_tagged IS NOT NULL THEN
        PERFORM @drop_tags_v1(d.seq, d.tags) FROM unnest(v_tagged, v_tags) d(seq, tags);
      END IF;
    END IF;
    IF v_count < v_step THEN
      SELECT coalesce(v_refused, '{}') || jsonb_object_agg(at - 1,
        @refusal_v1(v_asked[at], p_seqs[at], coalesce(p_fences[at], p_fences[1])))
      INTO v_refused FROM generate_series(v_from, v_to) at WHERE at <> ALL (coalesce(v_done, '{}'));
    END IF;
    v_from := v_to + 1;
  END LOOP;
  IF m_id IS NOT NULL THEN
    IF p_inside THEN
      PERFORM @defer_work_v1(now, m_id);
      v_defers := true;
    ELSE
      SELECT * INTO v_arrived
      FROM @arrive_v1(now, m_place, m_id, m_flow, m_edges, m_state, NULL, 64);
      v_emitted := @append_events_v1(v_emitted, v_arrived.events);
      v_all := @append_events_v1(v_all, v_arrived.events);
      v_defers := v_defers OR v_arrived.defers;
    END IF;
    m_place := NULL; m_id := NULL; m_flow := NULL; m_edges := NULL; m_state := NULL;
  END IF;
  PERFORM @emit_v1(now, v_all, p_inside);
  IF EXISTS (SELECT 1 FROM @gate) THEN v_ready := @sharing_v1(v_left); END IF;
  IF v_left_lanes IS NOT NULL THEN v_ready := v_ready || @lane_hints_v1(v_left_lanes, v_limits); END IF;
  RETURN concat_ws(E'\x1f', now, coalesce(v_refused::text, ''), coalesce(v_answers::text, ''),
    coalesce(v_ready::text, ''), v_defers::int4, v_emitted);
END $$;
