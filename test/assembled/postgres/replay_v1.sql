-- A finished job comes back. If its key is held until its end, the caller has taken the key already.
CREATE FUNCTION @replay_v1(p_now int8, j @waiting, p_next jsonb) RETURNS @waiting LANGUAGE plpgsql IMMUTABLE AS $$
BEGIN
  j.cancel_asked := 0; j.ended_at := NULL; j.keep_until := NULL; j.result_until := NULL;
  j.reason := NULL; j.result := NULL;
  j.holds := CASE WHEN j.unique_hold = -2 THEN -2 ELSE 0 END;
  j.waits := regexp_replace(j.waits, '^([^,]*,[^,]*,)[^,]*', '\1' || 0);
  RETURN @place_v1(p_now, j, p_next);
END $$;
