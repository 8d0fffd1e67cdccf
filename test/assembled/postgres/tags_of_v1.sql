-- A list of texts as a row holds it; null if it is none.
CREATE FUNCTION @tags_of_v1(p_tags text) RETURNS text[] LANGUAGE plpgsql IMMUTABLE AS $$
BEGIN
  RETURN ARRAY(SELECT jsonb_array_elements_text(p_tags::jsonb));
EXCEPTION WHEN data_exception THEN
  RETURN NULL;
END $$;
