-- p_next: a Finish, its state as a code.
CREATE FUNCTION @finish_v1(p_now int8, j @waiting, p_next jsonb) RETURNS @waiting LANGUAGE plpgsql IMMUTABLE AS $$
BEGIN
  j.timer_at := NULL; j.holds := 0; j.lease_ends_at := NULL; j.attempt_ends_at := NULL;
  j.state := (p_next->>'to')::int2;
  j.keeps_lane := CASE WHEN j.lane_key IS NOT NULL AND (p_next->>'keepsLane')::bool THEN 1 ELSE 0 END;
  j.ended_at := p_now;
  IF (j.flow IS NOT NULL AND j.waits IS NOT NULL) THEN
    j.keep_until := 8640000000000000;
    j.result_until := NULL;
  ELSE
    j.keep_until := p_now + (p_next->>'keepMs')::int8;
    j.result_until := p_now + (p_next->>'keepResultMs')::int8;
  END IF;
  j.reason := p_next->>'reason';
  j.result := p_next->>'result';
  RETURN j;
END $$;
