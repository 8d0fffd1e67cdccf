-- Deletes everything that belongs to a job without a row.
CREATE FUNCTION @delete_attached_v1(p_seq int8, p_tags text, p_durable int4) RETURNS void LANGUAGE plpgsql AS $$
BEGIN
  IF p_durable <> 0 THEN PERFORM @delete_journal_v1(p_seq); END IF;
  IF p_tags IS NOT NULL THEN PERFORM @drop_tags_v1(p_seq, p_tags); END IF;
  DELETE FROM @journal WHERE seq = p_seq;
  DELETE FROM @payload WHERE seq = p_seq;
END $$;
