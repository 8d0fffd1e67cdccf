-- The routes that may have room after jobs have left these; null for none.
CREATE FUNCTION @sharing_v1(p_routes int8[]) RETURNS int8[] LANGUAGE sql STABLE SET enable_nestloop = on AS $$
  SELECT array_agg(DISTINCT o.route)
  FROM @gate_use u JOIN @gate g ON g.key = u.key AND g.cap IS NOT NULL JOIN @gate_use o ON o.key = u.key
  WHERE u.route = ANY (p_routes)
$$;
