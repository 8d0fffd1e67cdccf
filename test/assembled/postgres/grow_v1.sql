-- p_by: {id, need, slack, members}. Answers whether the flow can still grow.
CREATE FUNCTION @grow_v1(p_now int8, p_by jsonb) RETURNS bool LANGUAGE plpgsql AS $$
DECLARE j @waiting := @lock_job_v1(p_now, p_by->>'id'); w int8[] := string_to_array(j.waits, ',')::int8[];
BEGIN
  IF w IS NULL OR j.state <> 0 OR j.cancel_asked = 1 THEN RETURN false; END IF;
  w[1] := w[1] + (p_by->>'need')::int8;
  w[2] := w[2] + (p_by->>'slack')::int8;
  IF array_length(w, 1) > 4 THEN w[5] := w[5] + (p_by->>'members')::int8; END IF;
  PERFORM @set_waits_v1(j, array_to_string(w, ','));
  RETURN true;
END $$;
