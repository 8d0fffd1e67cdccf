-- p_routes to p_scopes: the routes of all jobs of the call; p_route_at: which of them each plain job has, null for the
-- first. p_large_at, p_tag_at: the position of the plain job that has this large input or tag. p_like: if there are
-- members of flows, which item of the lists of shared fields and of p_tag_at each job has; else null. Answers one text:
-- time; ready routes and the earliest timer of plain jobs; answers of units, and their events. If one of the queues has
-- a closed intake, nothing is done and the answer is empty, unless p_asks: then each unit looks at its queues' gates.
CREATE FUNCTION @submit_v1(p_now int8, p_commit text, p_inside bool, p_asks bool, p_steps int4[],
  p_routes int8[], p_queues text, p_names text, p_requires text, p_gates text, p_lanes text, p_scopes text,
  p_route_at int4[],
  p_id text, p_input text, p_tags text, p_policy text, p_meta text, p_lane_key text, p_lane_step int8[],
  p_lane_gates text, p_flow text, p_edges text, p_freed text, p_waits text,
  p_due_in int8[], p_due_at int8[], p_rank_base int8[], p_rank_slope int8[], p_deadline_in int8[],
  p_deadline_at int8[], p_ttl int8[],
  p_large_at int4[], p_large text, p_tag_at int4[], p_tag text, p_like int4[], p_units jsonb) RETURNS text
  LANGUAGE plpgsql SET plan_cache_mode = force_generic_plan AS $$
#variable_conflict use_column
DECLARE
  now int8 := @begin_v1(p_now, p_commit);
  v_queues text[] := string_to_array(p_queues, E'\x1e', E'\x02');
  v_id text[] := string_to_array(p_id, E'\x1e', E'\x02');
  v_input text[] := string_to_array(p_input, E'\x1e', E'\x02');
  v_tags text[] := string_to_array(p_tags, E'\x1e', E'\x02');
  v_policy text[] := string_to_array(p_policy, E'\x1e', E'\x02');
  v_meta text[] := string_to_array(p_meta, E'\x1e', E'\x02');
  v_lane_key text[] := string_to_array(p_lane_key, E'\x1e', E'\x02');
  v_lane_gates text[] := string_to_array(p_lane_gates, E'\x1e', E'\x02');
  v_flow text[] := string_to_array(p_flow, E'\x1e', E'\x02');
  v_edges text[] := string_to_array(p_edges, E'\x1e', E'\x02');
  v_freed text[] := string_to_array(p_freed, E'\x1e', E'\x02');
  v_waits text[] := string_to_array(p_waits, E'\x1e', E'\x02');
  v_step int4; v_from int4 := 1; v_to int4; v_unit int4 := 0; v_seqs int8[]; v_plain text; v_all text;
  v_ready int8[]; v_timer int8; v_answer jsonb; v_answers jsonb; v_events text; v_ready_all int8[];
  v_timer_first int8; v_failed text;
  -- If all jobs have one route and no clock, nothing has to be grouped.
  v_alike bool := array_length(p_routes, 1) = 1
    AND coalesce(p_due_in, p_due_at, p_deadline_in, p_deadline_at, p_ttl) IS NULL;
BEGIN
  IF NOT p_asks AND EXISTS (SELECT 1 FROM @gate WHERE is_intake_closed AND key = ANY (
        ARRAY(SELECT 'q:' || q FROM unnest(v_queues) q))) THEN
    RETURN '';
  END IF;
  PERFORM @keep_routes_v1(p_routes, v_queues,
    string_to_array(p_names, E'\x1e', E'\x02'),
    string_to_array(p_requires, E'\x1e', E'\x02'), string_to_array(p_gates, E'\x1e', E'\x02'),
    string_to_array(p_lanes, E'\x1e', E'\x02'), string_to_array(p_scopes, E'\x1e', E'\x02'));
  IF p_units IS NOT NULL THEN
    IF NOT p_inside THEN PERFORM set_config('lock_timeout', '30', true); END IF;
    PERFORM @lock_keys_v1(p_units);
  END IF;
  FOREACH v_step IN ARRAY p_steps LOOP
    IF v_step = 0 THEN
      v_answer := @item_v1('submit_unit_v1', now, p_units->v_unit);
      v_unit := v_unit + 1;
      v_events := @append_events_v1(v_events, v_answer->>'events');
      v_answers := coalesce(v_answers, '[]') || jsonb_build_array(v_answer - '{events,left,lane,defers}'::text[]);
      -- Deferred work is due at once.
      IF (v_answer->>'defers')::bool THEN v_timer_first := now; END IF;
      CONTINUE;
    END IF;
    IF v_step < 0 THEN
      v_step := -v_step;
      v_failed := @failed_check_v1(now, p_units->v_unit->'checks');
      v_unit := v_unit + 1;
      v_answers := coalesce(v_answers, '[]') || jsonb_build_array(CASE
        WHEN v_failed IS NULL THEN '{"kind": "ok"}'::jsonb
        ELSE jsonb_build_object('kind', 'refused', 'reason', 'doc-changed', 'id', v_failed) END);
      IF v_failed IS NOT NULL THEN
        v_from := v_from + v_step;
        v_seqs := v_seqs || array_fill(NULL::int8, ARRAY[v_step]);
        CONTINUE;
      END IF;
    END IF;
    v_to := v_from + v_step - 1;
    -- If large inputs or tags will be written under the seqs, they are drawn in advance.
    IF p_large_at IS NOT NULL OR p_tag_at IS NOT NULL THEN
      v_seqs := v_seqs || ARRAY(SELECT nextval('@job_seq') FROM generate_series(v_from, v_to));
    END IF;
    IF v_alike AND coalesce(p_lane_key, p_waits) IS NULL THEN
      INSERT INTO @waiting (
        seq, created_at, route, rank, due_at, fence, rev, attempt, durable, state, counts_attempt,
        cancel_asked, holds, keeps_lane, id, input, unique_hold, lane_step, deadline_at, ttl_at, timer_at,
        settled_fence, claimed_at, started_at, lease_ends_at, attempt_ends_at, ended_at, keep_until,
        result_until, digest, unique_key, lane_key, lane_gates, flow, edges, freed, tags, policy, meta,
        change_token, waits, attempts, progress, owner, reason, result)
      SELECT coalesce(v_seqs[i], nextval('@job_seq')), now, p_routes[coalesce(p_route_at[i], 1)],
      coalesce(p_rank_base[i], 0) + coalesce(p_rank_slope[i], 1) * now, now, 0, 1, 0, 0, 2, 1, 0, 0, 0,
      v_id[i], v_input[i], NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL,
      NULL, NULL, NULL, NULL, NULL, NULL, NULL, v_tags[i], v_policy[i], v_meta[i], NULL, NULL, NULL, NULL,
      NULL, NULL, NULL
      FROM generate_series(v_from, v_to) i;
      v_plain := concat_ws(E'\x1f', 0, 1, p_routes[1], 2,
        0, '', array_to_string(v_id[v_from:v_to], E'\x1f'));
      INSERT INTO @state_count VALUES (p_routes[1], 2, v_step);
      v_ready := p_routes;
    ELSIF p_waits IS NOT NULL THEN
      WITH made AS (
        INSERT INTO @waiting (
          seq, created_at, route, rank, due_at, fence, rev, attempt, durable, state, counts_attempt,
          cancel_asked, holds, keeps_lane, id, input, unique_hold, lane_step, deadline_at, ttl_at, timer_at,
          settled_fence, claimed_at, started_at, lease_ends_at, attempt_ends_at, ended_at, keep_until,
          result_until, digest, unique_key, lane_key, lane_gates, flow, edges, freed, tags, policy, meta,
          change_token, waits, attempts, progress, owner, reason, result)
        SELECT coalesce(v_seqs[i], nextval('@job_seq')), now, p_routes[coalesce(p_route_at[i], 1)],
        coalesce(p_rank_base[i], 0) + coalesce(p_rank_slope[i], 1) * c.due_at, c.due_at, 0, 1, 0, 0, c.state,
        1, 0, 0, 0, v_id[i], v_input[i], NULL, coalesce(p_lane_step[k], NULL), c.deadline_at, c.ttl_at,
        least(CASE c.state WHEN 1 THEN c.due_at END, c.deadline_at, c.ttl_at), NULL, NULL, NULL, NULL, NULL,
        NULL, NULL, NULL, NULL, NULL, v_lane_key[k], v_lane_gates[k], v_flow[k], v_edges[k], v_freed[k],
        v_tags[k], v_policy[k], v_meta[k], NULL, v_waits[k], NULL, NULL, NULL, NULL, NULL
        FROM ROWS FROM (generate_series(v_from, v_to), unnest(p_like[v_from:v_to])) m(i, k)
          CROSS JOIN LATERAL (
            SELECT coalesce(p_due_at[i], now + coalesce(p_due_in[i], 0)) AS due_at,
              coalesce(p_deadline_at[i], now + p_deadline_in[i]) AS deadline_at) d
          CROSS JOIN LATERAL (
            SELECT (v_waits[k] IS NOT NULL AND (v_freed[k] IS NULL OR split_part(v_waits[k], ',', 1)::int8 > 0))
              AS is_blocked) b
          CROSS JOIN LATERAL (
            SELECT d.due_at, d.deadline_at,
              CASE WHEN b.is_blocked THEN 0 ELSE CASE WHEN d.due_at <= now THEN 2 ELSE 1 END END AS state,
              CASE WHEN NOT b.is_blocked THEN d.due_at + p_ttl[i] END AS ttl_at) c
        RETURNING id, route, state, due_at, timer_at),
      grouped AS (
        SELECT route, state, CASE WHEN state = 1 THEN due_at END AS due_at, min(timer_at) AS timer_at,
          count(*) AS jobs, 1 AS rev, 0 AS attempt,
          string_agg(id, E'\x1f') AS ids
        FROM made GROUP BY route, state, CASE WHEN state = 1 THEN due_at END),
      counted AS (INSERT INTO @state_count SELECT route, state, sum(jobs) FROM grouped GROUP BY route, state)
      SELECT string_agg(
          concat_ws(E'\x1f', 0, rev, route, state, attempt,
            coalesce('n' || due_at, ''), ids), E'\x1e'),
        array_agg(DISTINCT route) FILTER (WHERE state = 2), min(timer_at)
      INTO v_plain, v_ready, v_timer FROM grouped;
    ELSIF p_lane_key IS NULL THEN
      WITH made AS (
        INSERT INTO @waiting (
          seq, created_at, route, rank, due_at, fence, rev, attempt, durable, state, counts_attempt,
          cancel_asked, holds, keeps_lane, id, input, unique_hold, lane_step, deadline_at, ttl_at, timer_at,
          settled_fence, claimed_at, started_at, lease_ends_at, attempt_ends_at, ended_at, keep_until,
          result_until, digest, unique_key, lane_key, lane_gates, flow, edges, freed, tags, policy, meta,
          change_token, waits, attempts, progress, owner, reason, result)
        SELECT coalesce(v_seqs[i], nextval('@job_seq')), now, p_routes[coalesce(p_route_at[i], 1)],
        coalesce(p_rank_base[i], 0) + coalesce(p_rank_slope[i], 1) * c.due_at, c.due_at, 0, 1, 0, 0, c.state,
        1, 0, 0, 0, v_id[i], v_input[i], NULL, NULL, c.deadline_at, c.ttl_at,
        least(CASE c.state WHEN 1 THEN c.due_at END, c.deadline_at, c.ttl_at), NULL, NULL, NULL, NULL, NULL,
        NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, v_tags[i], v_policy[i], v_meta[i], NULL,
        NULL, NULL, NULL, NULL, NULL, NULL
        FROM generate_series(v_from, v_to) i
          CROSS JOIN LATERAL (
            SELECT coalesce(p_due_at[i], now + coalesce(p_due_in[i], 0)) AS due_at,
              coalesce(p_deadline_at[i], now + p_deadline_in[i]) AS deadline_at) d
          CROSS JOIN LATERAL (
            SELECT d.due_at, d.deadline_at, CASE WHEN d.due_at <= now THEN 2 ELSE 1 END AS state,
              d.due_at + p_ttl[i] AS ttl_at) c
        RETURNING id, route, state, due_at, timer_at),
      grouped AS (
        SELECT route, state, CASE WHEN state = 1 THEN due_at END AS due_at, min(timer_at) AS timer_at,
          count(*) AS jobs, 1 AS rev, 0 AS attempt,
          string_agg(id, E'\x1f') AS ids
        FROM made GROUP BY route, state, CASE WHEN state = 1 THEN due_at END),
      counted AS (INSERT INTO @state_count SELECT route, state, sum(jobs) FROM grouped GROUP BY route, state)
      SELECT string_agg(
          concat_ws(E'\x1f', 0, rev, route, state, attempt,
            coalesce('n' || due_at, ''), ids), E'\x1e'),
        array_agg(DISTINCT route) FILTER (WHERE state = 2), min(timer_at)
      INTO v_plain, v_ready, v_timer FROM grouped;
    ELSE
      WITH made AS (
        INSERT INTO @waiting (
          seq, created_at, route, rank, due_at, fence, rev, attempt, durable, state, counts_attempt,
          cancel_asked, holds, keeps_lane, id, input, unique_hold, lane_step, deadline_at, ttl_at, timer_at,
          settled_fence, claimed_at, started_at, lease_ends_at, attempt_ends_at, ended_at, keep_until,
          result_until, digest, unique_key, lane_key, lane_gates, flow, edges, freed, tags, policy, meta,
          change_token, waits, attempts, progress, owner, reason, result)
        SELECT coalesce(v_seqs[i], nextval('@job_seq')), now, p_routes[coalesce(p_route_at[i], 1)],
        coalesce(p_rank_base[i], 0) + coalesce(p_rank_slope[i], 1) * c.due_at, c.due_at, 0, 1, 0, 0, c.state,
        1, 0, 0, 0, v_id[i], v_input[i], NULL, coalesce(p_lane_step[i], NULL), c.deadline_at, c.ttl_at,
        least(CASE c.state WHEN 1 THEN c.due_at END, c.deadline_at, c.ttl_at), NULL, NULL, NULL, NULL, NULL,
        NULL, NULL, NULL, NULL, NULL, v_lane_key[i], v_lane_gates[i], NULL, NULL, NULL, v_tags[i], v_policy[i],
        v_meta[i], NULL, NULL, NULL, NULL, NULL, NULL, NULL
        FROM generate_series(v_from, v_to) i
          CROSS JOIN LATERAL (
            SELECT coalesce(p_due_at[i], now + coalesce(p_due_in[i], 0)) AS due_at,
              coalesce(p_deadline_at[i], now + p_deadline_in[i]) AS deadline_at) d
          CROSS JOIN LATERAL (
            SELECT d.due_at, d.deadline_at, CASE WHEN d.due_at <= now THEN 2 ELSE 1 END AS state,
              d.due_at + p_ttl[i] AS ttl_at) c
        RETURNING id, route, state, due_at, timer_at),
      grouped AS (
        SELECT route, state, CASE WHEN state = 1 THEN due_at END AS due_at, min(timer_at) AS timer_at,
          count(*) AS jobs, 1 AS rev, 0 AS attempt,
          string_agg(id, E'\x1f') AS ids
        FROM made GROUP BY route, state, CASE WHEN state = 1 THEN due_at END),
      counted AS (INSERT INTO @state_count SELECT route, state, sum(jobs) FROM grouped GROUP BY route, state)
      SELECT string_agg(
          concat_ws(E'\x1f', 0, rev, route, state, attempt,
            coalesce('n' || due_at, ''), ids), E'\x1e'),
        array_agg(DISTINCT route) FILTER (WHERE state = 2), min(timer_at)
      INTO v_plain, v_ready, v_timer FROM grouped;
    END IF;
    IF p_lane_key IS NOT NULL THEN
      PERFORM @lanes_changed_v1(ARRAY(SELECT v_lane_key[coalesce(p_like[i], i)] FROM generate_series(v_from, v_to) i),
        ARRAY(SELECT p_routes[coalesce(p_route_at[i], 1)] FROM generate_series(v_from, v_to) i), NULL);
    END IF;
    v_all := @append_events_v1(v_all, v_plain);
    v_ready_all := v_ready_all || v_ready;
    v_timer_first := least(v_timer_first, v_timer);
    v_from := v_to + 1;
  END LOOP;
  IF p_large_at IS NOT NULL THEN
    INSERT INTO @payload
    SELECT v_seqs[l.at], l.input FROM unnest(p_large_at, string_to_array(p_large, E'\x1e', E'\x02')) l(at, input)
    WHERE v_seqs[l.at] IS NOT NULL;
  END IF;
  IF p_tag_at IS NOT NULL THEN
    IF p_like IS NULL THEN
      INSERT INTO @tag
      SELECT t.tag, v_seqs[t.at], v_id[t.at] FROM unnest(p_tag_at, string_to_array(p_tag, E'\x1e', E'\x02')) t(at, tag)
      WHERE v_seqs[t.at] IS NOT NULL;
    ELSE
      INSERT INTO @tag
      SELECT t.tag, v_seqs[i], v_id[i] FROM unnest(p_like) WITH ORDINALITY l(at, i)
        JOIN unnest(p_tag_at, string_to_array(p_tag, E'\x1e', E'\x02')) t(at, tag) ON t.at = l.at
      WHERE v_seqs[i] IS NOT NULL;
    END IF;
  END IF;
  PERFORM @emit_v1(now, @append_events_v1(v_all, v_events), p_inside);
  IF p_lane_key IS NOT NULL AND NOT p_inside THEN PERFORM @relieve_claims_v1(now, v_queues); END IF;
  RETURN concat_ws(E'\x1f', now, coalesce(v_ready_all, '{}'), coalesce(v_timer_first::text, ''),
    coalesce(v_answers::text, ''), v_events);
END $$;
