-- One event as the feed packs it. A deleted job has no state.
CREATE FUNCTION @event_v1(p_kind int4, j @waiting) RETURNS text LANGUAGE sql IMMUTABLE AS $$
  SELECT concat_ws(E'\x1f', p_kind, j.rev, j.route,
    CASE WHEN p_kind = 21 THEN '' ELSE j.state::text END, j.attempt,
    coalesce(
      CASE WHEN p_kind = 21 THEN NULL
        WHEN p_kind = 23 THEN 'n' || j.started_at
        WHEN p_kind IN (24, 34) THEN 's' || j.progress
        WHEN j.state = 1 THEN 'n' || j.due_at
        WHEN j.state >= 5 THEN 's' || j.reason
        WHEN j.state = 3 AND (j.cancel_asked = 1 OR p_kind = 30)
          THEN 's' || j.owner END, ''),
    j.id)
$$;
