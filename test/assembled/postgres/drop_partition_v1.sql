-- Drops the oldest day that ended before p_before if nearly all of it may be deleted; answers how many rows were
-- deleted.
CREATE FUNCTION @drop_partition_v1(p_now int8, p_state int2, p_queue text, p_except text[], p_before int8)
  RETURNS int8 LANGUAGE plpgsql
  SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
DECLARE v_name text; v_rows int8; v_stay int8;
BEGIN
  IF p_queue IS NOT NULL THEN RETURN 0; END IF;
  FOR v_name IN
    SELECT c.relname FROM pg_catalog.pg_inherits i JOIN pg_catalog.pg_class c ON c.oid = i.inhrelid
    WHERE i.inhparent = '@history'::regclass AND c.relname ~ '^history_[0-9]+$'
      AND (substr(c.relname, 9)::int8 + 1) * 86400000 <= p_before
    ORDER BY substr(c.relname, 9)::int8 LIMIT 2
  LOOP
    EXECUTE format($sql$
      SELECT count(*), count(*) FILTER (WHERE NOT (
        h.state = $1 AND h.keep_until IS NULL AND h.keeps_lane = 0
        AND h.route IN (SELECT number FROM @route WHERE queue <> ALL ($2)))) FROM @%I h$sql$, v_name)
    INTO v_rows, v_stay USING p_state, p_except;
    CONTINUE WHEN v_rows > 0 AND (v_rows < 5000 OR v_stay > v_rows / 4);
    BEGIN
      PERFORM set_config('lock_timeout', '500ms', true);
      EXECUTE format('ALTER TABLE @history DETACH PARTITION @%I', v_name);
      PERFORM set_config('lock_timeout', '0', true);
    EXCEPTION WHEN lock_not_available OR insufficient_privilege THEN
      RETURN 0;
    END;
    EXECUTE format($sql$
      INSERT INTO @history SELECT h.* FROM @%I h WHERE NOT (
        h.state = $1 AND h.keep_until IS NULL AND h.keeps_lane = 0
        AND h.route IN (SELECT number FROM @route WHERE queue <> ALL ($2)))$sql$, v_name)
    USING p_state, p_except;
    EXECUTE format($sql$
      SELECT @defer_work_v1($3, array_agg(h.id)) FROM @%I h
      WHERE
        h.state = $1 AND h.keep_until IS NULL AND h.keeps_lane = 0
        AND h.route IN (SELECT number FROM @route WHERE queue <> ALL ($2))
        AND coalesce(split_part(h.waits, ',', 5), '') <> '' HAVING count(*) > 0$sql$, v_name)
    USING p_state, p_except, p_now;
    EXECUTE format($sql$
      WITH gone AS MATERIALIZED (
        SELECT h.seq, h.route, h.state, h.tags, h.durable, h.input FROM @%I h
        WHERE
          h.state = $1 AND h.keep_until IS NULL AND h.keeps_lane = 0
          AND h.route IN (SELECT number FROM @route WHERE queue <> ALL ($2))),
      counted AS (INSERT INTO @state_count SELECT route, state, -count(*) FROM gone GROUP BY route, state),
      lines AS (DELETE FROM @journal t USING gone g WHERE t.seq = g.seq),
      entries AS (DELETE FROM @entry t USING gone g WHERE g.durable <> 0 AND t.seq = g.seq),
      slips AS (DELETE FROM @slip t USING gone g WHERE g.durable <> 0 AND t.seq = g.seq),
      large AS (DELETE FROM @payload p USING gone g WHERE g.input IS NULL AND p.seq = g.seq)
      DELETE FROM @tag t USING gone g
      WHERE g.tags IS NOT NULL AND t.seq = g.seq AND t.tag = ANY (@tags_of_v1(g.tags))$sql$, v_name)
    USING p_state, p_except;
    EXECUTE format('DROP TABLE @%I', v_name);
    IF v_rows - v_stay > 0 THEN RETURN v_rows - v_stay; END IF;
  END LOOP;
  RETURN 0;
END $$;
