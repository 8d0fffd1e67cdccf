-- A row of route whose number does not follow from its content. The next submit of its jobs adds the right row.
CREATE FUNCTION @keep_unreadable_route_v1(p_now int8, p_commit text, p_number int8, p_queue text, p_name text,
  p_requires text, p_gates jsonb, p_lanes text) RETURNS void LANGUAGE sql AS $$
  WITH bad AS (
    DELETE FROM @route r
    WHERE r.number = p_number AND r.queue = p_queue AND r.name = p_name AND r.requires = p_requires
      AND r.gates = p_gates AND r.lanes IS NOT DISTINCT FROM p_lanes
    RETURNING r.*)
  INSERT INTO @unreadable
  SELECT 'route:' || number || ':' || md5(bad::text), NULL, 'a route whose number is another''s',
    @begin_v1(p_now, p_commit), left(to_jsonb(bad)::text, 4000)
  FROM bad LIMIT 1 ON CONFLICT DO NOTHING
$$;
