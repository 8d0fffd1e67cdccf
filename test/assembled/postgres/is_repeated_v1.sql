-- Whether one of these keys of others is refused by the journal: it has it, or an earlier round had it.
CREATE FUNCTION @is_repeated_v1(p_seq int8, p_keys jsonb) RETURNS bool LANGUAGE plpgsql STABLE AS $$
DECLARE v_key text;
BEGIN
  FOR v_key IN SELECT * FROM jsonb_array_elements_text(p_keys) LOOP
    IF coalesce((
      SELECT e.seq = p_seq AND e.key = v_key FROM @entry e
      WHERE (e.seq, e.key) >= (p_seq, v_key) ORDER BY e.seq, e.key LIMIT 1), false)
      OR coalesce((
        SELECT e.seq = p_seq AND e.key = E'\x1f' || v_key FROM @entry e
        WHERE (e.seq, e.key) >= (p_seq, E'\x1f' || v_key) ORDER BY e.seq, e.key LIMIT 1), false) THEN
      RETURN true;
    END IF;
  END LOOP;
  RETURN false;
END $$;
