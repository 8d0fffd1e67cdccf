-- The row one step on: its arrow is checked, its rev grows, its timer follows from its clocks.
CREATE FUNCTION @advance_v1(p_from int2, j @waiting) RETURNS @waiting LANGUAGE plpgsql IMMUTABLE AS $$
BEGIN
  IF NOT (p_from * 16 + j.state = ANY ('{
    0, 2, 1, 5, 6, 9, 7, 8,
    17, 18, 23, 24,
    34, 35, 33, 38, 39, 40,
    51, 53, 54, 55, 56, 57, 49, 52, 50,
    68, 66, 65, 70, 71, 72,
    85, 82, 81, 80,
    102, 98, 97, 96,
    119, 114, 113, 112,
    136, 130, 129, 128,
    153, 146, 145, 144}'::int4[])) THEN
    RAISE EXCEPTION 'millrace: a job cannot move from state % to %', p_from, j.state USING ERRCODE = 'MR002';
  END IF;
  j.rev := j.rev + 1;
  j.timer_at := @timer_v1(j);
  RETURN j;
END $$;
