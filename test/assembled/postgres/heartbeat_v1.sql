-- The heartbeat of a process: puts documents (null for none), then reads others, as lists of lists. Answers also the
-- next clock and the routes that have ready jobs.
CREATE FUNCTION @heartbeat_v1(p_now int8, p_commit text, p_puts text, p_kind text, p_ids text[], p_first text,
  p_after text, p_max int4,
  OUT now int8, OUT clock int8, OUT puts text, OUT docs text, OUT ready int8[]) LANGUAGE plpgsql AS $$
BEGIN
  now := @begin_v1(p_now, p_commit);
  IF p_puts IS NOT NULL THEN
    SELECT json_agg(json_build_array(d.kind, d.version, d.number))::text INTO puts
      FROM @put_docs_v1(p_now, p_commit, p_puts) d;
  END IF;
  SELECT json_agg(json_build_array(d.id, d.version, d.body, d.due_at, d.expires_at))::text INTO docs
    FROM @read_docs_v1(p_now, p_kind, p_ids, p_first, p_after, p_max) d;
  clock := @next_clock_v1();
  SELECT array_agg(r.route ORDER BY r.route) INTO ready
    FROM (SELECT t.route FROM @state_count t WHERE t.state = 2 GROUP BY t.route
        HAVING sum(t.count) > 0) r;
END $$;
