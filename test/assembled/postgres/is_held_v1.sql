-- p_guard: {states, rev?, fence?, rang?, marks?: {mask, is}}, states as codes.
CREATE FUNCTION @is_held_v1(p_now int8, j @waiting, p_guard jsonb) RETURNS bool LANGUAGE sql IMMUTABLE AS $$
  SELECT p_guard->'states' @> to_jsonb(j.state)
    AND (p_guard->>'rev' IS NULL OR (p_guard->>'rev')::int8 = j.rev)
    AND (p_guard->>'fence' IS NULL OR (p_guard->>'fence')::int8 = j.fence)
    AND (p_guard->'marks' IS NULL
      OR (j.durable & (p_guard->'marks'->>'mask')::int8) = (p_guard->'marks'->>'is')::int8)
    AND (p_guard->>'rang' IS NULL OR (j.state < 5 AND coalesce(
      CASE p_guard->>'rang'
        WHEN 'lease' THEN j.lease_ends_at
        WHEN 'attempt' THEN j.attempt_ends_at
        WHEN 'deadline' THEN j.deadline_at
        WHEN 'ttl' THEN CASE WHEN j.state <> 4 THEN j.ttl_at END
        WHEN 'wake' THEN CASE WHEN j.state = 4 THEN j.ttl_at END END <= p_now, false)))
$$;
