-- Deletes the journals of these jobs.
CREATE FUNCTION @delete_journal_v1(p_seq int8) RETURNS void LANGUAGE sql AS $$
  DELETE FROM @entry WHERE seq = p_seq;
  DELETE FROM @slip WHERE seq = p_seq
$$;
