-- The id of the first document whose version is not that of its check; null if all checks hold. The key share lock
-- keeps put_doc_v1 out until the end of the transaction, but lets other checks pass.
CREATE FUNCTION @failed_check_v1(p_now int8, p_checks jsonb) RETURNS text LANGUAGE plpgsql AS $$
DECLARE v_check jsonb;
BEGIN
  FOR v_check IN SELECT * FROM jsonb_array_elements(p_checks) LOOP
    PERFORM 1 FROM @doc d
    WHERE d.kind = v_check->>'kind' AND d.id = v_check->>'id' AND d.version = (v_check->>'version')::int8
      AND (d.expires_at IS NULL OR d.expires_at > p_now) FOR KEY SHARE;
    IF NOT FOUND THEN RETURN v_check->>'id'; END IF;
  END LOOP;
  RETURN NULL;
END $$;
