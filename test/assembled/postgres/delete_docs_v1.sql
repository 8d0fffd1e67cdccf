-- Deletes documents of given versions as one set, under the guards of put_doc_v1. Finished deferred work is deleted
-- this way, hundreds at a time. p_deletes: [{kind, id, guard}], each document once, and in the same order in every
-- call, because their rows are locked one after the other.
CREATE FUNCTION @delete_docs_v1(p_now int8, p_commit text, p_deletes text)
  RETURNS TABLE (kind text, version int8) LANGUAGE plpgsql
  SET enable_seqscan = off SET enable_bitmapscan = off SET jit = off
  SET plan_cache_mode = force_generic_plan AS $$
#variable_conflict use_column
DECLARE
  v_now int8 := @begin_v1(p_now, p_commit); v_deletes jsonb := p_deletes::jsonb;
  v_gone text[]; v_highest int8;
BEGIN
  WITH gone AS (
    DELETE FROM @doc d USING jsonb_to_recordset(v_deletes) p(kind text, id text, guard int8)
    WHERE d.kind = p.kind AND d.id = p.id AND d.version = p.guard AND (d.expires_at IS NULL OR d.expires_at > v_now)
    RETURNING d.kind, d.id, d.version)
  SELECT array_agg(kind || E'\x1f' || id), max(version) INTO v_gone, v_highest FROM gone;
  IF v_highest > coalesce((SELECT max(f.version) FROM @doc_floor f), 0) THEN
    INSERT INTO @doc_floor VALUES (v_highest);
  END IF;
  IF cardinality(v_gone) = jsonb_array_length(v_deletes) THEN
    RETURN QUERY SELECT 'ok', 0::int8 FROM generate_series(1, cardinality(v_gone));
  ELSE
    RETURN QUERY SELECT CASE WHEN p.is_gone THEN 'ok' ELSE 'changed' END, coalesce(d.version, 0) FROM (
      SELECT *, kind || E'\x1f' || id = ANY (coalesce(v_gone, '{}')) AS is_gone
      FROM ROWS FROM (jsonb_to_recordset(v_deletes) AS (kind text, id text)) WITH ORDINALITY a(kind, id, place)) p
      LEFT JOIN @doc d ON d.kind = p.kind AND d.id = p.id AND NOT p.is_gone
        AND (d.expires_at IS NULL OR d.expires_at > v_now)
    ORDER BY p.place;
  END IF;
END $$;
