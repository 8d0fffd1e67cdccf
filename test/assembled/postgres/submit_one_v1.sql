-- One plain job with a small input and without tags. Answers: time, state, the clock that was set (0: none), whether
-- the other processes were notified. Empty if its intake is closed.
CREATE FUNCTION @submit_one_v1(p_now int8, p_commit text, p_by text, p_route int8, p_queue text, p_name text,
  p_requires text, p_gates jsonb,
  p_id text, p_policy text, p_meta text, p_input text,
  p_due_in int8, p_due_at int8, p_rank_base int8, p_rank_slope int8, p_deadline_in int8,
  p_deadline_at int8, p_ttl int8) RETURNS text LANGUAGE plpgsql AS $$
DECLARE
  v_now int8 := coalesce(p_now, floor(extract(epoch FROM clock_timestamp()) * 1000)::int8);
  v_due_at int8 := coalesce(p_due_at, v_now + p_due_in);
  v_deadline_at int8 := coalesce(p_deadline_at, v_now + p_deadline_in);
  v_ttl_at int8 := v_due_at + p_ttl;
  v_state int2 := CASE WHEN v_due_at <= v_now THEN 2 ELSE 1 END;
  v_timer_at int8 := least(CASE v_state WHEN 1 THEN v_due_at END, v_deadline_at, v_ttl_at);
  v_feed int8; v_notified bool := false;
BEGIN
  IF p_commit IS NOT NULL THEN PERFORM set_config('synchronous_commit', p_commit, true); END IF;
  IF EXISTS (SELECT 1 FROM @gate WHERE is_intake_closed AND key = 'q:' || p_queue) THEN RETURN ''; END IF;
  PERFORM 1 FROM @route
  WHERE number = p_route AND queue = p_queue AND name = p_name AND requires = p_requires AND gates = p_gates;
  IF NOT FOUND THEN
    PERFORM @keep_routes_v1(ARRAY[p_route], ARRAY[p_queue], ARRAY[p_name], ARRAY[p_requires],
      ARRAY[p_gates::text], NULL, NULL);
  END IF;
  INSERT INTO @waiting (
    seq, created_at, route, rank, due_at, fence, rev, attempt, durable, state, counts_attempt,
    cancel_asked, holds, keeps_lane, id, input, unique_hold, lane_step, deadline_at, ttl_at, timer_at,
    settled_fence, claimed_at, started_at, lease_ends_at, attempt_ends_at, ended_at, keep_until,
    result_until, digest, unique_key, lane_key, lane_gates, flow, edges, freed, tags, policy, meta,
    change_token, waits, attempts, progress, owner, reason, result)
  VALUES (
    nextval('@job_seq'), v_now, p_route, p_rank_base + p_rank_slope * v_due_at, v_due_at, 0, 1, 0, 0,
    v_state, 1, 0, 0, 0, p_id, p_input, NULL, NULL, v_deadline_at, v_ttl_at, v_timer_at, NULL, NULL, NULL,
    NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, p_policy, p_meta, NULL,
    NULL, NULL, NULL, NULL, NULL, NULL);
  INSERT INTO @state_count VALUES (p_route, v_state, 1);
  INSERT INTO @feed (at, body) VALUES (v_now, concat_ws(E'\x1f', 0, 1,
    p_route, v_state, 0,
    CASE WHEN v_state = 1 THEN 'n' || v_due_at ELSE '' END, p_id)) RETURNING id INTO v_feed;
  IF v_feed % 1024 = 0 THEN PERFORM @fold_v1(); END IF;
  IF p_by IS NOT NULL AND pg_try_advisory_xact_lock(hashtextextended('@hint', 0)) THEN
    PERFORM pg_notify(split_part('@hint', '"', 2) || '_hint', '{"by":"' || p_by || '"'
      || CASE WHEN v_state = 2 THEN ',"r":[' || p_route || ']' ELSE '' END
      || coalesce(',"d":' || (v_timer_at - v_now), '') || '}');
    v_notified := true;
  END IF;
  RETURN concat_ws(' ', v_now, v_state, coalesce(v_timer_at, 0), v_notified::int4);
END $$;
