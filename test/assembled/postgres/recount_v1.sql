-- Corrects the counts of these routes, or of all; answers how many were wrong. It counts in one snapshot with the
-- stored counts, which are exact at every commit, so any difference is an error. The correction is one more delta.
CREATE FUNCTION @recount_v1(p_routes int8[]) RETURNS int8 LANGUAGE plpgsql
  SET plan_cache_mode = force_custom_plan AS $$
DECLARE v_repaired int8;
BEGIN
  WITH real AS (
    SELECT route, state, count(*) AS jobs FROM (
      SELECT route, state FROM @waiting j WHERE true
      UNION ALL SELECT route, state FROM @leased j WHERE true
      UNION ALL SELECT route, state FROM @history j WHERE true) j
    WHERE p_routes IS NULL OR route = ANY (p_routes) GROUP BY route, state),
  counted AS (
    SELECT route, state, sum(count) AS jobs FROM @state_count
    WHERE p_routes IS NULL OR route = ANY (p_routes) GROUP BY route, state)
  INSERT INTO @state_count
  SELECT route, state, coalesce(r.jobs, 0) - coalesce(t.jobs, 0) FROM real r FULL JOIN counted t USING (route, state)
  WHERE coalesce(r.jobs, 0) <> coalesce(t.jobs, 0);
  GET DIAGNOSTICS v_repaired = ROW_COUNT;
  RETURN v_repaired;
END $$;
