-- p_link: {from, edge}. If the end of the member has gone along all its edges, it goes along this one at once, or
-- inside the caller's transaction defers it. is_there: whether there is such a member.
CREATE FUNCTION @link_v1(p_now int8, p_link jsonb, p_inside bool, OUT is_there bool, OUT events text, OUT defers bool)
  LANGUAGE plpgsql AS $$
#variable_conflict use_column
DECLARE j @waiting := @lock_job_v1(p_now, p_link->>'from'); v_edges text;
BEGIN
  defers := false;
  is_there := j.id IS NOT NULL AND (j.flow IS NOT NULL AND j.waits IS NOT NULL);
  IF NOT is_there THEN RETURN; END IF;
  v_edges := (coalesce(j.edges, '[]')::jsonb || jsonb_build_array(p_link->'edge'))::text;
  IF j.state = 3 THEN UPDATE @leased SET edges = v_edges WHERE id = j.id;
  ELSIF j.state < 5 THEN UPDATE @waiting SET edges = v_edges WHERE id = j.id;
  ELSE UPDATE @history SET edges = v_edges WHERE id = j.id AND ended_at = j.ended_at; END IF;
  IF j.state < 5 OR split_part(j.waits, ',', 3)::int4 < coalesce(jsonb_array_length(j.edges::jsonb), 0) THEN
    RETURN;
  END IF;
  IF p_inside THEN
    PERFORM @defer_work_v1(p_now, ARRAY[j.id]);
    defers := true;
  ELSE
    SELECT p.events, p.defers INTO events, defers FROM @pass_on_v1(p_now, j.id, 1) p;
  END IF;
END $$;
