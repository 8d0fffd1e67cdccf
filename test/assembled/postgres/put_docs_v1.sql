-- Puts documents one after the other; a row of kind, version and number for each, as put_doc_v1 answers.
CREATE FUNCTION @put_docs_v1(p_now int8, p_commit text, p_puts text)
  RETURNS TABLE (kind text, version int8, number int8) LANGUAGE plpgsql
  SET enable_seqscan = off SET enable_bitmapscan = off SET jit = off
  SET plan_cache_mode = force_generic_plan AS $$
#variable_conflict use_column
DECLARE v_now int8 := @begin_v1(p_now, p_commit); v_puts jsonb := p_puts::jsonb; v_put jsonb; v_events text;
BEGIN
  PERFORM @lock_counters_v1(v_puts);
  FOR v_put IN SELECT * FROM jsonb_array_elements(v_puts) LOOP
    SELECT d.kind, d.version, d.number INTO kind, version, number FROM @put_doc_v1(v_now, v_put) d;
    IF kind = 'ok' THEN v_events := @append_events_v1(v_events, v_put->>'emits'); END IF;
    RETURN NEXT;
  END LOOP;
  PERFORM @emit_v1(v_now, v_events, false);
END $$;
