-- The state in which a parent has ended, if its end has arrived at this job; null if it has yet to arrive. A parent
-- that is gone counts as one that never ran.
CREATE FUNCTION @arrived_from_v1(p_now int8, p_parent text, p_id text) RETURNS int2 LANGUAGE plpgsql AS $$
DECLARE j @waiting := @lock_job_v1(p_now, p_parent); v_at int8;
BEGIN
  IF j.id IS NULL THEN RETURN 9; END IF;
  IF j.state < 5 OR j.waits IS NULL THEN RETURN NULL; END IF;
  SELECT min(e.o) INTO v_at FROM jsonb_array_elements_text(j.edges::jsonb) WITH ORDINALITY e(edge, o)
    WHERE CASE WHEN length(e.edge) = 2 THEN coalesce(j.flow, j.id)
      ELSE coalesce(j.flow, j.id) || '.' || substr(e.edge, 3) END
      = p_id;
  -- If the parent has no edge to this job any more, its end counts as arrived.
  RETURN CASE WHEN coalesce(v_at, 0) <= split_part(j.waits, ',', 3)::int4 THEN j.state END;
END $$;
