-- p_change: {id, token?, cases: [{guard, next, attempts?, append?}], keys?, isLate}; keys: those of the appends. The
-- answer has its events and, if the job was running, the route that it has left.
CREATE FUNCTION @change_one_v1(p_now int8, p_change jsonb) RETURNS jsonb LANGUAGE plpgsql AS $$
DECLARE
  j @waiting := @lock_job_v1(p_now, p_change->>'id'); v_case jsonb; v_at int4 := 0; v_applied record;
  v_passed record; v_token text := p_change->>'token'; v_append jsonb;
BEGIN
  IF j.id IS NULL THEN RETURN '{"kind": "gone"}'; END IF;
  IF p_change ? 'keys' AND @is_repeated_v1(j.seq, p_change->'keys') THEN
    RETURN jsonb_build_object('kind', 'repeated', 'state', j.state, 'rev', j.rev);
  END IF;
  FOR v_case IN SELECT * FROM jsonb_array_elements(p_change->'cases') LOOP
    EXIT WHEN @is_held_v1(p_now, j, v_case->'guard');
    v_case := NULL;
    v_at := v_at + 1;
  END LOOP;
  IF v_case IS NULL THEN
    RETURN jsonb_build_object('kind', CASE WHEN v_token = j.change_token THEN 'already' ELSE 'changed' END,
      'state', j.state, 'rev', j.rev);
  END IF;
  v_append := v_case->'append';
  IF v_append IS NOT NULL AND @is_full_v1(j.seq, v_append) THEN
    RETURN jsonb_build_object('kind', 'full', 'state', j.state, 'rev', j.rev);
  END IF;
  -- The end of a member that has not gone along all its edges cannot be taken back.
  IF j.state >= 5 AND j.waits IS NOT NULL AND v_case->'next'->>'to' IN ('scheduled', 'blocked')
    AND split_part(j.waits, ',', 3)::int4 < coalesce(jsonb_array_length(j.edges::jsonb), 0) THEN
    RETURN jsonb_build_object('kind', 'changed', 'state', j.state, 'rev', j.rev);
  END IF;
  j.change_token := coalesce(v_token, j.change_token);
  IF v_append IS NOT NULL THEN
    SELECT (a.job).* INTO j FROM @append_v1(p_now, j, jsonb_build_array(v_append->'entry'), true) a;
  END IF;
  SELECT * INTO v_applied FROM @apply_v1(p_now, j, v_case->'next', v_case->>'attempts');
  IF v_applied.held_by IS NOT NULL THEN
    DELETE FROM @entry WHERE seq = j.seq AND key = v_append->'entry'->>'key';
    RETURN jsonb_build_object('kind', 'key-held', 'by', v_applied.held_by);
  END IF;
  IF (j.flow IS NOT NULL AND j.waits IS NOT NULL) AND v_applied.state >= 5
    AND (j.state < 5 OR v_case->'next' ? 'passesOn') THEN
    SELECT * INTO v_passed FROM @pass_on_v1(p_now, j.id, CASE
      WHEN j.state < 5 THEN 64
      ELSE least((v_case->'next'->>'passesOn')::int4, 500) END);
    v_applied.events := @append_events_v1(v_applied.events, v_passed.events);
    v_applied.defers := v_applied.defers OR v_passed.defers;
  END IF;
  RETURN jsonb_build_object('kind', 'ok', 'applied', v_at, 'from', j.state, 'state', v_applied.state,
    'rev', j.rev + CASE (v_case->'next'->>'event')::int4 WHEN 30 THEN 0 ELSE 1 END,
    'events', v_applied.events, 'defers', v_applied.defers,
    'left', CASE WHEN j.state = 3 AND v_applied.state IS DISTINCT FROM 3 THEN j.route END,
    'lane', CASE WHEN j.lane_key IS NOT NULL THEN @leaves_v1(j) END);
END $$;
