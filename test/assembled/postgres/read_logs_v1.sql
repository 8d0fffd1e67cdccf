-- A page of a job's log lines, after the line p_after.
CREATE FUNCTION @read_logs_v1(p_id text, p_after int4, p_max int4)
  RETURNS TABLE (number int8, at int8, body text) LANGUAGE sql STABLE AS $$
  SELECT t.number, t.at, t.body FROM @journal t
  WHERE t.seq = (
      SELECT seq FROM @waiting j WHERE j.id = p_id
      UNION ALL SELECT seq FROM @leased j WHERE j.id = p_id
      UNION ALL SELECT seq FROM @history j WHERE j.id = p_id LIMIT 1) AND t.fence = 0 AND t.number > p_after
  ORDER BY t.number LIMIT p_max
$$;
