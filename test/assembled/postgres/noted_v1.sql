-- The same event with the note of its settle, if there is any.
CREATE FUNCTION @noted_v1(p_event text, p_note text) RETURNS text LANGUAGE sql IMMUTABLE AS $$
  SELECT CASE WHEN p_note = '' THEN p_event
    ELSE regexp_replace(p_event, E'\x1f', '+' || E'\x1f') || E'\x1f' || p_note END
$$;
