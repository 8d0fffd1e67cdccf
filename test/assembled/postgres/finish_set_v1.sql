-- Changes that end jobs in one state in the same way, as one set: hundreds of flows end together. p_changes: as
-- change_one_v1 has them, each job once, all with one guard except for its rev; p_end, p_log: their next and attempts.
-- If one of the jobs does not meet its guard, is a member, holds a key or is in a lane, nothing is done and the answer
-- is null: then each job is changed by itself.
CREATE FUNCTION @finish_set_v1(p_now int8, p_changes jsonb, p_from int2, p_end jsonb, p_log text,
  OUT answers jsonb, OUT events text) LANGUAGE plpgsql AS $$
#variable_conflict use_column
DECLARE
  v_to int2 := (p_end->>'to')::int2; v_places tid[]; v_count int4; v_ids text; l_route int8[]; l_rev int4[];
  l_attempt int4[]; r_id text[]; r_rev int4[]; v_events text;
BEGIN
  SELECT array_agg(place) INTO v_places FROM (
    SELECT j.ctid AS place FROM @waiting j JOIN (
      SELECT c->>'id' AS id, (c->'cases'->0->'guard'->>'rev')::int4 AS rev
      FROM jsonb_array_elements(p_changes) c) c ON c.id = j.id
    WHERE j.state = p_from AND j.rev = coalesce(c.rev, j.rev) AND j.flow IS NULL
      AND j.holds = 0 AND j.lane_key IS NULL AND NOT
        (j.state NOT IN (0, 1, 2, 4)
          OR CASE
            WHEN j.tags IS NULL OR j.tags
              ~ '^\["(?:[^"\\[:cntrl:]]|\\["\\/bfnrt])*"(?:, ?"(?:[^"\\[:cntrl:]]|\\["\\/bfnrt])*")*\]$'
            THEN false ELSE @tags_of_v1(j.tags) IS NULL END
          OR CASE
            WHEN j.lane_gates IS NULL OR j.lane_gates
              ~ '^\["(?:[^"\\[:cntrl:]]|\\["\\/bfnrt])*"(?:, ?"(?:[^"\\[:cntrl:]]|\\["\\/bfnrt])*")*\]$'
            THEN false ELSE @tags_of_v1(j.lane_gates) IS NULL END
          OR CASE
            WHEN j.edges IS NULL OR j.edges
              ~ '^\["(?:[^"\\[:cntrl:]]|\\["\\/bfnrt])*"(?:, ?"(?:[^"\\[:cntrl:]]|\\["\\/bfnrt])*")*\]$'
            THEN false ELSE @tags_of_v1(j.edges) IS NULL END
          OR coalesce(j.waits !~ '^-?[0-9]{1,15}(,-?[0-9]{1,15}){3}((,-?[0-9]{1,15}){6})?$', false))
    ORDER BY j.id FOR UPDATE OF j) h;
  IF cardinality(v_places) IS DISTINCT FROM jsonb_array_length(p_changes) THEN RETURN; END IF;
  WITH ended AS (DELETE FROM @waiting WHERE ctid = ANY (v_places) RETURNING *),
  kept AS (
    INSERT INTO @history (
      seq, created_at, route, rank, due_at, fence, rev, attempt, durable, state, counts_attempt,
      cancel_asked, holds, keeps_lane, id, input, unique_hold, lane_step, deadline_at, ttl_at, timer_at,
      settled_fence, claimed_at, started_at, lease_ends_at, attempt_ends_at, ended_at, keep_until,
      result_until, digest, unique_key, lane_key, lane_gates, flow, edges, freed, tags, policy, meta,
      change_token, waits, attempts, progress, owner, reason, result)
    SELECT seq, created_at, route, rank, due_at, fence, rev + 1, attempt, durable, v_to, counts_attempt,
    cancel_asked, 0, keeps_lane, id, input, unique_hold, lane_step, deadline_at, ttl_at, NULL,
    settled_fence, claimed_at, started_at, NULL, NULL, p_now, p_now + (p_end->>'keepMs')::int8,
    result_until, digest, unique_key, lane_key, lane_gates, flow, edges, freed, tags, policy, meta,
    change_token, waits, coalesce(p_log, attempts), progress, owner, p_end->>'reason', p_end->>'result'
    FROM ended)
  SELECT count(*), string_agg(id, E'\x1f'),
    CASE WHEN min(route) = max(route)
      THEN ARRAY[min(route)] ELSE array_agg(route) END,
    CASE WHEN min(rev + 1) = max(rev + 1)
      THEN ARRAY[min(rev + 1)] ELSE array_agg(rev + 1) END,
    CASE WHEN min(attempt) = max(attempt)
      THEN ARRAY[min(attempt)] ELSE array_agg(attempt) END,
    array_agg(id), array_agg(rev + 1)
  INTO v_count, v_ids, l_route, l_rev, l_attempt, r_id, r_rev FROM ended;
  IF array_length(l_route, 1) = 1 AND array_length(l_rev, 1) = 1 AND array_length(l_attempt, 1) = 1 THEN
    v_events := concat_ws(E'\x1f', (p_end->>'event')::int4, l_rev[1], l_route[1], v_to, l_attempt[1],
    coalesce('s' || (p_end->>'reason'), ''), v_ids);
    INSERT INTO @state_count VALUES (l_route[1], p_from, -v_count),
      (l_route[1], v_to, v_count);
  ELSE
    WITH grouped AS (
      SELECT coalesce(g.route, l_route[1]) AS route, coalesce(g.rev, l_rev[1]) AS rev,
        coalesce(g.attempt, l_attempt[1]) AS attempt, false AS is_first, count(*) AS jobs,
        string_agg(g.id, E'\x1f') AS ids
      FROM unnest(l_route, l_rev, l_attempt, string_to_array(v_ids, E'\x1f'))
        WITH ORDINALITY g(route, rev, attempt, id, o)
      GROUP BY 1, 2, 3, 4),
    counted AS (
      INSERT INTO @state_count SELECT route, p_from, -sum(jobs) FROM grouped GROUP BY route
        UNION ALL SELECT route, v_to, sum(jobs) FROM grouped GROUP BY route)
    SELECT string_agg(
      concat_ws(E'\x1f', (p_end->>'event')::int4, rev, route, v_to, attempt,
        coalesce('s' || (p_end->>'reason'), ''), ids), E'\x1e')
    INTO v_events FROM grouped;
  END IF;
  events := v_events;
  SELECT jsonb_agg(jsonb_build_object('kind', 'ok', 'applied', 0, 'from', p_from, 'state', v_to, 'rev', r.rev)
    ORDER BY c.place)
  INTO answers FROM jsonb_array_elements(p_changes) WITH ORDINALITY c(change, place)
    JOIN unnest(r_id, r_rev) r(id, rev) ON r.id = c.change->>'id';
END $$;
