-- A new round of job j: its unread entries stay, with new numbers, and the newest keys of others. Answers its field
-- durable.
CREATE FUNCTION @begin_round_v1(j @waiting) RETURNS int4 LANGUAGE plpgsql AS $$
DECLARE v_number int4; v_next int4 := 0;
BEGIN
  INSERT INTO @entry
  SELECT j.seq, at, least((SELECT min(number) FROM @entry WHERE seq = j.seq), 0)
    - (row_number() OVER (ORDER BY number))::int4, true, E'\x1f' || key, ''
  FROM @entry WHERE seq = j.seq AND number > 0 AND is_foreign ORDER BY number
    ON CONFLICT (seq, key) DO NOTHING;
  DELETE FROM @entry
  WHERE seq = j.seq AND (CASE WHEN number > 0 THEN unread IS NULL ELSE number > (
    SELECT number FROM @entry WHERE seq = j.seq AND number < 1
    ORDER BY number OFFSET 999 LIMIT 1) END);
  -- In order, because no two may have one number in between.
  FOR v_number IN SELECT number FROM @entry WHERE seq = j.seq AND number > 0 ORDER BY number LOOP
    v_next := v_next + 1;
    UPDATE @entry SET number = v_next WHERE seq = j.seq AND number = v_number AND v_number <> v_next;
  END LOOP;
  DELETE FROM @slip WHERE seq = j.seq;
  RETURN (j.durable / 16 + 1) * 16 + (j.durable & 1);
END $$;
