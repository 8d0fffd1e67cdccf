-- Writes the call's feed record, if it changed any job. Inside the caller's transaction no shared row is changed.
CREATE FUNCTION @emit_v1(p_now int8, p_events text, p_inside bool) RETURNS void LANGUAGE plpgsql AS $$
DECLARE v_id int8;
BEGIN
  IF p_events IS NULL OR p_events = '' THEN RETURN; END IF;
  INSERT INTO @feed (at, body) VALUES (p_now, p_events) RETURNING id INTO v_id;
  IF v_id % 1024 = 0 AND NOT p_inside THEN PERFORM @fold_v1(); END IF;
END $$;
