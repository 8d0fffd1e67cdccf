-- Deletes finished rows by place, none if the lists are null; answers how many. A deleted flow leaves deferred work.
CREATE FUNCTION @delete_finished_v1(p_now int8, p_ids text[], p_ends int8[]) RETURNS int8 LANGUAGE plpgsql AS $$
DECLARE v_pruned int8; v_flows text[];
BEGIN
  WITH gone AS (
    DELETE FROM @history h USING unnest(p_ids, p_ends) d(id, ended_at)
    WHERE h.id = ANY (p_ids) AND h.id = d.id AND h.ended_at = d.ended_at
    RETURNING h.seq, h.route, h.state, h.tags, h.id, h.waits, h.durable),
  counted AS (INSERT INTO @state_count SELECT route, state, -count(*) FROM gone GROUP BY route, state),
  deleted AS (
    SELECT @delete_attached_v1(seq, tags, durable),
      CASE WHEN coalesce(split_part(waits, ',', 5), '') <> '' THEN id END AS flow FROM gone)
  SELECT count(*), array_agg(flow) FILTER (WHERE flow IS NOT NULL) INTO v_pruned, v_flows FROM deleted;
  IF v_flows IS NOT NULL THEN PERFORM @defer_work_v1(p_now, v_flows); END IF;
  RETURN v_pruned;
END $$;
