-- The first jobs of these lanes may have changed. p_routes: for each lane the route of a job in it; one route if it is
-- the same for all. p_reopened: the first job may need other gates than before, so the lane does not wait any more.
CREATE FUNCTION @lanes_changed_v1(p_lanes text[], p_routes int8[], p_reopened bool) RETURNS void
  LANGUAGE plpgsql AS $$
BEGIN
  WITH queues AS MATERIALIZED (SELECT DISTINCT number, queue FROM @route WHERE number = ANY (p_routes))
  INSERT INTO @lane_change (scope, lanes, is_reopened)
  SELECT scope, array_agg(item), p_reopened FROM
    (SELECT scope, item, row_number() OVER (PARTITION BY scope) AS number FROM (
      SELECT DISTINCT 'g:' || coalesce(q.queue, '') AS scope, l.lane AS item
      FROM unnest(p_lanes, p_routes) l(lane, route)
        LEFT JOIN queues q ON q.number = coalesce(l.route, p_routes[1])
      WHERE l.lane IS NOT NULL) d) n
    GROUP BY scope, (number - 1) / 100;
END $$;
