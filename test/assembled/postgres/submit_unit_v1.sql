-- Writes jobs in order, then their growth of a flow, then documents in order; the first refusal is the answer. Checks
-- come before everything else; but in a repeat only after the look whether it has happened already.
CREATE FUNCTION @submit_unit_v1(p_now int8, p_unit jsonb) RETURNS jsonb LANGUAGE plpgsql AS $$
DECLARE
  v_repeat bool := coalesce((p_unit->>'isRepeat')::bool, false);
  v_job jsonb; v_doc jsonb; v_one record; v_ids jsonb := '[]'; v_hows jsonb := '[]'; v_events text;
  v_happened bool := false; v_failed text; v_part jsonb; v_linked record; v_put record; v_defers bool := false;
BEGIN
  IF p_unit ? 'checks' AND NOT v_repeat THEN
    v_failed := @failed_check_v1(p_now, p_unit->'checks');
    IF v_failed IS NOT NULL THEN
      RETURN jsonb_build_object('kind', 'refused', 'reason', 'doc-changed', 'id', v_failed);
    END IF;
  END IF;
  FOR v_job IN SELECT * FROM jsonb_array_elements(p_unit->'jobs') LOOP
    SELECT * INTO v_one FROM @submit_job_v1(p_now, v_job, v_repeat);
    IF v_one.how IS NULL THEN
      RETURN jsonb_build_object('kind', 'refused', 'reason', 'id-differs', 'id', v_one.id);
    END IF;
    IF v_one.how IN ('intake-closed', 'key-held') THEN
      RETURN jsonb_build_object('kind', 'refused', 'reason', v_one.how, 'id', v_one.id);
    END IF;
    v_ids := v_ids || to_jsonb(v_one.id);
    v_hows := v_hows || to_jsonb(v_one.how);
    v_events := @append_events_v1(v_events, v_one.events);
    -- If a minted id of a unit is known, the unit has happened whole, so its documents are not put again.
    IF v_repeat AND v_one.how = 'existing' AND v_one.id = v_job->'given'->>'id'
      AND v_job->'given'->>'digest' IS NULL THEN
      v_happened := true;
    END IF;
  END LOOP;
  IF NOT v_happened THEN
    IF p_unit ? 'checks' AND v_repeat THEN
      v_failed := @failed_check_v1(p_now, p_unit->'checks');
      IF v_failed IS NOT NULL THEN
        RETURN jsonb_build_object('kind', 'refused', 'reason', 'doc-changed', 'id', v_failed);
      END IF;
    END IF;
    FOR v_part IN SELECT * FROM jsonb_array_elements(p_unit->'grows') LOOP
      IF NOT @grow_v1(p_now, v_part) THEN
        RETURN jsonb_build_object('kind', 'refused', 'reason', 'flow-closed', 'id', v_part->>'id');
      END IF;
    END LOOP;
    FOR v_part IN SELECT * FROM jsonb_array_elements(p_unit->'links') LOOP
      SELECT * INTO v_linked FROM @link_v1(p_now, v_part, (p_unit->>'isInside')::bool);
      IF NOT v_linked.is_there THEN
        RETURN jsonb_build_object('kind', 'refused', 'reason', 'flow-closed', 'id', v_part->>'from');
      END IF;
      v_events := @append_events_v1(v_events, v_linked.events);
      v_defers := v_defers OR v_linked.defers;
    END LOOP;
    FOR v_doc IN SELECT * FROM jsonb_array_elements(p_unit->'docs') LOOP
      SELECT * INTO v_put FROM @put_doc_v1(p_now, v_doc);
      IF v_put.kind <> 'ok' THEN
        RETURN jsonb_build_object('kind', 'refused', 'id', v_doc->>'id', 'reason', CASE v_put.kind
          WHEN 'changed' THEN 'doc-changed'
          WHEN 'above' THEN 'above-ceiling'
          WHEN 'uncountable' THEN 'uncountable'
        END);
      END IF;
      v_defers := v_defers OR v_put.defers;
      v_events := @append_events_v1(v_events, v_doc->>'emits');
    END LOOP;
  END IF;
  RETURN jsonb_build_object('kind', 'ok', 'ids', v_ids, 'hows', v_hows, 'events', v_events, 'defers', v_defers);
END $$;
