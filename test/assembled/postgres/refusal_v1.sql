-- Why a lease is not the current one. An id with another seq is another job, which came after this one was deleted.
CREATE FUNCTION @refusal_v1(p_id text, p_seq int8, p_fence int8) RETURNS text LANGUAGE sql STABLE AS $$
  SELECT coalesce((
    SELECT CASE WHEN k.settled_fence = p_fence AND k.seq = p_seq THEN 'already' ELSE 'stale' END FROM (
      SELECT seq, settled_fence FROM @waiting j WHERE id = p_id
      UNION ALL SELECT seq, settled_fence FROM @leased j WHERE id = p_id
      UNION ALL SELECT seq, settled_fence FROM @history j WHERE id = p_id) k LIMIT 1), 'gone')
$$;
