-- Waits a moment for the lock of a gate.
CREATE FUNCTION @wait_gate_v1(p_lock int8, p_shared bool) RETURNS bool LANGUAGE plpgsql
  SET lock_timeout = '30' AS $$
BEGIN
  IF p_shared THEN
    PERFORM pg_advisory_xact_lock_shared(p_lock);
  ELSE
    PERFORM pg_advisory_xact_lock(p_lock);
  END IF;
  RETURN true;
EXCEPTION WHEN lock_not_available THEN
  RETURN false;
END $$;
