-- Several counters of one call are locked in one order, so that two calls cannot wait for each other. The locks are
-- advisory, because the rows may not be there yet.
CREATE FUNCTION @lock_counters_v1(p_puts jsonb) RETURNS void LANGUAGE plpgsql AS $$
DECLARE v_locks int8[];
BEGIN
  SELECT array_agg(DISTINCT hashtextextended('@doc' || (p->>'kind') || E'\x1f' || (p->>'id'), 0)) INTO v_locks
  FROM jsonb_array_elements(p_puts) p WHERE p ? 'add';
  IF array_length(v_locks, 1) > 1 THEN
    PERFORM pg_advisory_xact_lock(l) FROM (SELECT unnest(v_locks) AS l ORDER BY 1) sorted;
  END IF;
END $$;
