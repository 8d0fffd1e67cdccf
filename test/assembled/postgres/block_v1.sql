-- p_next: a Block. Answers the row and whether deferred work is left for it.
CREATE FUNCTION @block_v1(p_now int8, INOUT j @waiting, p_next jsonb, OUT defers bool) LANGUAGE plpgsql AS $$
DECLARE
  w int8[] := string_to_array(j.waits, ',')::int8[]; v_edge text; v_ended int2; v_freed bool;
  p text[] := string_to_array(j.freed, ','); v_anew bool := p_next->'waits' <> 'null';
BEGIN
  IF v_anew THEN
    w[1] := (p_next->'waits'->>'need')::int8;
    w[2] := (p_next->'waits'->>'slack')::int8;
  END IF;
  w[3] := 0;
  FOR v_edge IN SELECT * FROM jsonb_array_elements_text(p_next->'parents') LOOP
    v_ended := @arrived_from_v1(p_now, substr(v_edge, 3), j.id);
    CONTINUE WHEN v_ended IS NULL;
    w[1] := w[1] - ((((ascii(substr(v_edge, 1, 1)) - ascii('0')) % 39) >> (v_ended - 5)) & 1);
    w[2] := w[2] - ((((ascii(substr(v_edge, 2, 1)) - ascii('0')) % 39) >> (v_ended - 5)) & 1);
  END LOOP;
  IF j.state >= 5 THEN
    j.ttl_at := NULL; j.cancel_asked := 0; j.keeps_lane := 0; j.lease_ends_at := NULL;
    j.attempt_ends_at := NULL; j.ended_at := NULL; j.keep_until := NULL; j.result_until := NULL;
    j.reason := NULL; j.result := NULL;
    -- The job would end at once with a deadline that has passed.
    IF j.deadline_at <= p_now THEN j.deadline_at := NULL; END IF;
  END IF;
  j.waits := array_to_string(w, ',');
  v_freed := j.freed IS NOT NULL AND w[1] <= 0 AND w[2] >= 0;
  IF v_freed THEN
    j.due_at := CASE left(p[1], 1) WHEN '@' THEN 0 ELSE p_now END + substr(p[1], 2)::int8;
    j.rank := p[2]::int8 + p[3]::int8 * j.due_at;
    j.ttl_at := j.due_at + nullif(p[4], '')::int8;
    j.state := CASE WHEN j.due_at <= p_now THEN 2 ELSE 1 END;
  ELSE
    j.state := 0;
    j.ttl_at := NULL;
  END IF;
  j.attempt := coalesce((p_next->>'attempt')::int4, j.attempt);
  j.counts_attempt := 1;
  -- A flow that goes on from where it was may be decided already.
  defers := w[2] < 0 OR (j.freed IS NULL AND w[1] <= 0) OR (v_freed AND w[4] = 1);
END $$;
