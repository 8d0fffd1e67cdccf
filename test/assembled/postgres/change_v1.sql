-- p_from, p_end, p_log: if all changes may be made as a set (finish_set_v1); p_from is null if they may not.
CREATE FUNCTION @change_v1(p_now int8, p_commit text, p_changes text, p_from int2, p_end jsonb, p_log text,
  OUT now int8, OUT answers jsonb, OUT events text, OUT ready int8[], OUT defers bool) LANGUAGE plpgsql
  SET enable_seqscan = off SET enable_bitmapscan = off SET jit = off
  SET plan_cache_mode = force_generic_plan AS $$
BEGIN
  IF p_from IS NOT NULL THEN
    now := @begin_v1(p_now, p_commit);
    PERFORM set_config('lock_timeout', '30', true);
    SELECT s.answers, s.events INTO answers, events FROM @finish_set_v1(now, p_changes::jsonb, p_from, p_end, p_log) s;
    IF answers IS NOT NULL THEN
      PERFORM @emit_v1(now, events, false);
      RETURN;
    END IF;
  END IF;
  SELECT e.now, e.answers, e.events, e.ready, e.defers INTO now, answers, events, ready, defers
  FROM @each_v1(coalesce(now, p_now), p_commit, 'change_one_v1', p_changes) e;
END $$;
