-- Deletes these records; answers how many of them there were.
CREATE FUNCTION @delete_unreadable_v1(p_now int8, p_commit text, p_refs text[]) RETURNS int8 LANGUAGE sql AS $$
  SELECT @begin_v1(p_now, p_commit);
  WITH gone AS (DELETE FROM @unreadable WHERE ref = ANY (p_refs) RETURNING 1) SELECT count(*) FROM gone
$$;
