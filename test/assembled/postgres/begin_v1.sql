-- Called first in a call: answers its time. p_commit: synchronous_commit of this transaction; null leaves it.
CREATE FUNCTION @begin_v1(p_now int8, p_commit text) RETURNS int8 LANGUAGE plpgsql AS $$
BEGIN
  IF p_commit IS NOT NULL THEN PERFORM set_config('synchronous_commit', p_commit, true); END IF;
  RETURN coalesce(p_now, floor(extract(epoch FROM clock_timestamp()) * 1000)::int8);
END $$;
