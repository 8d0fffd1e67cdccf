-- Records after the number p_after. p_after < 0: no record, but the number of the newest one.
CREATE FUNCTION @read_feed_v1(p_after int8, p_max int4) RETURNS TABLE (number int8, at int8, body text)
  LANGUAGE plpgsql AS $$
#variable_conflict use_column
BEGIN
  FOR i IN 1..CASE WHEN p_after < 0 THEN 10 ELSE 1 END LOOP
    EXIT WHEN @number_feed_v1() < 2000;
  END LOOP;
  IF p_after < 0 THEN
    RETURN QUERY SELECT coalesce(max(f.number), 0), 0::int8, ''::text FROM @feed f WHERE f.number IS NOT NULL;
  ELSE
    RETURN QUERY SELECT f.number, f.at, f.body FROM @feed f WHERE f.number > p_after ORDER BY f.number LIMIT p_max;
  END IF;
END $$;
