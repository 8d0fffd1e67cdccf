-- Rule R1: a running job waits for an append or a time. p_next: a Suspend.
CREATE FUNCTION @suspend_v1(p_now int8, j @waiting, p_next jsonb) RETURNS @waiting LANGUAGE plpgsql IMMUTABLE AS $$
BEGIN
  j.ttl_at := NULL; j.keeps_lane := 0; j.lease_ends_at := NULL; j.attempt_ends_at := NULL;
  j.state := 4;
  j.ttl_at := @due_v1(p_now, p_next->'wake');
  j.counts_attempt := (p_next->>'countsAttempt')::int2;
  j.attempt := coalesce((p_next->>'attempt')::int4, j.attempt);
  j.keeps_lane := CASE WHEN j.lane_key IS NOT NULL AND (p_next->>'keepsLane')::bool THEN 1 ELSE 0 END;
  RETURN j;
END $$;
