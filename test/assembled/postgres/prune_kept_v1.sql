-- Deletes finished jobs whose own retention time is over, and results whose time is over.
CREATE FUNCTION @prune_kept_v1(p_now int8, p_commit text, p_max int4, OUT pruned int8, OUT more bool)
  LANGUAGE plpgsql AS $$
DECLARE
  v_now int8 := @begin_v1(p_now, p_commit); v_ids text[]; v_ends int8[]; v_count int8; v_seen int8 := 0;
BEGIN
  pruned := 0;
  SELECT array_agg(id), array_agg(ended_at) INTO v_ids, v_ends FROM (
    SELECT id, ended_at FROM @history
    WHERE keep_until <= v_now AND keep_until < 8640000000000000
    ORDER BY keep_until, seq LIMIT p_max - v_seen) d;
  v_count := @delete_finished_v1(v_now, v_ids, v_ends);
  pruned := pruned + v_count;
  v_seen := v_seen + coalesce(cardinality(v_ids), 0);
  SELECT array_agg(id), array_agg(ended_at) INTO v_ids, v_ends FROM (
    SELECT id, ended_at FROM @history
    WHERE result_until <= v_now AND true
    ORDER BY result_until, seq LIMIT p_max - v_seen) d;
  UPDATE @history h SET result = NULL, result_until = NULL FROM unnest(v_ids, v_ends) d(id, ended_at)
  WHERE h.id = ANY (v_ids) AND h.id = d.id AND h.ended_at = d.ended_at AND h.result_until <= v_now;
  GET DIAGNOSTICS v_count = ROW_COUNT;
  pruned := pruned + v_count;
  v_seen := v_seen + coalesce(cardinality(v_ids), 0);
  more := v_seen = p_max;
END $$;
