-- One settle with its effects. The answer has its events, the route and the lane that its job has left, and whether
-- deferred work was left. p_settle: {id, seq, fence, next, attempts, journal?: {seen, entries}, effects?, isLate,
-- isInside}.
CREATE FUNCTION @settle_one_v1(p_now int8, p_settle jsonb) RETURNS jsonb LANGUAGE plpgsql AS $$
DECLARE
  j @waiting; v_applied record; v_unit jsonb; v_lane jsonb; v_note text; v_passed record; v_defers bool;
  v_journal jsonb := p_settle->'journal'; v_last int4;
  v_id text := p_settle->>'id'; v_seq int8 := (p_settle->>'seq')::int8; v_fence int8 := (p_settle->>'fence')::int8;
BEGIN
  SELECT * INTO j FROM @leased WHERE id = v_id FOR UPDATE;
  IF j.state <> 3 THEN PERFORM @keep_unreadable_v1(p_now, NULL, ARRAY[v_id]); j := NULL; END IF;
  IF j.id IS NULL OR j.fence <> v_fence OR j.seq <> v_seq THEN
    RETURN jsonb_build_object('kind', @refusal_v1(v_id, v_seq, v_fence));
  END IF;
  -- A job whose cancel was asked for must not wait again.
  IF j.cancel_asked = 1 AND p_settle->'next'->>'to' IN ('scheduled', 'ready', 'suspended') THEN
    RETURN '{"kind": "cancel-asked"}';
  END IF;
  IF v_journal IS NOT NULL THEN
    IF v_journal->>'seen' IS NOT NULL THEN
      v_last := coalesce((
        SELECT CASE WHEN e.seq = v_seq THEN greatest(e.number, 0) END FROM @entry e
        WHERE (e.seq, e.number) <= (v_seq, 2147483647) ORDER BY e.seq DESC, e.number DESC LIMIT 1), 0);
      IF v_last > (v_journal->>'seen')::int4 THEN
        RETURN jsonb_build_object('kind', 'arrived', 'last', v_last);
      ELSIF v_last < (v_journal->>'seen')::int4 THEN
        RETURN '{"kind": "stale"}';
      END IF;
    END IF;
    IF v_journal->'entries' <> '[]' THEN
      SELECT (a.job).* INTO j FROM @append_v1(p_now, j, v_journal->'entries', false) a;
    END IF;
  END IF;
  j.settled_fence := j.fence;
  v_note := CASE WHEN j.started_at IS NULL THEN '!' ELSE '' END
    || CASE WHEN octet_length(coalesce(p_settle->>'attempts', '')) <= 48
      OR length(coalesce(p_settle->>'attempts', '')) <= 48 THEN coalesce(p_settle->>'attempts', '') ELSE '' END;
  IF j.lane_key IS NOT NULL THEN v_lane := @leaves_v1(j); END IF;
  SELECT * INTO v_applied FROM @apply_v1(p_now, j, p_settle->'next', p_settle->>'attempts');
  v_applied.events := @noted_v1(v_applied.events, v_note);
  v_defers := v_applied.defers;
  IF p_settle->'effects' IS NOT NULL THEN
    v_unit := @submit_unit_v1(p_now, p_settle->'effects');
    IF v_unit->>'kind' <> 'ok' THEN
      RETURN jsonb_build_object('kind', v_unit->>'reason', 'id', v_unit->>'id');
    END IF;
    v_applied.events := @append_events_v1(v_applied.events, v_unit->>'events');
    v_defers := v_defers OR (v_unit->>'defers')::bool;
  END IF;
  IF v_applied.state >= 5 AND (j.flow IS NOT NULL AND j.waits IS NOT NULL) THEN
    IF (p_settle->>'isInside')::bool THEN
      PERFORM @defer_work_v1(p_now, ARRAY[j.id]);
      v_defers := true;
    ELSE
      SELECT * INTO v_passed FROM @pass_on_v1(p_now, j.id, 64);
      v_applied.events := @append_events_v1(v_applied.events, v_passed.events);
      v_defers := v_defers OR v_passed.defers;
    END IF;
  END IF;
  RETURN jsonb_build_object('kind', 'ok', 'events', v_applied.events, 'left', j.route, 'lane', v_lane,
    'defers', v_defers);
END $$;
