-- Why a lease could not be written. unknown: the row is there, but another transaction holds it.
CREATE FUNCTION @lost_v1(p_id text, p_seq int8, p_fence int8) RETURNS text LANGUAGE sql STABLE AS $$
  SELECT CASE WHEN EXISTS (SELECT 1 FROM @leased WHERE id = p_id AND seq = p_seq AND fence = p_fence) THEN 'unknown'
    WHEN @refusal_v1(p_id, p_seq, p_fence) = 'gone' THEN 'gone' ELSE 'stale' END
$$;
