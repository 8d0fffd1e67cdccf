-- p_next: a Schedule or a HandBack; or a new job, which has those fields of a Schedule that place it.
CREATE FUNCTION @place_v1(p_now int8, j @waiting, p_next jsonb) RETURNS @waiting LANGUAGE plpgsql IMMUTABLE AS $$
DECLARE
  -- If a job that holds its group is replayed, it goes on holding the group until it is ready, as the first of its
  -- lane.
  v_keeps bool := j.lane_key IS NOT NULL
  AND ((p_next->>'keepsLane')::bool OR (j.state >= 5 AND j.keeps_lane = 1));
BEGIN
  j.ttl_at := NULL; j.keeps_lane := 0; j.lease_ends_at := NULL; j.attempt_ends_at := NULL;
  j.counts_attempt := coalesce((p_next->>'countsAttempt')::int2, j.counts_attempt);
  IF p_next->>'to' = 'ready' THEN j.state := 2; RETURN j; END IF;
  j.due_at := @due_v1(p_now, p_next->'due');
  j.ttl_at := j.due_at + (p_next->>'ttlMs')::int8;
  j.state := CASE WHEN j.due_at <= p_now THEN 2 ELSE 1 END;
  -- A retry that keeps its lane also keeps its place there.
  IF v_keeps THEN
    j.keeps_lane := CASE WHEN j.state = 1 THEN 1 ELSE 0 END;
  ELSE
    j.rank := (p_next->>'rankBase')::int8 + (p_next->>'rankSlope')::int8 * j.due_at;
  END IF;
  j.attempt := coalesce((p_next->>'attempt')::int4, j.attempt);
  IF (p_next->>'clearsPassedDeadline')::bool AND j.deadline_at <= p_now THEN j.deadline_at := NULL; END IF;
  RETURN @edit_v1(j, p_next->'edit');
END $$;
