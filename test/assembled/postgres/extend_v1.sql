-- Extends leases. p_started: null leaves the start. p_ends: -1 leaves the attempt's end, null clears it.
-- answers: for each lease ok, cancel-asked, unknown, stale or gone. others: leases of the owner that were not named.
-- timer_at: the earliest attempt end that was set. has_emitted: starts were reported that had not been emitted before.
-- p_seens: the last numbers of the journals that the owner knows; null for none. grown: the places of those leases
-- whose journal holds more.
-- A row that another transaction holds is passed over: the other leases must not end because one job is being settled
-- in a caller's long transaction. An append of the run itself holds no lock that this one meets.
CREATE FUNCTION @extend_v1(p_now int8, p_commit text, p_owner text, p_lease int8, p_ids text[], p_seqs int8[],
  p_fences int8[], p_started int8[], p_ends int8[], p_others bool, p_seens int4[],
  OUT now int8, OUT answers text[], OUT timer_at int8, OUT others jsonb, OUT has_emitted bool, OUT grown int4[])
  LANGUAGE plpgsql
  SET enable_seqscan = off SET enable_nestloop = off SET enable_mergejoin = off SET jit = off
  SET plan_cache_mode = force_generic_plan AS $$
#variable_conflict use_column
DECLARE v_events text;
BEGIN
  now := @begin_v1(p_now, p_commit);
  WITH asked AS (
    SELECT * FROM unnest(p_ids, p_seqs, p_fences, p_started, p_ends)
      WITH ORDINALITY a(id, seq, fence, started, ends, o)),
  free AS MATERIALIZED (
    SELECT l.id, l.started_at IS NULL AS is_unstarted FROM @leased l WHERE l.id = ANY (p_ids)
    ORDER BY l.id FOR NO KEY UPDATE SKIP LOCKED),
  extended AS (
    UPDATE @leased l SET lease_ends_at = greatest(l.lease_ends_at, now + p_lease),
      started_at = coalesce(now - a.started, l.started_at),
      attempt_ends_at = CASE WHEN a.ends = -1 THEN l.attempt_ends_at ELSE now + a.ends END,
      timer_at = least(greatest(l.lease_ends_at, now + p_lease),
          CASE WHEN a.ends = -1 THEN l.attempt_ends_at ELSE now + a.ends END, l.deadline_at)
    FROM asked a JOIN free f ON f.id = a.id WHERE l.id = ANY (p_ids) AND l.id = a.id AND l.seq = a.seq
      AND l.fence = a.fence
    RETURNING a.o, l.cancel_asked, CASE WHEN a.ends >= 0 THEN l.attempt_ends_at END AS ends_at,
      CASE WHEN f.is_unstarted AND a.started IS NOT NULL THEN @event_v1(23, ROW(l.*)::@waiting)
        END AS event)
  SELECT array_agg(CASE WHEN e.o IS NULL THEN NULL WHEN e.cancel_asked = 1 THEN 'cancel-asked' ELSE 'ok' END
      ORDER BY a.o), min(e.ends_at),
      string_agg(e.event, E'\x1e' ORDER BY a.o)
    INTO answers, timer_at, v_events FROM asked a LEFT JOIN extended e ON e.o = a.o;
  PERFORM @emit_v1(now, v_events, false);
  has_emitted := v_events IS NOT NULL;
  FOR v_i IN 1..coalesce(array_length(answers, 1), 0) LOOP
    IF answers[v_i] IS NULL THEN answers[v_i] := @lost_v1(p_ids[v_i], p_seqs[v_i], p_fences[v_i]); END IF;
  END LOOP;
  IF p_seens IS NOT NULL THEN
    SELECT array_agg(a.o) INTO grown
    FROM unnest(p_seqs, p_seens, answers) WITH ORDINALITY a(seq, seen, answer, o)
    WHERE a.answer IN ('ok', 'cancel-asked') AND
      coalesce((
        SELECT CASE WHEN e.seq = a.seq THEN greatest(e.number, 0) END FROM @entry e
        WHERE (e.seq, e.number) <= (a.seq, 2147483647) ORDER BY e.seq DESC, e.number DESC LIMIT 1), 0) > a.seen;
  END IF;
  IF p_others THEN
    -- Leases of an earlier run of the server are left out: the end of such a job may have been acknowledged and lost,
    -- and the job would run twice under one fence.
    SELECT jsonb_agg(jsonb_build_array(
      l.id, l.seq, l.fence, l.route, l.rev, l.attempt,
      coalesce(l.input, (SELECT p.input FROM @payload p WHERE p.seq = l.seq)), l.policy, l.meta, l.attempts,
      l.created_at, l.due_at, l.claimed_at, l.deadline_at, l.durable) ORDER BY l.seq)
    INTO others FROM @leased l JOIN @alive e ON l.fence > e.epoch * 4294967296
    WHERE l.owner = p_owner AND NOT EXISTS (
      SELECT 1 FROM unnest(p_ids, p_fences) a(id, fence) WHERE a.id = l.id AND a.fence = l.fence);
  END IF;
END $$;
