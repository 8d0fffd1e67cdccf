CREATE FUNCTION @number_feed_v1() RETURNS int4 LANGUAGE plpgsql SET enable_seqscan = off AS $$
DECLARE v_numbered int4;
BEGIN
  PERFORM 1 FROM @feed WHERE number IS NULL LIMIT 1;
  IF NOT FOUND THEN RETURN 0; END IF;
  -- A record that a reader has seen must not vanish in a crash. Claims do not wait for the disk, so this commit does.
  IF current_setting('synchronous_commit') = 'off' THEN PERFORM set_config('synchronous_commit', 'on', true); END IF;
  PERFORM pg_advisory_xact_lock(hashtextextended('@feed', 0));
  UPDATE @feed f SET number = n.number FROM (
    SELECT ctid, coalesce((SELECT max(number) FROM @feed WHERE number IS NOT NULL), 0)
      + row_number() OVER (ORDER BY id) AS number
    FROM (SELECT ctid, id FROM @feed WHERE number IS NULL ORDER BY id LIMIT 2000) fresh) n
  WHERE f.ctid = n.ctid;
  GET DIAGNOSTICS v_numbered = ROW_COUNT;
  RETURN v_numbered;
END $$;
