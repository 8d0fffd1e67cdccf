-- Documents by ids, or those from p_first on that come after p_after. In byte order.
CREATE FUNCTION @read_docs_v1(p_now int8, p_kind text, p_ids text[], p_first text, p_after text, p_max int4)
  RETURNS TABLE (id text, version int8, body text, due_at int8, expires_at int8)
  LANGUAGE plpgsql STABLE
  SET enable_seqscan = off SET enable_bitmapscan = off SET jit = off
  SET plan_cache_mode = force_generic_plan AS $$
#variable_conflict use_column
DECLARE v_now int8 := @begin_v1(p_now, NULL);
BEGIN
  IF p_ids IS NOT NULL THEN
    RETURN QUERY SELECT d.id, d.version, d.body, d.due_at, d.expires_at FROM @doc d
    WHERE d.kind = p_kind AND (d.expires_at IS NULL OR d.expires_at > v_now)
      AND d.id = ANY (p_ids) ORDER BY d.id;
  ELSE
    RETURN QUERY SELECT d.id, d.version, d.body, d.due_at, d.expires_at FROM @doc d
    WHERE d.kind = p_kind AND (d.expires_at IS NULL OR d.expires_at > v_now)
      AND d.id >= p_first AND (p_after IS NULL OR d.id > p_after) ORDER BY d.id LIMIT p_max;
  END IF;
END $$;
