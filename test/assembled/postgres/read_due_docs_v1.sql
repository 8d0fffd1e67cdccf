-- Due documents after (p_due, p_kind, p_id). The last row has no document, but the next clock.
CREATE FUNCTION @read_due_docs_v1(p_now int8, p_due int8, p_kind text, p_id text, p_max int4)
  RETURNS TABLE (now int8, next_clock int8, kind text, id text, version int8, body text, due_at int8, expires_at int8)
  LANGUAGE plpgsql
  SET enable_seqscan = off SET enable_bitmapscan = off SET jit = off
  SET plan_cache_mode = force_generic_plan AS $$
#variable_conflict use_column
DECLARE v_now int8 := @begin_v1(p_now, NULL);
BEGIN
  RETURN QUERY SELECT v_now, NULL::int8, d.kind, d.id, d.version, d.body, d.due_at, d.expires_at FROM @doc d
  WHERE d.due_at IS NOT NULL AND d.due_at <= v_now AND (d.due_at, d.kind, d.id) > (p_due, p_kind, p_id)
  ORDER BY d.due_at, d.kind, d.id LIMIT p_max;
  RETURN QUERY SELECT v_now, @next_clock_v1(), NULL::text, NULL::text, NULL::int8, NULL::text, NULL::int8, NULL::int8;
END $$;
