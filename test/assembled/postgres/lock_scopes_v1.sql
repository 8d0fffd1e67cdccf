-- Locks the scopes of these queues. is_busy: not all of them are locked, because another call holds one for too long,
-- or because jobs have begun to use a limit that was not known before. p_waits: whether to wait for another call.
CREATE FUNCTION @lock_scopes_v1(p_queues text[], p_waits bool, OUT scopes text[], OUT is_busy bool)
  LANGUAGE plpgsql AS $$
DECLARE v_locks int8[];
BEGIN
  SELECT array_agg(s.scope ORDER BY l.lock), array_agg(l.lock ORDER BY l.lock) INTO scopes, v_locks
  FROM (
    SELECT 'g:' || q AS scope FROM unnest(p_queues) q
    UNION SELECT scope FROM @lane_scope WHERE queue = ANY (p_queues)) s
    CROSS JOIN LATERAL (SELECT hashtextextended('@lane' || s.scope, 0) AS lock) l;
  FOR v_i IN 1..coalesce(cardinality(v_locks), 0) LOOP
    is_busy := NOT (pg_try_advisory_xact_lock(v_locks[v_i])
      OR (p_waits AND @wait_gate_v1(v_locks[v_i], false)));
    IF is_busy THEN RETURN; END IF;
  END LOOP;
  is_busy := EXISTS (SELECT 1 FROM @lane_scope o WHERE o.queue = ANY (p_queues) AND o.scope <> ALL (scopes));
END $$;
