-- What one running attempt writes. p_write: {id, seq, fence, progress?, logs?, overflow?, frames?, entries?,
-- effects?, setsBack?, steps?, isLate}. With entries the answer is appended, or the refusal of an effect.
CREATE FUNCTION @record_one_v1(p_now int8, p_write jsonb) RETURNS jsonb LANGUAGE plpgsql AS $$
DECLARE
  v_id text := p_write->>'id'; v_seq int8 := (p_write->>'seq')::int8; v_fence int8 := (p_write->>'fence')::int8;
  v_last int4; v_line text; j @waiting; v_event text; v_unit jsonb; v_appended record;
BEGIN
  SELECT * INTO j FROM @leased WHERE id = v_id AND seq = v_seq AND fence = v_fence FOR UPDATE;
  IF NOT FOUND THEN RETURN jsonb_build_object('kind', @lost_v1(v_id, v_seq, v_fence)); END IF;
  IF p_write ? 'progress' THEN
    UPDATE @leased SET progress = p_write->>'progress' WHERE id = v_id;
    j.progress := p_write->>'progress';
    v_event := @event_v1(24, j);
  END IF;
  IF p_write ? 'logs' THEN
    SELECT coalesce(max(number), 0) INTO v_last FROM @journal WHERE seq = v_seq AND fence = 0;
    FOR v_line IN SELECT * FROM jsonb_array_elements_text(p_write->'logs') LOOP
      IF v_last = 1000 THEN
        UPDATE @journal SET at = p_now, body = p_write->>'overflow'
        WHERE seq = v_seq AND fence = 0 AND number = 1000 AND p_write ? 'overflow';
        EXIT;
      END IF;
      v_last := v_last + 1;
      INSERT INTO @journal VALUES (v_seq, 0, v_last, p_now, v_line);
    END LOOP;
  END IF;
  IF p_write ? 'frames' THEN
    PERFORM @write_frames_v1(p_now, v_seq, v_fence, p_write->'frames');
    v_event := @append_events_v1(v_event, @event_v1(31, j));
  END IF;
  IF NOT p_write ? 'entries' THEN RETURN jsonb_build_object('kind', 'ok', 'events', v_event); END IF;
  IF p_write ? 'setsBack' THEN
    j.attempt := 1;
    j.attempts := CASE WHEN j.cancel_asked = 1 THEN j.attempts END;
  END IF;
  SELECT * INTO v_appended FROM @append_v1(p_now, j, p_write->'entries', false);
  PERFORM @mark_v1(v_appended.job);
  IF p_write ? 'steps' AND v_appended.has_grown THEN
    j := v_appended.job;
    FOR v_line IN SELECT * FROM jsonb_array_elements_text(p_write->'steps') LOOP
      j.progress := v_line;
      v_event := @append_events_v1(v_event, @event_v1(34, j));
    END LOOP;
  END IF;
  IF p_write ? 'effects' AND v_appended.has_grown THEN
    v_unit := @submit_unit_v1(p_now, p_write->'effects');
    IF v_unit->>'kind' <> 'ok' THEN
      RETURN jsonb_build_object('kind', v_unit->>'reason', 'id', v_unit->>'id');
    END IF;
    v_event := @append_events_v1(v_event, v_unit->>'events');
  END IF;
  RETURN jsonb_build_object('kind', 'appended', 'last', v_appended.last, 'at', p_now, 'events', v_event,
    'defers', coalesce((v_unit->>'defers')::bool, false));
END $$;
