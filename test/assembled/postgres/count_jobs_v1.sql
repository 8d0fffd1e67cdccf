-- How many jobs of each route are in each state.
CREATE FUNCTION @count_jobs_v1() RETURNS TABLE (route int8, state int2, jobs int8) LANGUAGE sql STABLE AS $$
  SELECT route, state, sum(count)::int8 FROM @state_count
  GROUP BY route, state HAVING sum(count) <> 0 ORDER BY route, state
$$;
