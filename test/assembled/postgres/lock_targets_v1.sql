-- Two calls that change several members, or jobs to which these lead, must not wait for each other. So live jobs are
-- locked by id, running ones first. The targets of a finished member are locked when its end arrives there. p_ids: the
-- jobs that the call changes; p_changes: the changes, for the parents that they name; null for none.
CREATE FUNCTION @lock_targets_v1(p_ids text[], p_changes jsonb) RETURNS void LANGUAGE plpgsql AS $$
DECLARE v_targets text[]; v_parents text[];
BEGIN
  SELECT array_agg(DISTINCT CASE WHEN length(e.edge) = 2 THEN m.flow
    ELSE m.flow || '.' || substr(e.edge, 3) END)
  INTO v_targets FROM (
    SELECT id, flow, edges FROM @waiting WHERE id = ANY (p_ids) AND (flow IS NOT NULL AND waits IS NOT NULL)
    UNION ALL SELECT id, flow, edges FROM @leased WHERE id = ANY (p_ids) AND (flow IS NOT NULL AND waits IS NOT NULL)) m
    CROSS JOIN LATERAL jsonb_array_elements_text(m.edges::jsonb) e(edge);
  IF v_targets IS NULL THEN RETURN; END IF;
  IF p_changes IS NOT NULL THEN
    SELECT array_agg(DISTINCT substr(p #>> '{}', 3)) INTO v_parents
    FROM jsonb_path_query(p_changes, '$[*].cases[*].next.parents[*]') p;
  END IF;
  PERFORM 1 FROM @leased WHERE id = ANY (p_ids || v_parents) ORDER BY id FOR UPDATE;
  PERFORM 1 FROM @waiting
  WHERE id = ANY (p_ids || v_parents || v_targets) AND (state = 0 OR id = ANY (p_ids || v_parents))
  ORDER BY id FOR UPDATE;
END $$;
