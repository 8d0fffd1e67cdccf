-- The earliest clock of a job in its state.
CREATE FUNCTION @timer_v1(j @waiting) RETURNS int8 LANGUAGE sql IMMUTABLE AS $$
  SELECT CASE WHEN j.state = 3 THEN least(j.lease_ends_at, j.attempt_ends_at, j.deadline_at)
    WHEN j.state < 5 THEN least(CASE j.state WHEN 1 THEN j.due_at END, j.deadline_at, j.ttl_at) END
$$;
