-- Deletes finished jobs of an outcome without a retention time of their own, in order of seq after p_after. Days that
-- are too young are not read, so the cost depends on the rows that may be deleted, not on the rows that are kept.
CREATE FUNCTION @prune_history_v1(p_now int8, p_commit text, p_state int2, p_queue text, p_except text[],
  p_older int8, p_max int4, p_after int8, OUT pruned int8, OUT more bool, OUT last int8) LANGUAGE plpgsql
  SET plan_cache_mode = force_custom_plan AS $$
DECLARE
  v_now int8 := @begin_v1(p_now, p_commit); v_window int4 := greatest(1000, p_max * 4);
  v_ids text[]; v_ends int8[]; v_seen int8; v_stop int8; v_old int8 := v_now - p_older;
  v_bound int8 := CASE WHEN p_older < 86400000 THEN v_old / 86400000 + 1 ELSE v_old / 86400000 END * 86400000;
BEGIN
  PERFORM @make_partitions_v1(v_now);
  pruned := CASE WHEN p_after = 0
    THEN @drop_partition_v1(v_now, p_state, p_queue, p_except, v_old) ELSE 0 END;
  IF pruned > 0 THEN more := true; last := 0; RETURN; END IF;
  -- The plan is made for this p_state: states other than completed have an index of their own.
  SELECT count(*), max(seq) INTO v_seen, v_stop FROM (
    SELECT seq FROM (
      SELECT seq, id, ended_at, route, state, keep_until, keeps_lane FROM @history
      WHERE ended_at < v_bound AND seq > p_after AND (p_state = 5 OR state <> 5)
      UNION ALL SELECT seq, id, ended_at, route, state, keep_until, keeps_lane FROM @history_rest
      WHERE ended_at >= v_bound AND ended_at <= v_old AND seq > p_after AND (p_state = 5 OR state <> 5)) h
    ORDER BY seq LIMIT v_window) w;
  IF v_seen > 0 THEN
    SELECT array_agg(id), array_agg(ended_at), max(seq) INTO v_ids, v_ends, last FROM (
      SELECT h.id, h.ended_at, h.seq FROM (
        SELECT seq, id, ended_at, route, state, keep_until, keeps_lane FROM @history
        WHERE ended_at < v_bound AND seq > p_after AND seq <= v_stop
        UNION ALL SELECT seq, id, ended_at, route, state, keep_until, keeps_lane FROM @history_rest
        WHERE ended_at >= v_bound AND ended_at <= v_old AND seq > p_after AND seq <= v_stop) h
      WHERE h.state = p_state AND h.keep_until IS NULL AND h.keeps_lane = 0 AND h.ended_at <= v_old AND h.route IN (
        SELECT number FROM @route
        WHERE CASE WHEN p_queue IS NULL THEN queue <> ALL (p_except) ELSE queue = p_queue END)
      ORDER BY h.seq LIMIT p_max) d;
  END IF;
  pruned := @delete_finished_v1(v_now, v_ids, v_ends);
  IF pruned < p_max THEN last := v_stop; more := v_seen = v_window; ELSE more := true; END IF;
END $$;
