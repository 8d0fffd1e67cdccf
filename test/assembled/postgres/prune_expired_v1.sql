-- Deletes unique keys and documents whose time is over.
CREATE FUNCTION @prune_expired_v1(p_now int8, p_commit text, p_max int4, OUT pruned int8, OUT more bool)
  LANGUAGE plpgsql AS $$
DECLARE v_now int8 := @begin_v1(p_now, p_commit);
BEGIN
  DELETE FROM @uniq WHERE ctid = ANY (ARRAY(
    SELECT ctid FROM @uniq WHERE held_until <= v_now ORDER BY held_until LIMIT p_max FOR UPDATE SKIP LOCKED));
  GET DIAGNOSTICS pruned = ROW_COUNT;
  WITH gone AS (
    DELETE FROM @doc WHERE ctid = ANY (ARRAY(
      SELECT ctid FROM @doc WHERE expires_at <= v_now ORDER BY expires_at LIMIT p_max - pruned
      FOR UPDATE SKIP LOCKED))
    RETURNING version),
  floors AS (INSERT INTO @doc_floor SELECT max(version) FROM gone HAVING count(*) > 0)
  SELECT pruned + count(*) INTO pruned FROM gone;
  more := pruned = p_max;
END $$;
