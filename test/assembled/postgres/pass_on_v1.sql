-- The end of a finished member, whose row the caller has locked, goes along its next p_max edges.
CREATE FUNCTION @pass_on_v1(p_now int8, p_id text, p_max int4, OUT events text, OUT defers bool) LANGUAGE plpgsql AS $$
#variable_conflict use_column
DECLARE j @waiting; v_passed int4; v_edges int4;
BEGIN
  defers := false;
  SELECT * INTO j FROM @history WHERE id = p_id;
  IF NOT FOUND OR NOT (j.flow IS NOT NULL AND j.waits IS NOT NULL) THEN RETURN; END IF;
  v_passed := split_part(j.waits, ',', 3)::int4;
  v_edges := coalesce(jsonb_array_length(j.edges::jsonb), 0);
  IF v_passed >= v_edges THEN RETURN; END IF;
  UPDATE @history SET waits = regexp_replace(waits, '^([^,]*,[^,]*,)[^,]*', '\1' || least(v_edges, v_passed + p_max))
    WHERE id = p_id AND ended_at = j.ended_at;
  SELECT a.events, a.defers INTO events, defers FROM @arrive_v1(p_now, '{1}', ARRAY[j.id], ARRAY[j.flow],
    ARRAY[j.edges], ARRAY[j.state], ARRAY[v_passed], p_max) a;
END $$;
