-- The holder is replaceable, and its row is locked. Answers the event.
CREATE FUNCTION @meet_v1(p_now int8, p_holder @waiting, p_job jsonb) RETURNS text LANGUAGE plpgsql AS $$
DECLARE j @waiting;
BEGIN
  j := jsonb_populate_record(p_holder, (p_job->'given') - '{seq,id,created_at,digest,unique_key}'::text[]);
  j.deadline_at := @due_v1(p_now, p_job->'deadline');
  UPDATE @uniq SET held_until = CASE WHEN j.unique_hold > 0 THEN p_now + j.unique_hold END
  WHERE key = j.unique_key AND seq = j.seq;
  j := @place_v1(p_now, j, p_job);
  RETURN @write_v1(p_holder, @advance_v1(p_holder.state, j), 1, true);
END $$;
