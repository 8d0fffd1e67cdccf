-- p_job as place_new_v1 takes it, with onHeld, and with queueGate if its intake may be closed. how: null if the id
-- exists with another digest; 'intake-closed' for a new job; 'key-held' for a member whose key another job holds.
CREATE FUNCTION @submit_job_v1(p_now int8, p_job jsonb, p_repeat bool, OUT id text, OUT how text, OUT events text)
  LANGUAGE plpgsql AS $$
#variable_conflict use_column
DECLARE
  v_id text := p_job->'given'->>'id'; v_digest text := p_job->'given'->>'digest';
  v_key text := p_job->'given'->>'unique_key';
  v_mayexist bool := v_digest IS NOT NULL OR p_repeat; v_known record; v_holder record; h @waiting; j @waiting;
BEGIN
  id := v_id;
  FOR i IN 1..50 LOOP
    IF v_mayexist THEN
      SELECT k.digest INTO v_known FROM (
        SELECT j.digest FROM @waiting j WHERE j.id = v_id
        UNION ALL SELECT j.digest FROM @leased j WHERE j.id = v_id
        UNION ALL SELECT j.digest FROM @history j WHERE j.id = v_id) k;
      IF FOUND THEN
        IF v_known.digest IS NOT DISTINCT FROM v_digest THEN how := 'existing'; END IF;
        RETURN;
      END IF;
    END IF;
    IF p_job ? 'queueGate' AND EXISTS (SELECT 1 FROM @gate WHERE is_intake_closed AND key = p_job->>'queueGate') THEN
      how := 'intake-closed';
      RETURN;
    END IF;
    IF v_key IS NOT NULL THEN
      SELECT u.seq, u.id INTO v_holder FROM @uniq u
        WHERE u.key = v_key AND (u.held_until IS NULL OR u.held_until > p_now);
      IF FOUND THEN
        IF p_job->'given'->>'waits' IS NOT NULL THEN how := 'key-held'; RETURN; END IF;
        IF p_job->>'onHeld' <> 'keep' THEN
          SELECT * INTO h FROM @waiting w
          WHERE w.id = v_holder.id AND attempt = 0 AND state IN (1, 2) AND waits IS NULL FOR UPDATE;
          IF FOUND THEN
            PERFORM 1 FROM @uniq u WHERE u.key = v_key AND u.seq = h.seq;
            IF NOT FOUND THEN CONTINUE; END IF;
            events := @meet_v1(p_now, h, p_job);
            id := v_holder.id;
            how := 'replaced';
            RETURN;
          END IF;
        END IF;
        id := v_holder.id;
        how := 'existing';
        RETURN;
      END IF;
    END IF;
    IF j.seq IS NULL THEN
      j := @place_new_v1(p_now, p_job);
      IF octet_length(j.input) > 1024 THEN j.input := NULL; END IF;
    END IF;
    IF v_key IS NOT NULL THEN
      INSERT INTO @uniq AS u VALUES (v_key, j.seq, j.id, CASE WHEN j.unique_hold > 0 THEN p_now + j.unique_hold END)
        ON CONFLICT (key) DO UPDATE SET seq = excluded.seq, id = excluded.id, held_until = excluded.held_until
          WHERE u.held_until <= p_now;
      IF NOT FOUND THEN CONTINUE; END IF;
    END IF;
    IF NOT v_mayexist THEN
      INSERT INTO @waiting (
        seq, created_at, route, rank, due_at, fence, rev, attempt, durable, state, counts_attempt,
        cancel_asked, holds, keeps_lane, id, input, unique_hold, lane_step, deadline_at, ttl_at, timer_at,
        settled_fence, claimed_at, started_at, lease_ends_at, attempt_ends_at, ended_at, keep_until,
        result_until, digest, unique_key, lane_key, lane_gates, flow, edges, freed, tags, policy, meta,
        change_token, waits, attempts, progress, owner, reason, result)
      SELECT (j).*;
      how := 'created';
      EXIT;
    END IF;
    INSERT INTO @waiting (
      seq, created_at, route, rank, due_at, fence, rev, attempt, durable, state, counts_attempt,
      cancel_asked, holds, keeps_lane, id, input, unique_hold, lane_step, deadline_at, ttl_at, timer_at,
      settled_fence, claimed_at, started_at, lease_ends_at, attempt_ends_at, ended_at, keep_until,
      result_until, digest, unique_key, lane_key, lane_gates, flow, edges, freed, tags, policy, meta,
      change_token, waits, attempts, progress, owner, reason, result)
    SELECT (j).* ON CONFLICT DO NOTHING;
    IF FOUND THEN
      PERFORM 1 FROM @leased l WHERE l.id = j.id UNION ALL SELECT 1 FROM @history h WHERE h.id = j.id;
      IF NOT FOUND THEN how := 'created'; EXIT; END IF;
      DELETE FROM @waiting w WHERE w.id = j.id AND w.seq = j.seq;
    END IF;
    DELETE FROM @uniq u WHERE u.key = v_key AND u.seq = j.seq;
  END LOOP;
  IF how IS NULL THEN
    RAISE EXCEPTION 'millrace: the id or key of % changes hands too fast', id USING ERRCODE = '40001';
  END IF;
  IF j.input IS NULL THEN INSERT INTO @payload VALUES (j.seq, p_job->'given'->>'input'); END IF;
  PERFORM @add_tags_v1(j);
  IF j.lane_key IS NOT NULL THEN PERFORM @lanes_changed_v1(ARRAY[j.lane_key], ARRAY[j.route], NULL); END IF;
  INSERT INTO @state_count VALUES (j.route, j.state, 1);
  events := @event_v1(0, j);
END $$;
