-- A member that had ended as j says comes back: its flow counts it as live again.
CREATE FUNCTION @depart_v1(p_now int8, j @waiting) RETURNS void LANGUAGE plpgsql AS $$
DECLARE
  f @waiting := @lock_job_v1(p_now, j.flow); w int8[] := string_to_array(f.waits, ',')::int8[];
  v_edge text := j.edges::jsonb->>0; v_at int4 := 6 + j.state - 5;
BEGIN
  IF w IS NULL THEN RETURN; END IF;
  w[1] := w[1] + ((((ascii(substr(v_edge, 1, 1)) - ascii('0')) % 39) >> (j.state - 5)) & 1);
  w[2] := w[2] + ((((ascii(substr(v_edge, 2, 1)) - ascii('0')) % 39) >> (j.state - 5)) & 1);
  IF array_length(w, 1) > 4 THEN w[v_at] := w[v_at] - 1; END IF;
  PERFORM @set_waits_v1(f, array_to_string(w, ','));
END $$;
