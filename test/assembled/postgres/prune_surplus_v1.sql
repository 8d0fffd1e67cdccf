-- Deletes the jobs of a queue and an outcome beyond the newest p_keep, in windows of seqs after p_after; in a window
-- those that ended first. Only one call at a time counts and deletes, because two would both delete the same surplus.
CREATE FUNCTION @prune_surplus_v1(p_now int8, p_commit text, p_state int2, p_queue text, p_keep int8,
  p_max int4, p_after int8, OUT pruned int8, OUT more bool, OUT last int8) LANGUAGE plpgsql
  SET plan_cache_mode = force_custom_plan AS $$
DECLARE
  v_now int8 := @begin_v1(p_now, p_commit); v_window int4 := greatest(1000, p_max * 4);
  v_routes int8[]; v_surplus int8; v_ids text[]; v_ends int8[]; v_seen int8; v_stop int8; v_found int8;
BEGIN
  pruned := 0; more := false; last := nullif(p_after, 0);
  IF NOT pg_try_advisory_xact_lock(hashtextextended('@surplus', 0)) THEN RETURN; END IF;
  v_routes := ARRAY(SELECT number FROM @route WHERE queue = p_queue);
  SELECT coalesce(sum(count), 0) - p_keep INTO v_surplus
  FROM @state_count WHERE state = p_state AND route = ANY (v_routes);
  IF v_surplus <= 0 THEN RETURN; END IF;
  SELECT count(*), max(seq) INTO v_seen, v_stop FROM (
    SELECT seq FROM @history
    WHERE seq > p_after AND (p_state = 5 OR state <> 5) ORDER BY seq LIMIT v_window) w;
  SELECT array_agg(id), array_agg(ended_at), coalesce(max(candidates), 0) INTO v_ids, v_ends, v_found FROM (
    SELECT id, ended_at, count(*) OVER () AS candidates FROM @history
    WHERE seq > p_after AND seq <= v_stop AND state = p_state AND keep_until IS NULL AND keeps_lane = 0
      AND route = ANY (v_routes)
    ORDER BY ended_at, seq LIMIT least(p_max, v_surplus)) d;
  pruned := @delete_finished_v1(v_now, v_ids, v_ends);
  IF pruned = v_surplus OR pruned < v_found THEN
    more := pruned < v_surplus;
  ELSE
    more := v_seen = v_window;
    last := CASE WHEN more THEN v_stop END;
  END IF;
END $$;
