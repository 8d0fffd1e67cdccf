-- Jobs by filters, newest first. p_completed: all finished jobs; p_uncompleted: those that did not complete; p_keeping:
-- those that hold their groups. p_keeps: only jobs that hold their groups, finished or not. Reads at most p_scan rows,
-- in growing chunks. If fewer than p_max jobs were found, a last row without a job says how many rows were read and, if
-- there may be more, below which seq.
CREATE FUNCTION @find_jobs_v1(p_below int8, p_scan int4, p_max int4, p_waiting bool, p_leased bool,
  p_completed bool, p_uncompleted bool, p_keeping bool, p_keeps bool, p_tag text, p_states int2[], p_queue text,
  p_name text, p_requires text, p_reason text, p_after int8, p_before int8) RETURNS TABLE (place int8,
    seq int8, id text, created_at int8, unique_key text, lane_key text, lane_step int8, lane_gates text,
    flow text, edges text, tags text, policy text, meta text, input text, state int2, rev int4, rank int8,
    due_at int8, deadline_at int8, ttl_at int8, attempt int4, counts_attempt int2, fence int8,
    cancel_asked int2, keeps_lane int2, waits text, durable int4, attempts text, progress text, owner text,
    claimed_at int8, started_at int8, lease_ends_at int8, attempt_ends_at int8, ended_at int8,
    keep_until int8, reason text, result text, route int8)
  LANGUAGE plpgsql STABLE AS $$
#variable_conflict use_column
DECLARE
  v_found int8 := 0; v_seen int8 := 0; v_rows int8; v_below int8 := p_below;
  v_chunk int4 := least(p_scan, greatest(2 * p_max, 100));
  v_routes int8[] := CASE WHEN num_nonnulls(p_queue, p_name, p_requires) > 0 THEN ARRAY(
    SELECT number FROM @route
    WHERE (p_queue IS NULL OR queue = p_queue) AND (p_name IS NULL OR name = p_name)
      AND (p_requires IS NULL OR requires = p_requires)) END;
BEGIN
  LOOP
    IF p_tag IS NULL THEN
      RETURN QUERY SELECT v_seen + w.place,
        w.seq, w.id, w.created_at, w.unique_key, w.lane_key, w.lane_step, w.lane_gates, w.flow, w.edges,
        w.tags, w.policy, w.meta, coalesce(w.input, (SELECT p.input FROM @payload p WHERE p.seq = w.seq)),
        w.state, w.rev, w.rank, w.due_at, w.deadline_at, w.ttl_at, w.attempt, w.counts_attempt, w.fence,
        w.cancel_asked, w.keeps_lane, w.waits, w.durable, w.attempts, w.progress, w.owner, w.claimed_at,
        w.started_at, w.lease_ends_at, w.attempt_ends_at, w.ended_at, w.keep_until, w.reason, w.result,
        w.route
      FROM (
        SELECT v.*, row_number() OVER () AS place FROM
        (SELECT * FROM (
          (SELECT seq, id, created_at, unique_key, lane_key, lane_step, lane_gates, flow, edges, tags, policy, meta,
          input, state, rev, rank, due_at, deadline_at, ttl_at, attempt, counts_attempt, fence, cancel_asked,
          keeps_lane, waits, durable, attempts, progress, owner, claimed_at, started_at, lease_ends_at,
          attempt_ends_at, ended_at, keep_until, reason, result, route
            FROM @waiting WHERE seq < v_below AND p_waiting ORDER BY seq DESC LIMIT v_chunk)
          UNION ALL
          (SELECT seq, id, created_at, unique_key, lane_key, lane_step, lane_gates, flow, edges, tags, policy, meta,
          input, state, rev, rank, due_at, deadline_at, ttl_at, attempt, counts_attempt, fence, cancel_asked,
          keeps_lane, waits, durable, attempts, progress, owner, claimed_at, started_at, lease_ends_at,
          attempt_ends_at, ended_at, keep_until, reason, result, route
            FROM @leased WHERE seq < v_below AND p_leased ORDER BY seq DESC LIMIT v_chunk)
          UNION ALL
          (SELECT seq, id, created_at, unique_key, lane_key, lane_step, lane_gates, flow, edges, tags, policy, meta,
          input, state, rev, rank, due_at, deadline_at, ttl_at, attempt, counts_attempt, fence, cancel_asked,
          keeps_lane, waits, durable, attempts, progress, owner, claimed_at, started_at, lease_ends_at,
          attempt_ends_at, ended_at, keep_until, reason, result, route
            FROM @history WHERE seq < v_below AND p_completed ORDER BY seq DESC LIMIT v_chunk)
          UNION ALL
          (SELECT seq, id, created_at, unique_key, lane_key, lane_step, lane_gates, flow, edges, tags, policy, meta,
          input, state, rev, rank, due_at, deadline_at, ttl_at, attempt, counts_attempt, fence, cancel_asked,
          keeps_lane, waits, durable, attempts, progress, owner, claimed_at, started_at, lease_ends_at,
          attempt_ends_at, ended_at, keep_until, reason, result, route
            FROM @history WHERE seq < v_below AND state <> 5 AND p_uncompleted ORDER BY seq DESC LIMIT v_chunk)
          UNION ALL
          (SELECT seq, id, created_at, unique_key, lane_key, lane_step, lane_gates, flow, edges, tags, policy, meta,
          input, state, rev, rank, due_at, deadline_at, ttl_at, attempt, counts_attempt, fence, cancel_asked,
          keeps_lane, waits, durable, attempts, progress, owner, claimed_at, started_at, lease_ends_at,
          attempt_ends_at, ended_at, keep_until, reason, result, route
            FROM @history WHERE seq < v_below AND keeps_lane = 1 AND p_keeping ORDER BY seq DESC LIMIT v_chunk)) a
          ORDER BY seq DESC LIMIT v_chunk) v) w
      WHERE (p_states IS NULL OR w.state = ANY (p_states)) AND (v_routes IS NULL OR w.route = ANY (v_routes))
      AND (p_reason IS NULL OR w.reason = p_reason) AND (p_after IS NULL OR w.created_at > p_after)
      AND (p_before IS NULL OR w.created_at < p_before) AND (NOT p_keeps OR w.keeps_lane = 1)
      ORDER BY w.place LIMIT p_max - v_found;
      GET DIAGNOSTICS v_rows = ROW_COUNT;
      v_found := v_found + v_rows;
      EXIT WHEN v_found = p_max;
      SELECT count(*), min(v.seq) INTO v_rows, v_below FROM
      (SELECT * FROM (
        (SELECT seq, id, created_at, unique_key, lane_key, lane_step, lane_gates, flow, edges, tags, policy, meta,
        input, state, rev, rank, due_at, deadline_at, ttl_at, attempt, counts_attempt, fence, cancel_asked,
        keeps_lane, waits, durable, attempts, progress, owner, claimed_at, started_at, lease_ends_at,
        attempt_ends_at, ended_at, keep_until, reason, result, route
          FROM @waiting WHERE seq < v_below AND p_waiting ORDER BY seq DESC LIMIT v_chunk)
        UNION ALL
        (SELECT seq, id, created_at, unique_key, lane_key, lane_step, lane_gates, flow, edges, tags, policy, meta,
        input, state, rev, rank, due_at, deadline_at, ttl_at, attempt, counts_attempt, fence, cancel_asked,
        keeps_lane, waits, durable, attempts, progress, owner, claimed_at, started_at, lease_ends_at,
        attempt_ends_at, ended_at, keep_until, reason, result, route
          FROM @leased WHERE seq < v_below AND p_leased ORDER BY seq DESC LIMIT v_chunk)
        UNION ALL
        (SELECT seq, id, created_at, unique_key, lane_key, lane_step, lane_gates, flow, edges, tags, policy, meta,
        input, state, rev, rank, due_at, deadline_at, ttl_at, attempt, counts_attempt, fence, cancel_asked,
        keeps_lane, waits, durable, attempts, progress, owner, claimed_at, started_at, lease_ends_at,
        attempt_ends_at, ended_at, keep_until, reason, result, route
          FROM @history WHERE seq < v_below AND p_completed ORDER BY seq DESC LIMIT v_chunk)
        UNION ALL
        (SELECT seq, id, created_at, unique_key, lane_key, lane_step, lane_gates, flow, edges, tags, policy, meta,
        input, state, rev, rank, due_at, deadline_at, ttl_at, attempt, counts_attempt, fence, cancel_asked,
        keeps_lane, waits, durable, attempts, progress, owner, claimed_at, started_at, lease_ends_at,
        attempt_ends_at, ended_at, keep_until, reason, result, route
          FROM @history WHERE seq < v_below AND state <> 5 AND p_uncompleted ORDER BY seq DESC LIMIT v_chunk)
        UNION ALL
        (SELECT seq, id, created_at, unique_key, lane_key, lane_step, lane_gates, flow, edges, tags, policy, meta,
        input, state, rev, rank, due_at, deadline_at, ttl_at, attempt, counts_attempt, fence, cancel_asked,
        keeps_lane, waits, durable, attempts, progress, owner, claimed_at, started_at, lease_ends_at,
        attempt_ends_at, ended_at, keep_until, reason, result, route
          FROM @history WHERE seq < v_below AND keeps_lane = 1 AND p_keeping ORDER BY seq DESC LIMIT v_chunk)) a
        ORDER BY seq DESC LIMIT v_chunk) v;
    ELSE
      RETURN QUERY SELECT v_seen + w.place,
        w.seq, w.id, w.created_at, w.unique_key, w.lane_key, w.lane_step, w.lane_gates, w.flow, w.edges,
        w.tags, w.policy, w.meta, coalesce(w.input, (SELECT p.input FROM @payload p WHERE p.seq = w.seq)),
        w.state, w.rev, w.rank, w.due_at, w.deadline_at, w.ttl_at, w.attempt, w.counts_attempt, w.fence,
        w.cancel_asked, w.keeps_lane, w.waits, w.durable, w.attempts, w.progress, w.owner, w.claimed_at,
        w.started_at, w.lease_ends_at, w.attempt_ends_at, w.ended_at, w.keep_until, w.reason, w.result,
        w.route
      FROM (
        SELECT v.*, row_number() OVER () AS place FROM
        (SELECT k.* FROM (
            SELECT id, seq FROM @tag WHERE tag = p_tag AND seq < v_below ORDER BY seq DESC LIMIT v_chunk) t
          CROSS JOIN LATERAL (
            SELECT
              seq, id, created_at, unique_key, lane_key, lane_step, lane_gates, flow, edges, tags, policy, meta,
              input, state, rev, rank, due_at, deadline_at, ttl_at, attempt, counts_attempt, fence, cancel_asked,
              keeps_lane, waits, durable, attempts, progress, owner, claimed_at, started_at, lease_ends_at,
              attempt_ends_at, ended_at, keep_until, reason, result, route
            FROM @waiting j WHERE j.id = t.id
            UNION ALL SELECT
              seq, id, created_at, unique_key, lane_key, lane_step, lane_gates, flow, edges, tags, policy, meta,
              input, state, rev, rank, due_at, deadline_at, ttl_at, attempt, counts_attempt, fence, cancel_asked,
              keeps_lane, waits, durable, attempts, progress, owner, claimed_at, started_at, lease_ends_at,
              attempt_ends_at, ended_at, keep_until, reason, result, route
            FROM @leased j WHERE j.id = t.id
            UNION ALL SELECT
              seq, id, created_at, unique_key, lane_key, lane_step, lane_gates, flow, edges, tags, policy, meta,
              input, state, rev, rank, due_at, deadline_at, ttl_at, attempt, counts_attempt, fence, cancel_asked,
              keeps_lane, waits, durable, attempts, progress, owner, claimed_at, started_at, lease_ends_at,
              attempt_ends_at, ended_at, keep_until, reason, result, route
            FROM @history j WHERE j.id = t.id) k
          ORDER BY t.seq DESC) v) w
      WHERE (p_states IS NULL OR w.state = ANY (p_states)) AND (v_routes IS NULL OR w.route = ANY (v_routes))
      AND (p_reason IS NULL OR w.reason = p_reason) AND (p_after IS NULL OR w.created_at > p_after)
      AND (p_before IS NULL OR w.created_at < p_before) AND (NOT p_keeps OR w.keeps_lane = 1)
      ORDER BY w.place LIMIT p_max - v_found;
      GET DIAGNOSTICS v_rows = ROW_COUNT;
      v_found := v_found + v_rows;
      EXIT WHEN v_found = p_max;
      SELECT count(*), min(v.seq) INTO v_rows, v_below FROM
      (SELECT k.* FROM (
          SELECT id, seq FROM @tag WHERE tag = p_tag AND seq < v_below ORDER BY seq DESC LIMIT v_chunk) t
        CROSS JOIN LATERAL (
          SELECT
            seq, id, created_at, unique_key, lane_key, lane_step, lane_gates, flow, edges, tags, policy, meta,
            input, state, rev, rank, due_at, deadline_at, ttl_at, attempt, counts_attempt, fence, cancel_asked,
            keeps_lane, waits, durable, attempts, progress, owner, claimed_at, started_at, lease_ends_at,
            attempt_ends_at, ended_at, keep_until, reason, result, route
          FROM @waiting j WHERE j.id = t.id
          UNION ALL SELECT
            seq, id, created_at, unique_key, lane_key, lane_step, lane_gates, flow, edges, tags, policy, meta,
            input, state, rev, rank, due_at, deadline_at, ttl_at, attempt, counts_attempt, fence, cancel_asked,
            keeps_lane, waits, durable, attempts, progress, owner, claimed_at, started_at, lease_ends_at,
            attempt_ends_at, ended_at, keep_until, reason, result, route
          FROM @leased j WHERE j.id = t.id
          UNION ALL SELECT
            seq, id, created_at, unique_key, lane_key, lane_step, lane_gates, flow, edges, tags, policy, meta,
            input, state, rev, rank, due_at, deadline_at, ttl_at, attempt, counts_attempt, fence, cancel_asked,
            keeps_lane, waits, durable, attempts, progress, owner, claimed_at, started_at, lease_ends_at,
            attempt_ends_at, ended_at, keep_until, reason, result, route
          FROM @history j WHERE j.id = t.id) k
        ORDER BY t.seq DESC) v;
    END IF;
    v_seen := v_seen + v_rows;
    IF v_rows < v_chunk OR v_seen >= p_scan THEN
      RETURN QUERY SELECT v_seen,
        CASE WHEN v_rows = v_chunk THEN v_below END, NULL::text, NULL::int8, NULL::text, NULL::text,
        NULL::int8, NULL::text, NULL::text, NULL::text, NULL::text, NULL::text, NULL::text, NULL::text,
        NULL::int2, NULL::int4, NULL::int8, NULL::int8, NULL::int8, NULL::int8, NULL::int4, NULL::int2,
        NULL::int8, NULL::int2, NULL::int2, NULL::text, NULL::int4, NULL::text, NULL::text, NULL::text,
        NULL::int8, NULL::int8, NULL::int8, NULL::int8, NULL::int8, NULL::int8, NULL::text, NULL::text,
        NULL::int8;
      RETURN;
    END IF;
    v_chunk := least(p_scan - v_seen, v_chunk::int8 * 4);
  END LOOP;
END $$;
