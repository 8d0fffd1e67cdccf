-- Enters this life of the server: answers its epoch, raised when the row that says so is gone. That row is unlogged: a
-- crash, a failover and a restore empty its table, and acknowledged writes or claims may be gone then.
CREATE FUNCTION @epoch_v1() RETURNS int8 LANGUAGE plpgsql AS $$
DECLARE v_epoch int8;
BEGIN
  SELECT epoch INTO v_epoch FROM @alive;
  IF FOUND THEN RETURN v_epoch; END IF;
  PERFORM pg_advisory_xact_lock(hashtextextended('@epoch', 0));
  SELECT epoch INTO v_epoch FROM @alive;
  IF FOUND THEN RETURN v_epoch; END IF;
  -- Whatever this call's durability: an epoch must never be given twice.
  PERFORM set_config('synchronous_commit', 'on', true);
  UPDATE @meta SET value = (value::int8 + 1)::text WHERE name = 'epoch' RETURNING value::int8 INTO v_epoch;
  INSERT INTO @alive VALUES (v_epoch);
  RETURN v_epoch;
END $$;
