-- A page of the unreadable records, in order of their refs after p_after.
CREATE FUNCTION @read_unreadable_v1(p_after text, p_max int4) RETURNS SETOF @unreadable LANGUAGE sql STABLE AS $$
  SELECT * FROM @unreadable WHERE p_after IS NULL OR ref > p_after ORDER BY ref LIMIT p_max
$$;
