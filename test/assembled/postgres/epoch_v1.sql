-- Enters this run of the server: answers its epoch, which grows if the row in alive is gone. The table is unlogged: a
-- crash, a failover and a restore empty it, and with any of them acknowledged writes or claims may be lost.
CREATE FUNCTION @epoch_v1() RETURNS int8 LANGUAGE plpgsql AS $$
DECLARE v_epoch int8;
BEGIN
  SELECT epoch INTO v_epoch FROM @alive;
  IF FOUND THEN RETURN v_epoch; END IF;
  PERFORM pg_advisory_xact_lock(hashtextextended('@epoch', 0));
  SELECT epoch INTO v_epoch FROM @alive;
  IF FOUND THEN RETURN v_epoch; END IF;
  -- An epoch must never be given twice, so this commit waits for the disk.
  PERFORM set_config('synchronous_commit', 'on', true);
  UPDATE @meta SET value = (value::int8 + 1)::text WHERE name = 'epoch' RETURNING value::int8 INTO v_epoch;
  INSERT INTO @alive VALUES (v_epoch);
  RETURN v_epoch;
END $$;
