-- Several ids and keys in one call are locked in one order, so that two calls cannot wait for each other. A unit with a
-- savepoint is left out: it gives up after a moment instead.
CREATE FUNCTION @lock_keys_v1(p_units jsonb) RETURNS void LANGUAGE plpgsql AS $$
DECLARE v_locks int8[];
BEGIN
  SELECT array_agg(DISTINCT hashtextextended('@uniq' || k, 0)) INTO v_locks
  FROM jsonb_array_elements(p_units) u, jsonb_array_elements(u->'jobs') j, unnest(ARRAY[
    j->'given'->>'unique_key', CASE WHEN j->'given'->>'digest' IS NOT NULL THEN j->'given'->>'id' END]) k
  WHERE k IS NOT NULL AND NOT (u->>'isLate')::bool;
  IF array_length(v_locks, 1) > 1 THEN
    PERFORM pg_advisory_xact_lock(l) FROM (SELECT unnest(v_locks) AS l ORDER BY 1) sorted;
  END IF;
END $$;
