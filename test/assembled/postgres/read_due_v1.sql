-- Jobs whose clock is due, in order of (timer, seq) after (p_timer, p_seq). The last row has no job, but the next
-- clock.
CREATE FUNCTION @read_due_v1(p_now int8, p_clock text, p_timer int8, p_seq int8, p_max int4)
  RETURNS TABLE (now int8, next_clock int8, timer int8,
    id text, seq int8, fence int8, route int8, state int2, rev int4, attempt int4, policy text,
    attempts text, owner text, cancel_asked int2, started_at int8, lease_ends_at int8,
    attempt_ends_at int8, deadline_at int8, ttl_at int8, durable int4)
  LANGUAGE plpgsql
  SET enable_seqscan = off SET enable_bitmapscan = off SET jit = off
  SET plan_cache_mode = force_generic_plan AS $$
#variable_conflict use_column
DECLARE v_now int8 := @begin_v1(p_now, NULL);
BEGIN
  RETURN QUERY SELECT v_now, NULL::int8, r.* FROM (
    (SELECT timer_at AS timer,
        j.id, j.seq, j.fence, j.route, j.state, j.rev, j.attempt, j.policy, j.attempts, j.owner,
        j.cancel_asked, j.started_at, j.lease_ends_at, j.attempt_ends_at, j.deadline_at, j.ttl_at, j.durable
      FROM @leased j
      WHERE true
        AND timer_at <= v_now AND (timer_at, seq) > (p_timer, p_seq) AND
        CASE p_clock
          WHEN 'lease' THEN j.lease_ends_at
          WHEN 'attempt' THEN j.attempt_ends_at
          WHEN 'deadline' THEN j.deadline_at
          WHEN 'ttl' THEN CASE WHEN j.state <> 4 THEN j.ttl_at END
          WHEN 'wake' THEN CASE WHEN j.state = 4 THEN j.ttl_at END END <= v_now
      ORDER BY timer_at, seq LIMIT p_max)
    UNION ALL
    (SELECT timer_at AS timer,
        j.id, j.seq, j.fence, j.route, j.state, j.rev, j.attempt, j.policy, j.attempts, j.owner,
        j.cancel_asked, j.started_at, j.lease_ends_at, j.attempt_ends_at, j.deadline_at, j.ttl_at, j.durable
      FROM @waiting j
      WHERE timer_at IS NOT NULL AND (state <> 1 OR timer_at < due_at)
        AND timer_at <= v_now AND (timer_at, seq) > (p_timer, p_seq) AND
        CASE p_clock
          WHEN 'lease' THEN j.lease_ends_at
          WHEN 'attempt' THEN j.attempt_ends_at
          WHEN 'deadline' THEN j.deadline_at
          WHEN 'ttl' THEN CASE WHEN j.state <> 4 THEN j.ttl_at END
          WHEN 'wake' THEN CASE WHEN j.state = 4 THEN j.ttl_at END END <= v_now
      ORDER BY timer_at, seq LIMIT p_max)
    UNION ALL
    (SELECT due_at AS timer,
        j.id, j.seq, j.fence, j.route, j.state, j.rev, j.attempt, j.policy, j.attempts, j.owner,
        j.cancel_asked, j.started_at, j.lease_ends_at, j.attempt_ends_at, j.deadline_at, j.ttl_at, j.durable
      FROM @waiting j
      WHERE state = 1 AND timer_at = due_at
        AND due_at <= v_now AND (due_at, seq) > (p_timer, p_seq) AND
        CASE p_clock
          WHEN 'lease' THEN j.lease_ends_at
          WHEN 'attempt' THEN j.attempt_ends_at
          WHEN 'deadline' THEN j.deadline_at
          WHEN 'ttl' THEN CASE WHEN j.state <> 4 THEN j.ttl_at END
          WHEN 'wake' THEN CASE WHEN j.state = 4 THEN j.ttl_at END END <= v_now
      ORDER BY due_at, seq LIMIT p_max)) r
  ORDER BY r.timer, r.seq LIMIT p_max;
  RETURN QUERY SELECT v_now, @next_clock_v1(), NULL::int8,
    NULL::text, NULL::int8, NULL::int8, NULL::int8, NULL::int2, NULL::int4, NULL::int4, NULL::text,
    NULL::text, NULL::text, NULL::int2, NULL::int8, NULL::int8, NULL::int8, NULL::int8, NULL::int8,
    NULL::int4;
END $$;
