-- A job with a lane before and after a change; p_kept: the job is still there after it.
CREATE FUNCTION @move_lane_v1(p_from @waiting, j @waiting, p_kept bool) RETURNS void LANGUAGE plpgsql AS $$
DECLARE
  v_gates text[]; v_held bool := p_from.state = 3 OR p_from.keeps_lane = 1;
  v_keeps bool := p_kept AND j.keeps_lane = 1;
BEGIN
  IF v_held AND NOT (p_kept AND j.state = 3) THEN
    WITH returned AS (DELETE FROM @permit WHERE seq = j.seq AND NOT (is_own AND v_keeps) RETURNING key)
    SELECT array_agg(key) INTO v_gates FROM returned;
    IF v_gates IS NOT NULL THEN PERFORM @gates_changed_v1(v_gates); END IF;
  ELSIF v_keeps AND NOT v_held AND j.lane_gates IS NOT NULL THEN
    INSERT INTO @permit
    SELECT u.key, j.seq, u.weight, true FROM
      (SELECT substr(t, length(split_part(t, ':', 1)) + length(split_part(t, ':', 2)) + 3) AS key,
        split_part(t, ':', 1)::int8 AS weight, nullif(split_part(t, ':', 2), '')::int8 AS cap
        FROM jsonb_array_elements_text(j.lane_gates::jsonb) t) u
    WHERE u.cap IS NOT NULL;
  END IF;
  IF p_from.state = 2 OR (p_kept AND j.state = 2) THEN
    PERFORM @lanes_changed_v1(ARRAY[p_from.lane_key, j.lane_key], ARRAY[p_from.route, j.route],
      p_from.lane_gates IS DISTINCT FROM j.lane_gates);
  END IF;
END $$;
