-- Adds the tags of a job, each once.
CREATE FUNCTION @add_tags_v1(j @waiting) RETURNS void LANGUAGE sql AS $$
  INSERT INTO @tag SELECT t, j.seq, j.id FROM unnest(@tags_of_v1(j.tags)) t ON CONFLICT DO NOTHING
$$;
