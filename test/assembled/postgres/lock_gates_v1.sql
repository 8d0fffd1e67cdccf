-- Locks the gates of these routes that were put, and answers their keys. is_busy: not all of them could be locked as
-- needed.
CREATE FUNCTION @lock_gates_v1(p_routes int8[], OUT keys text[], OUT is_busy bool) LANGUAGE plpgsql AS $$
DECLARE v_locks int8[]; v_free bool[];
BEGIN
  SELECT array_agg(key ORDER BY lock), array_agg(lock ORDER BY lock), array_agg(is_free ORDER BY lock)
  INTO keys, v_locks, v_free FROM (
    SELECT DISTINCT g.key, hashtextextended('@gate' || g.key, 0) AS lock, g.cap IS NULL AND g.step_us IS NULL AS is_free
    FROM @gate_use u JOIN @gate g ON g.key = u.key WHERE u.route = ANY (p_routes)) g;
  is_busy := false;
  FOR v_i IN 1..cardinality(keys) LOOP
    CONTINUE WHEN CASE
      WHEN v_free[v_i] THEN pg_try_advisory_xact_lock_shared(v_locks[v_i])
      ELSE pg_try_advisory_xact_lock(v_locks[v_i]) END;
    is_busy := NOT @wait_gate_v1(v_locks[v_i], v_free[v_i]);
    EXIT WHEN is_busy;
  END LOOP;
  IF true = ANY (v_free) AND NOT is_busy THEN
    is_busy := EXISTS (SELECT 1 FROM unnest(keys, v_free) k(key, is_free) JOIN @gate g ON g.key = k.key
        WHERE k.is_free AND (g.cap IS NOT NULL OR g.step_us IS NOT NULL));
  END IF;
END $$;
