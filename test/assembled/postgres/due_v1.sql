-- p_due: {inMs} or {at}; null for none.
CREATE FUNCTION @due_v1(p_now int8, p_due jsonb) RETURNS int8 LANGUAGE sql IMMUTABLE AS $$
  SELECT coalesce((p_due->>'at')::int8, p_now + (p_due->>'inMs')::int8)
$$;
