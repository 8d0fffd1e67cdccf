-- The routes that may go on after jobs of these lanes have left, which held these keys of limits. It is read without a
-- lock, so it may answer too many.
CREATE FUNCTION @lane_hints_v1(p_lanes text[], p_limits text[]) RETURNS int8[] LANGUAGE sql STABLE
  SET enable_nestloop = on AS $$
  SELECT ARRAY(
    SELECT route FROM @lane WHERE key = ANY (p_lanes) AND route IS NOT NULL
    UNION SELECT w.route FROM unnest(p_limits) k
      CROSS JOIN LATERAL (SELECT route FROM @lane WHERE waits_at = k LIMIT 10) w)
$$;
