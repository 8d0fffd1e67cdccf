-- Makes partitions for today and the days to come. A day whose rows are already in the default partition stays there;
-- so does every day if the user may not create tables. Only the owner of a table may partition it, so this function and
-- the next run with the rights of the user who migrated, not of the caller.
CREATE FUNCTION @make_partitions_v1(p_now int8) RETURNS void LANGUAGE plpgsql
  SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
DECLARE v_day int8; v_name text;
BEGIN
  FOR v_i IN 0..3 LOOP
    v_day := p_now / 86400000 + v_i;
    v_name := 'history_' || v_day;
    CONTINUE WHEN to_regclass('@history_' || v_day) IS NOT NULL;
    IF NOT pg_try_advisory_xact_lock(hashtextextended('@partition', 0)) THEN RETURN; END IF;
    CONTINUE WHEN EXISTS (
      SELECT 1 FROM @history_rest WHERE ended_at >= v_day * 86400000 AND ended_at < (v_day + 1) * 86400000);
    BEGIN
      PERFORM set_config('lock_timeout', '200ms', true);
      EXECUTE format('CREATE TABLE @%I PARTITION OF @history FOR VALUES FROM (%s) TO (%s)',
        v_name, v_day * 86400000, (v_day + 1) * 86400000);
      PERFORM set_config('lock_timeout', '0', true);
    EXCEPTION WHEN lock_not_available OR check_violation OR duplicate_table OR insufficient_privilege THEN
      RETURN;
    END;
  END LOOP;
END $$;
