-- Deletes records of the feed that are too old. The newest one stays, because the next number follows from it.
CREATE FUNCTION @prune_feed_v1(p_now int8, p_commit text, p_older int8, p_max int4, OUT pruned int8, OUT more bool)
  LANGUAGE plpgsql SET enable_seqscan = off AS $$
DECLARE v_now int8 := @begin_v1(p_now, p_commit); v_last int8;
BEGIN
  PERFORM @number_feed_v1();
  SELECT max(number) INTO v_last FROM (
    SELECT number, at FROM @feed WHERE number IS NOT NULL ORDER BY number LIMIT p_max) f
  WHERE at <= v_now - p_older AND number < (SELECT max(number) FROM @feed WHERE number IS NOT NULL);
  DELETE FROM @feed WHERE number <= v_last;
  GET DIAGNOSTICS pruned = ROW_COUNT;
  more := pruned = p_max;
  PERFORM @fold_v1();
END $$;
