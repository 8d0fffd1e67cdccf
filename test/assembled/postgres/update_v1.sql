CREATE FUNCTION @update_v1(j @waiting, p_next jsonb) RETURNS @waiting LANGUAGE plpgsql IMMUTABLE AS $$
BEGIN
  IF p_next ? 'cancelAsked' THEN j.cancel_asked := (p_next->>'cancelAsked')::bool::int4; END IF;
  IF p_next ? 'rankBase' OR p_next ? 'rankSlope' THEN
    j.rank := coalesce((p_next->>'rankBase')::int8, 0) + coalesce((p_next->>'rankSlope')::int8, 1) * j.due_at;
  END IF;
  RETURN @edit_v1(j, p_next->'edit');
END $$;
