-- Joins the events of two parts of a call; either may be null.
CREATE FUNCTION @append_events_v1(p_one text, p_other text) RETURNS text LANGUAGE sql IMMUTABLE AS $$
  SELECT CASE
    WHEN p_one IS NULL OR p_one = '' THEN p_other
    WHEN p_other IS NULL OR p_other = '' THEN p_one
    ELSE p_one || E'\x1e' || p_other END
$$;
