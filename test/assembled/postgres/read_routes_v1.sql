-- Routes in order of their numbers. p_numbers: null for all.
CREATE FUNCTION @read_routes_v1(p_numbers int8[])
  RETURNS TABLE (number int8, queue text, name text, requires text, gates jsonb, lanes text)
  LANGUAGE sql STABLE AS $$
  SELECT DISTINCT r.number, r.queue, r.name, r.requires, r.gates, r.lanes FROM @route r
  WHERE p_numbers IS NULL OR r.number = ANY (p_numbers) ORDER BY r.number
$$;
