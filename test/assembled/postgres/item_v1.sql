-- Does all of an item or nothing. isLate: it may be held up, or be refused after some of it was written.
CREATE FUNCTION @item_v1(p_what text, p_now int8, p_item jsonb) RETURNS jsonb LANGUAGE plpgsql AS $$
DECLARE v_answer jsonb;
BEGIN
  IF NOT (p_item->>'isLate')::bool THEN
    RETURN CASE p_what
      WHEN 'submit_unit_v1' THEN @submit_unit_v1(p_now, p_item)
      WHEN 'settle_one_v1' THEN @settle_one_v1(p_now, p_item)
      WHEN 'change_one_v1' THEN @change_one_v1(p_now, p_item)
      WHEN 'record_one_v1' THEN @record_one_v1(p_now, p_item)
    END;
  END IF;
  BEGIN
    v_answer := CASE p_what
      WHEN 'submit_unit_v1' THEN @submit_unit_v1(p_now, p_item)
      WHEN 'settle_one_v1' THEN @settle_one_v1(p_now, p_item)
      WHEN 'change_one_v1' THEN @change_one_v1(p_now, p_item)
      WHEN 'record_one_v1' THEN @record_one_v1(p_now, p_item)
    END;
    IF v_answer->>'kind' IN ('refused', 'doc-changed', 'above-ceiling', 'uncountable', 'id-differs', 'flow-closed',
      'key-held') THEN
      RAISE EXCEPTION 'millrace: taken back' USING ERRCODE = 'MR001';
    END IF;
  EXCEPTION
    WHEN SQLSTATE 'MR001' THEN NULL;
    WHEN lock_not_available THEN
      PERFORM set_config('lock_timeout', '1', true);
      RETURN '{"kind": "locked"}';
  END;
  RETURN v_answer;
END $$;
