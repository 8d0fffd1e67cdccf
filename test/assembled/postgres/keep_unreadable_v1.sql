-- Checks the rows of p_ids, or those after p_after up to p_last. kept: how many were unreadable.
CREATE FUNCTION @keep_unreadable_v1(p_now int8, p_commit text, p_ids text[],
  p_after int8 DEFAULT NULL, p_last int8 DEFAULT NULL, OUT kept int8) LANGUAGE plpgsql
  SET plan_cache_mode = force_custom_plan AS $$
#variable_conflict use_column
DECLARE
  v_now int8 := @begin_v1(p_now, p_commit);
  v_count int8; v_routes int8[]; v_lanes text[]; v_lane_routes int8[]; v_gates text[];
BEGIN
  kept := 0;
  WITH bad AS (
    DELETE FROM @waiting j
    WHERE (p_ids IS NULL OR j.id = ANY (p_ids)) AND (p_last IS NULL OR (j.seq > p_after AND j.seq <= p_last))
      AND
        CASE
          WHEN j.state NOT IN (0, 1, 2, 4) THEN 'state ' || j.state || ' in waiting'
          WHEN
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
          THEN 'tags, gates or edges that are no list of texts, or waits that are no numbers'
          WHEN coalesce(j.input, (SELECT p.input FROM @payload p WHERE p.seq = j.seq)) IS NULL THEN 'no input'
          
          WHEN
            j.seq NOT BETWEEN -9007199254740991 AND 9007199254740991
            OR j.created_at NOT BETWEEN -9007199254740991 AND 9007199254740991
            OR j.unique_hold NOT BETWEEN -9007199254740991 AND 9007199254740991
            OR j.lane_step NOT BETWEEN -9007199254740991 AND 9007199254740991
            OR j.route NOT BETWEEN -9007199254740991 AND 9007199254740991
            OR j.rev NOT BETWEEN -2147483646 AND 2147483646
            OR j.rank NOT BETWEEN -9007199254740991 AND 9007199254740991
            OR j.due_at NOT BETWEEN -9007199254740991 AND 9007199254740991
            OR j.deadline_at NOT BETWEEN -9007199254740991 AND 9007199254740991
            OR j.ttl_at NOT BETWEEN -9007199254740991 AND 9007199254740991
            OR j.timer_at NOT BETWEEN -9007199254740991 AND 9007199254740991
            OR j.attempt NOT BETWEEN -2147483646 AND 2147483646
            OR j.fence NOT BETWEEN -9007199254740991 AND 9007199254740991
            OR j.settled_fence NOT BETWEEN -9007199254740991 AND 9007199254740991
            OR j.durable NOT BETWEEN -2147483646 AND 2147483646
            OR j.claimed_at NOT BETWEEN -9007199254740991 AND 9007199254740991
            OR j.started_at NOT BETWEEN -9007199254740991 AND 9007199254740991
            OR j.lease_ends_at NOT BETWEEN -9007199254740991 AND 9007199254740991
            OR j.attempt_ends_at NOT BETWEEN -9007199254740991 AND 9007199254740991
            OR j.ended_at NOT BETWEEN -9007199254740991 AND 9007199254740991
            OR j.keep_until NOT BETWEEN -9007199254740991 AND 9007199254740991
            OR j.result_until NOT BETWEEN -9007199254740991 AND 9007199254740991
          THEN 'a number out of range' END IS NOT NULL
    RETURNING j.*,
      CASE
        WHEN j.state NOT IN (0, 1, 2, 4) THEN 'state ' || j.state || ' in waiting'
        WHEN
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
        THEN 'tags, gates or edges that are no list of texts, or waits that are no numbers'
        WHEN coalesce(j.input, (SELECT p.input FROM @payload p WHERE p.seq = j.seq)) IS NULL THEN 'no input'
        
        WHEN
          j.seq NOT BETWEEN -9007199254740991 AND 9007199254740991
          OR j.created_at NOT BETWEEN -9007199254740991 AND 9007199254740991
          OR j.unique_hold NOT BETWEEN -9007199254740991 AND 9007199254740991
          OR j.lane_step NOT BETWEEN -9007199254740991 AND 9007199254740991
          OR j.route NOT BETWEEN -9007199254740991 AND 9007199254740991
          OR j.rev NOT BETWEEN -2147483646 AND 2147483646
          OR j.rank NOT BETWEEN -9007199254740991 AND 9007199254740991
          OR j.due_at NOT BETWEEN -9007199254740991 AND 9007199254740991
          OR j.deadline_at NOT BETWEEN -9007199254740991 AND 9007199254740991
          OR j.ttl_at NOT BETWEEN -9007199254740991 AND 9007199254740991
          OR j.timer_at NOT BETWEEN -9007199254740991 AND 9007199254740991
          OR j.attempt NOT BETWEEN -2147483646 AND 2147483646
          OR j.fence NOT BETWEEN -9007199254740991 AND 9007199254740991
          OR j.settled_fence NOT BETWEEN -9007199254740991 AND 9007199254740991
          OR j.durable NOT BETWEEN -2147483646 AND 2147483646
          OR j.claimed_at NOT BETWEEN -9007199254740991 AND 9007199254740991
          OR j.started_at NOT BETWEEN -9007199254740991 AND 9007199254740991
          OR j.lease_ends_at NOT BETWEEN -9007199254740991 AND 9007199254740991
          OR j.attempt_ends_at NOT BETWEEN -9007199254740991 AND 9007199254740991
          OR j.ended_at NOT BETWEEN -9007199254740991 AND 9007199254740991
          OR j.keep_until NOT BETWEEN -9007199254740991 AND 9007199254740991
          OR j.result_until NOT BETWEEN -9007199254740991 AND 9007199254740991
        THEN 'a number out of range' END AS why,
      coalesce(j.input, (SELECT p.input FROM @payload p WHERE p.seq = j.seq)) AS whole),
  kept AS (
    INSERT INTO @unreadable
    SELECT 'waiting:' || seq, id, why, v_now,
      left((to_jsonb(bad) - '{why,whole}'::text[] || jsonb_build_object('input', whole))::text, 4000)
    FROM bad
    ON CONFLICT (ref) DO UPDATE SET id = excluded.id, why = excluded.why, at = excluded.at, text = excluded.text),
  freed AS (DELETE FROM @uniq u USING bad b WHERE u.key = b.unique_key AND u.seq = b.seq),
  returned AS (DELETE FROM @permit p USING bad b WHERE p.seq = b.seq AND b.lane_key IS NOT NULL RETURNING p.key),
  deleted AS (SELECT route, @delete_attached_v1(seq, tags, durable) FROM bad)
  SELECT (SELECT count(*) FROM deleted), (SELECT array_agg(DISTINCT route) FROM bad),
    (SELECT array_agg(lane_key) FROM bad), (SELECT array_agg(route) FROM bad), (SELECT array_agg(key) FROM returned)
  INTO v_count, v_routes, v_lanes, v_lane_routes, v_gates;
  PERFORM @lanes_changed_v1(v_lanes, v_lane_routes, NULL) WHERE v_lanes IS NOT NULL;
  PERFORM @gates_changed_v1(v_gates) WHERE v_gates IS NOT NULL;
  kept := kept + v_count;
  -- The state under which a damaged row was counted is unknown, so its route is counted anew.
  IF v_count > 0 THEN PERFORM @recount_v1(v_routes); END IF;
  WITH bad AS (
    DELETE FROM @leased j
    WHERE (p_ids IS NULL OR j.id = ANY (p_ids)) AND (p_last IS NULL OR (j.seq > p_after AND j.seq <= p_last))
      AND
        CASE
          WHEN j.state NOT IN (3) THEN 'state ' || j.state || ' in leased'
          WHEN
            (j.state NOT IN (3)
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
          THEN 'tags, gates or edges that are no list of texts, or waits that are no numbers'
          WHEN coalesce(j.input, (SELECT p.input FROM @payload p WHERE p.seq = j.seq)) IS NULL THEN 'no input'
          WHEN j.owner IS NULL THEN 'no owner'
          WHEN j.claimed_at IS NULL THEN 'no claimedAt'
          WHEN j.lease_ends_at IS NULL THEN 'no leaseEndsAt'
          WHEN
            j.seq NOT BETWEEN -9007199254740991 AND 9007199254740991
            OR j.created_at NOT BETWEEN -9007199254740991 AND 9007199254740991
            OR j.unique_hold NOT BETWEEN -9007199254740991 AND 9007199254740991
            OR j.lane_step NOT BETWEEN -9007199254740991 AND 9007199254740991
            OR j.route NOT BETWEEN -9007199254740991 AND 9007199254740991
            OR j.rev NOT BETWEEN -2147483646 AND 2147483646
            OR j.rank NOT BETWEEN -9007199254740991 AND 9007199254740991
            OR j.due_at NOT BETWEEN -9007199254740991 AND 9007199254740991
            OR j.deadline_at NOT BETWEEN -9007199254740991 AND 9007199254740991
            OR j.ttl_at NOT BETWEEN -9007199254740991 AND 9007199254740991
            OR j.timer_at NOT BETWEEN -9007199254740991 AND 9007199254740991
            OR j.attempt NOT BETWEEN -2147483646 AND 2147483646
            OR j.fence NOT BETWEEN -9007199254740991 AND 9007199254740991
            OR j.settled_fence NOT BETWEEN -9007199254740991 AND 9007199254740991
            OR j.durable NOT BETWEEN -2147483646 AND 2147483646
            OR j.claimed_at NOT BETWEEN -9007199254740991 AND 9007199254740991
            OR j.started_at NOT BETWEEN -9007199254740991 AND 9007199254740991
            OR j.lease_ends_at NOT BETWEEN -9007199254740991 AND 9007199254740991
            OR j.attempt_ends_at NOT BETWEEN -9007199254740991 AND 9007199254740991
            OR j.ended_at NOT BETWEEN -9007199254740991 AND 9007199254740991
            OR j.keep_until NOT BETWEEN -9007199254740991 AND 9007199254740991
            OR j.result_until NOT BETWEEN -9007199254740991 AND 9007199254740991
          THEN 'a number out of range' END IS NOT NULL
    RETURNING j.*,
      CASE
        WHEN j.state NOT IN (3) THEN 'state ' || j.state || ' in leased'
        WHEN
          (j.state NOT IN (3)
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
        THEN 'tags, gates or edges that are no list of texts, or waits that are no numbers'
        WHEN coalesce(j.input, (SELECT p.input FROM @payload p WHERE p.seq = j.seq)) IS NULL THEN 'no input'
        WHEN j.owner IS NULL THEN 'no owner'
        WHEN j.claimed_at IS NULL THEN 'no claimedAt'
        WHEN j.lease_ends_at IS NULL THEN 'no leaseEndsAt'
        WHEN
          j.seq NOT BETWEEN -9007199254740991 AND 9007199254740991
          OR j.created_at NOT BETWEEN -9007199254740991 AND 9007199254740991
          OR j.unique_hold NOT BETWEEN -9007199254740991 AND 9007199254740991
          OR j.lane_step NOT BETWEEN -9007199254740991 AND 9007199254740991
          OR j.route NOT BETWEEN -9007199254740991 AND 9007199254740991
          OR j.rev NOT BETWEEN -2147483646 AND 2147483646
          OR j.rank NOT BETWEEN -9007199254740991 AND 9007199254740991
          OR j.due_at NOT BETWEEN -9007199254740991 AND 9007199254740991
          OR j.deadline_at NOT BETWEEN -9007199254740991 AND 9007199254740991
          OR j.ttl_at NOT BETWEEN -9007199254740991 AND 9007199254740991
          OR j.timer_at NOT BETWEEN -9007199254740991 AND 9007199254740991
          OR j.attempt NOT BETWEEN -2147483646 AND 2147483646
          OR j.fence NOT BETWEEN -9007199254740991 AND 9007199254740991
          OR j.settled_fence NOT BETWEEN -9007199254740991 AND 9007199254740991
          OR j.durable NOT BETWEEN -2147483646 AND 2147483646
          OR j.claimed_at NOT BETWEEN -9007199254740991 AND 9007199254740991
          OR j.started_at NOT BETWEEN -9007199254740991 AND 9007199254740991
          OR j.lease_ends_at NOT BETWEEN -9007199254740991 AND 9007199254740991
          OR j.attempt_ends_at NOT BETWEEN -9007199254740991 AND 9007199254740991
          OR j.ended_at NOT BETWEEN -9007199254740991 AND 9007199254740991
          OR j.keep_until NOT BETWEEN -9007199254740991 AND 9007199254740991
          OR j.result_until NOT BETWEEN -9007199254740991 AND 9007199254740991
        THEN 'a number out of range' END AS why,
      coalesce(j.input, (SELECT p.input FROM @payload p WHERE p.seq = j.seq)) AS whole),
  kept AS (
    INSERT INTO @unreadable
    SELECT 'leased:' || seq, id, why, v_now,
      left((to_jsonb(bad) - '{why,whole}'::text[] || jsonb_build_object('input', whole))::text, 4000)
    FROM bad
    ON CONFLICT (ref) DO UPDATE SET id = excluded.id, why = excluded.why, at = excluded.at, text = excluded.text),
  freed AS (DELETE FROM @uniq u USING bad b WHERE u.key = b.unique_key AND u.seq = b.seq),
  returned AS (DELETE FROM @permit p USING bad b WHERE p.seq = b.seq AND b.lane_key IS NOT NULL RETURNING p.key),
  deleted AS (SELECT route, @delete_attached_v1(seq, tags, durable) FROM bad)
  SELECT (SELECT count(*) FROM deleted), (SELECT array_agg(DISTINCT route) FROM bad),
    (SELECT array_agg(lane_key) FROM bad), (SELECT array_agg(route) FROM bad), (SELECT array_agg(key) FROM returned)
  INTO v_count, v_routes, v_lanes, v_lane_routes, v_gates;
  PERFORM @lanes_changed_v1(v_lanes, v_lane_routes, NULL) WHERE v_lanes IS NOT NULL;
  PERFORM @gates_changed_v1(v_gates) WHERE v_gates IS NOT NULL;
  kept := kept + v_count;
  -- The state under which a damaged row was counted is unknown, so its route is counted anew.
  IF v_count > 0 THEN PERFORM @recount_v1(v_routes); END IF;
  WITH bad AS (
    DELETE FROM @history j
    WHERE (p_ids IS NULL OR j.id = ANY (p_ids)) AND (p_last IS NULL OR (j.seq > p_after AND j.seq <= p_last))
      AND
        CASE
          WHEN j.state NOT IN (5, 6, 7, 8, 9) THEN 'state ' || j.state || ' in history'
          WHEN
            (j.state NOT IN (5, 6, 7, 8, 9)
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
          THEN 'tags, gates or edges that are no list of texts, or waits that are no numbers'
          WHEN coalesce(j.input, (SELECT p.input FROM @payload p WHERE p.seq = j.seq)) IS NULL THEN 'no input'
          WHEN j.ended_at IS NULL THEN 'no endedAt'
          WHEN
            j.seq NOT BETWEEN -9007199254740991 AND 9007199254740991
            OR j.created_at NOT BETWEEN -9007199254740991 AND 9007199254740991
            OR j.unique_hold NOT BETWEEN -9007199254740991 AND 9007199254740991
            OR j.lane_step NOT BETWEEN -9007199254740991 AND 9007199254740991
            OR j.route NOT BETWEEN -9007199254740991 AND 9007199254740991
            OR j.rev NOT BETWEEN -2147483646 AND 2147483646
            OR j.rank NOT BETWEEN -9007199254740991 AND 9007199254740991
            OR j.due_at NOT BETWEEN -9007199254740991 AND 9007199254740991
            OR j.deadline_at NOT BETWEEN -9007199254740991 AND 9007199254740991
            OR j.ttl_at NOT BETWEEN -9007199254740991 AND 9007199254740991
            OR j.timer_at NOT BETWEEN -9007199254740991 AND 9007199254740991
            OR j.attempt NOT BETWEEN -2147483646 AND 2147483646
            OR j.fence NOT BETWEEN -9007199254740991 AND 9007199254740991
            OR j.settled_fence NOT BETWEEN -9007199254740991 AND 9007199254740991
            OR j.durable NOT BETWEEN -2147483646 AND 2147483646
            OR j.claimed_at NOT BETWEEN -9007199254740991 AND 9007199254740991
            OR j.started_at NOT BETWEEN -9007199254740991 AND 9007199254740991
            OR j.lease_ends_at NOT BETWEEN -9007199254740991 AND 9007199254740991
            OR j.attempt_ends_at NOT BETWEEN -9007199254740991 AND 9007199254740991
            OR j.ended_at NOT BETWEEN -9007199254740991 AND 9007199254740991
            OR j.keep_until NOT BETWEEN -9007199254740991 AND 9007199254740991
            OR j.result_until NOT BETWEEN -9007199254740991 AND 9007199254740991
          THEN 'a number out of range' END IS NOT NULL
    RETURNING j.*,
      CASE
        WHEN j.state NOT IN (5, 6, 7, 8, 9) THEN 'state ' || j.state || ' in history'
        WHEN
          (j.state NOT IN (5, 6, 7, 8, 9)
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
        THEN 'tags, gates or edges that are no list of texts, or waits that are no numbers'
        WHEN coalesce(j.input, (SELECT p.input FROM @payload p WHERE p.seq = j.seq)) IS NULL THEN 'no input'
        WHEN j.ended_at IS NULL THEN 'no endedAt'
        WHEN
          j.seq NOT BETWEEN -9007199254740991 AND 9007199254740991
          OR j.created_at NOT BETWEEN -9007199254740991 AND 9007199254740991
          OR j.unique_hold NOT BETWEEN -9007199254740991 AND 9007199254740991
          OR j.lane_step NOT BETWEEN -9007199254740991 AND 9007199254740991
          OR j.route NOT BETWEEN -9007199254740991 AND 9007199254740991
          OR j.rev NOT BETWEEN -2147483646 AND 2147483646
          OR j.rank NOT BETWEEN -9007199254740991 AND 9007199254740991
          OR j.due_at NOT BETWEEN -9007199254740991 AND 9007199254740991
          OR j.deadline_at NOT BETWEEN -9007199254740991 AND 9007199254740991
          OR j.ttl_at NOT BETWEEN -9007199254740991 AND 9007199254740991
          OR j.timer_at NOT BETWEEN -9007199254740991 AND 9007199254740991
          OR j.attempt NOT BETWEEN -2147483646 AND 2147483646
          OR j.fence NOT BETWEEN -9007199254740991 AND 9007199254740991
          OR j.settled_fence NOT BETWEEN -9007199254740991 AND 9007199254740991
          OR j.durable NOT BETWEEN -2147483646 AND 2147483646
          OR j.claimed_at NOT BETWEEN -9007199254740991 AND 9007199254740991
          OR j.started_at NOT BETWEEN -9007199254740991 AND 9007199254740991
          OR j.lease_ends_at NOT BETWEEN -9007199254740991 AND 9007199254740991
          OR j.attempt_ends_at NOT BETWEEN -9007199254740991 AND 9007199254740991
          OR j.ended_at NOT BETWEEN -9007199254740991 AND 9007199254740991
          OR j.keep_until NOT BETWEEN -9007199254740991 AND 9007199254740991
          OR j.result_until NOT BETWEEN -9007199254740991 AND 9007199254740991
        THEN 'a number out of range' END AS why,
      coalesce(j.input, (SELECT p.input FROM @payload p WHERE p.seq = j.seq)) AS whole),
  kept AS (
    INSERT INTO @unreadable
    SELECT 'history:' || seq, id, why, v_now,
      left((to_jsonb(bad) - '{why,whole}'::text[] || jsonb_build_object('input', whole))::text, 4000)
    FROM bad
    ON CONFLICT (ref) DO UPDATE SET id = excluded.id, why = excluded.why, at = excluded.at, text = excluded.text),
  freed AS (DELETE FROM @uniq u USING bad b WHERE u.key = b.unique_key AND u.seq = b.seq),
  returned AS (DELETE FROM @permit p USING bad b WHERE p.seq = b.seq AND b.lane_key IS NOT NULL RETURNING p.key),
  deleted AS (SELECT route, @delete_attached_v1(seq, tags, durable) FROM bad)
  SELECT (SELECT count(*) FROM deleted), (SELECT array_agg(DISTINCT route) FROM bad),
    (SELECT array_agg(lane_key) FROM bad), (SELECT array_agg(route) FROM bad), (SELECT array_agg(key) FROM returned)
  INTO v_count, v_routes, v_lanes, v_lane_routes, v_gates;
  PERFORM @lanes_changed_v1(v_lanes, v_lane_routes, NULL) WHERE v_lanes IS NOT NULL;
  PERFORM @gates_changed_v1(v_gates) WHERE v_gates IS NOT NULL;
  kept := kept + v_count;
  -- The state under which a damaged row was counted is unknown, so its route is counted anew.
  IF v_count > 0 THEN PERFORM @recount_v1(v_routes); END IF;
END $$;
