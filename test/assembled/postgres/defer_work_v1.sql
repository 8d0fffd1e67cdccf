-- Leaves deferred work under these ids, for each of them as often as it is named: put_doc_v1 without a guard, over a
-- set.
CREATE FUNCTION @defer_work_v1(p_now int8, p_ids text[]) RETURNS void LANGUAGE plpgsql AS $$
DECLARE v_floor int8 := coalesce((SELECT max(f.version) FROM @doc_floor f), 0);
BEGIN
  INSERT INTO @doc AS d (kind, id, version, body, due_at)
  SELECT 'deferred', o.id, v_floor + count(*), E'\x01e', p_now
  FROM unnest(p_ids) o(id) GROUP BY o.id ORDER BY o.id
    ON CONFLICT (kind, id) DO UPDATE SET version = d.version + excluded.version - v_floor, body = excluded.body,
      due_at = excluded.due_at, expires_at = NULL;
  -- As in put_doc_v1: the versions of a document that was deleted meanwhile are below the floor by now.
  SELECT max(f.version) INTO v_floor FROM @doc_floor f WHERE f.version > v_floor;
  IF v_floor IS NOT NULL THEN
    UPDATE @doc d SET version = v_floor + 1
    WHERE d.kind = 'deferred' AND d.id = ANY (p_ids) AND d.version <= v_floor;
  END IF;
END $$;
