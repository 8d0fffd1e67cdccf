-- Does items of one kind in order; answers a list. ready: the routes that may have room at a gate now.
CREATE FUNCTION @each_v1(p_now int8, p_commit text, p_what text, p_items text,
  OUT now int8, OUT answers jsonb, OUT events text, OUT ready int8[], OUT defers bool) LANGUAGE plpgsql
  SET enable_seqscan = off SET enable_bitmapscan = off SET jit = off
  SET plan_cache_mode = force_generic_plan AS $$
DECLARE
  v_items jsonb := p_items::jsonb; v_item jsonb; v_answer jsonb;
  v_left int8[]; v_left_lanes text[]; v_limits text[];
BEGIN
  now := @begin_v1(p_now, p_commit);
  PERFORM set_config('lock_timeout', '30', true);
  answers := '[]';
  defers := false;
  IF p_what = 'change_one_v1' THEN
    PERFORM @lock_targets_v1(
      ARRAY(SELECT c->>'id' FROM jsonb_array_elements(v_items) c WHERE NOT (c->>'isLate')::bool), v_items);
  END IF;
  FOR v_item IN SELECT * FROM jsonb_array_elements(v_items) LOOP
    v_answer := @item_v1(p_what, now, v_item);
    events := @append_events_v1(events, v_answer->>'events');
    defers := defers OR coalesce((v_answer->>'defers')::bool, false);
    v_left := v_left || (v_answer->>'left')::int8;
    IF v_answer->>'lane' IS NOT NULL THEN
      v_left_lanes := v_left_lanes || (v_answer->'lane'->>'lane');
      v_limits := v_limits || ARRAY(SELECT jsonb_array_elements_text(v_answer->'lane'->'limits'));
    END IF;
    answers := answers || jsonb_build_array(v_answer - '{events,left,lane,defers}'::text[]);
  END LOOP;
  PERFORM @emit_v1(now, events, false);
  IF EXISTS (SELECT 1 FROM @gate) THEN ready := @sharing_v1(v_left); END IF;
  IF v_left_lanes IS NOT NULL THEN ready := ready || @lane_hints_v1(v_left_lanes, v_limits); END IF;
END $$;
