-- A row for a new job, not yet written. p_job: {given: columns by name, due, rankBase, rankSlope, ttlMs, deadline}.
CREATE FUNCTION @place_new_v1(p_now int8, p_job jsonb) RETURNS @waiting LANGUAGE plpgsql AS $$
DECLARE j @waiting := jsonb_populate_record(NULL::@waiting, '{
"route": null, "state": null, "rev": 1, "rank": null, "due_at": null, "deadline_at": null,
"ttl_at": null, "timer_at": null, "attempt": 0, "counts_attempt": 1, "fence": 0, "settled_fence": null,
"cancel_asked": 0, "holds": 0, "change_token": null, "keeps_lane": 0, "waits": null, "durable": 0,
"attempts": null, "progress": null, "owner": null, "claimed_at": null, "started_at": null,
"lease_ends_at": null, "attempt_ends_at": null, "ended_at": null, "keep_until": null,
"result_until": null, "reason": null, "result": null}'::jsonb || (p_job->'given'));
BEGIN
  j.seq := nextval('@job_seq');
  j.created_at := p_now;
  j.deadline_at := @due_v1(p_now, p_job->'deadline');
  j := @place_v1(p_now, j, p_job);
  IF (j.waits IS NOT NULL AND (j.freed IS NULL OR split_part(j.waits, ',', 1)::int8 > 0)) THEN
    j.state := 0;
    j.ttl_at := NULL;
  END IF;
  j.timer_at := @timer_v1(j);
  RETURN j;
END $$;
