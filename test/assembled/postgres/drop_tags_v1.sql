-- Deletes the rows of these tags of a job.
CREATE FUNCTION @drop_tags_v1(p_seq int8, p_tags text) RETURNS void LANGUAGE sql AS $$
  DELETE FROM @tag WHERE seq = p_seq AND tag = ANY (@tags_of_v1(p_tags))
$$;
