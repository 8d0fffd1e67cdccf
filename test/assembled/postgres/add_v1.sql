-- p_put: {kind, id, add: {by, ceiling?, marks?, leaves?}, expiresIn}; by: null if it is no number; leaves: a put of
-- put_doc_v1. number: the sum, or the present number of a refusal as above. defers: whether a mark was passed, so that
-- leaves was put.
CREATE FUNCTION @add_v1(p_now int8, p_put jsonb, OUT kind text, OUT version int8, OUT number int8, OUT defers bool)
  LANGUAGE plpgsql AS $$
#variable_conflict use_column
DECLARE
  v_kind text := p_put->>'kind'; v_id text := p_put->>'id'; v_add jsonb := p_put->'add';
  v_by int8 := (v_add->>'by')::int8; v_old record; v_before int8; v_sum int8;
BEGIN
  defers := false;
  LOOP
    SELECT d.version, d.expires_at, d.body INTO v_old FROM @doc d WHERE d.kind = v_kind AND d.id = v_id FOR UPDATE;
    v_before := CASE WHEN v_old.version IS NULL OR v_old.expires_at <= p_now THEN 0
      WHEN v_old.body ~ '^(0|-?[1-9][0-9]{0,15})$' THEN v_old.body::int8 END;
    v_sum := v_before + v_by;
    IF v_sum IS NULL OR abs(v_before) > 9007199254740991 THEN kind := 'uncountable'; RETURN; END IF;
    IF v_by > 0 AND v_sum > (v_add->>'ceiling')::numeric THEN
      kind := 'above';
      number := v_before;
      RETURN;
    END IF;
    IF abs(v_sum) > 9007199254740991 THEN kind := 'uncountable'; RETURN; END IF;
    -- A counter that is not there is not locked: if another call has made it meanwhile, the sum is another one.
    SELECT p.kind, p.version INTO kind, version FROM @put_doc_v1(p_now, jsonb_build_object('kind', v_kind, 'id', v_id,
      'body', v_sum::text, 'guard', CASE WHEN v_old.version IS NULL THEN 0 END, 'expiresIn', p_put->'expiresIn')) p;
    EXIT WHEN kind = 'ok';
  END LOOP;
  number := v_sum;
  IF v_add ? 'leaves' AND EXISTS (SELECT 1 FROM jsonb_array_elements_text(v_add->'marks') m
      WHERE v_before < m::numeric AND m::numeric <= v_sum) THEN
    defers := true;
    PERFORM @put_doc_v1(p_now, v_add->'leaves');
  END IF;
END $$;
