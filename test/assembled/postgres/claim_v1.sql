-- p_ends[i] is the last index of offer i in p_routes. p_floors[i]: rows of lower rank are not read (floors.ts says
-- why); null reads all. Answers one text, because a table of columns costs a small call more than its rows: time, how
-- long finding took in us, the next clock if asked for, whether jobs were left because the inputs reached p_bytes, when
-- the first gate that refused a job opens, for each offer the lowest rank that was read; then for each batch its time,
-- the number of its offer, gates of keys and its lists.
CREATE FUNCTION @claim_v1(p_now int8, p_commit text, p_owner text, p_lease int8, p_routes int8[], p_ends int4[],
  p_maxes int4[], p_starts int4[], p_floors int8[], p_clock bool, p_bytes int8) RETURNS text LANGUAGE plpgsql
  SET enable_seqscan = off SET enable_bitmapscan = off SET jit = off
  SET plan_cache_mode = force_generic_plan AS $$
#variable_conflict use_column
DECLARE
  now int8 := coalesce(p_now, floor(extract(epoch FROM clock_timestamp()) * 1000)::int8);
  -- The jobs of a batch, a list for each field.
  l_id text; l_seq int8[]; l_fence int8[]; l_route int8[]; l_rev int4[]; l_attempt int4[];
  l_input text; l_policy text; l_meta text; l_attempts text; l_created_at int8[]; l_due_at int8[];
  l_deadline_at int8[]; l_durable int4[];
  v_ends int8; v_fence int8; v_from int4 := 1; v_offer int8[]; v_left int4; v_got int4; v_batch int4;
  v_places tid[]; v_count int4; v_ids text; v_all text; v_events text; v_keys text[]; v_freed int8[]; v_floor int8;
  v_began timestamptz; v_pick int8 := 0; v_clock int8; v_feed int8; v_answer text := '';
  v_bytes int8 := coalesce(p_bytes, 9223372036854775807); v_more bool := false; v_bad text[];
  v_starts int4; v_begun int4; v_away int4; v_ranks int8[]; v_seen int8[]; v_order int8[]; v_moved int8;
  v_has_gates bool; v_gated bool; v_known int8[]; v_gates text[]; v_busy bool; v_shut text[] := '{}'; v_opens int8;
  v_lowest int8[]; v_all_routes int8[]; v_most int8[]; v_rated bool; v_cut int4; v_refusing text[]; v_weights int8[];
  u_routes int8[]; u_keys text[]; u_weights int8[]; u_permits float8[];
  v_has_lanes bool; v_laned int8[]; v_queues text[]; v_scopes text[]; v_is_laned bool := false; v_pick_lanes record;
  v_woken text[]; v_open_gates text[]; v_lane_shut text[] := '{}'; v_look int4; v_deep int4; v_key_gates text;
  v_offer_laned int8[];
BEGIN
  IF p_commit IS NOT NULL THEN PERFORM set_config('synchronous_commit', p_commit, true); END IF;
  IF NOT pg_try_advisory_xact_lock_shared(hashtextextended('@gate', 0)) THEN
    PERFORM pg_advisory_xact_lock_shared(hashtextextended('@gate', 0));
  END IF;
  SELECT epoch * 4294967296, EXISTS (SELECT 1 FROM @gate),
    EXISTS (SELECT 1 FROM @route WHERE lanes IS NOT NULL)
  INTO v_fence, v_has_gates, v_has_lanes FROM @alive;
  IF NOT FOUND THEN
    v_fence := @epoch_v1() * 4294967296;
    v_has_gates := EXISTS (SELECT 1 FROM @gate);
    v_has_lanes := EXISTS (SELECT 1 FROM @route WHERE lanes IS NOT NULL);
  END IF;
  IF v_has_lanes THEN
    SELECT array_agg(DISTINCT number), array_agg(DISTINCT queue) INTO v_laned, v_queues
    FROM @route WHERE number = ANY (p_routes) AND lanes IS NOT NULL;
    IF v_laned IS NOT NULL THEN
      SELECT l.scopes, l.is_busy INTO v_scopes, v_busy FROM @lock_scopes_v1(v_queues, true) l;
      IF v_busy THEN
        v_opens := now + 30;
      ELSE
        now := greatest(now, coalesce(p_now, floor(extract(epoch FROM clock_timestamp()) * 1000)::int8));
        SELECT d.woken, d.open_gates, d.more INTO v_woken, v_open_gates, v_more
        FROM @apply_lane_changes_v1(now, v_scopes, false) d;
      END IF;
      v_busy := NULL;
    END IF;
  END IF;
  IF v_has_gates THEN
    SELECT coalesce(array_agg(DISTINCT u.route), '{}'), count(g.key) > 0 INTO v_known, v_gated
    FROM @gate_use u LEFT JOIN @gate g ON g.key = u.key WHERE u.route = ANY (p_routes);
    IF v_gated THEN
      SELECT l.keys, l.is_busy INTO v_gates, v_busy FROM @lock_gates_v1(v_known) l;
      now := greatest(now, coalesce(p_now, floor(extract(epoch FROM clock_timestamp()) * 1000)::int8));
    END IF;
    IF v_busy THEN
      v_shut := v_gates;
      v_opens := now + 30;
    END IF;
  END IF;
  -- All items are set at the start, because Postgres writes a list with unset first items with a lower bound.
  v_lowest := array_fill(NULL::int8, ARRAY[coalesce(array_length(p_ends, 1), 0)]);
  FOR v_i IN 1..coalesce(array_length(p_ends, 1), 0) LOOP
    v_offer := p_routes[v_from:p_ends[v_i]];
    v_from := p_ends[v_i] + 1;
    v_left := p_maxes[v_i];
    v_starts := p_starts[v_i];
    v_floor := coalesce(p_floors[v_i], -9223372036854775808);
    IF v_has_gates AND NOT v_offer <@ v_known THEN
      v_offer := ARRAY(SELECT r FROM unnest(v_offer) r WHERE r = ANY (v_known));
      CONTINUE WHEN v_offer = '{}';
    END IF;
    v_all_routes := v_offer;
    v_batch := NULL;
    IF v_laned IS NOT NULL THEN
      v_is_laned := v_offer && v_laned;
      v_key_gates := NULL;
      v_look := 0;
      v_deep := NULL;
      CONTINUE WHEN v_is_laned AND v_open_gates IS NULL;
    END IF;
    WHILE v_left > 0 LOOP
      v_began := clock_timestamp();
      IF v_is_laned THEN
        v_offer_laned := ARRAY(SELECT r FROM unnest(v_offer) r WHERE r = ANY (v_laned));
        SELECT * INTO v_pick_lanes FROM @pick_lanes_v1(now, v_offer_laned, v_left, v_bytes, v_scopes, v_gates,
          v_shut || v_lane_shut, v_woken, v_floor, v_look, v_deep);
        v_look := v_look + 1;
        v_deep := v_pick_lanes.next_deep;
        v_cut := NULL;
        v_rated := false;
        v_places := v_pick_lanes.places;
        v_key_gates := array_to_string(v_pick_lanes.gates, E'\x1e', E'\x02');
        v_pick := v_pick + v_pick_lanes.look_us;
        v_lowest[v_i] := coalesce(v_lowest[v_i], v_pick_lanes.lowest);
        v_lane_shut := v_pick_lanes.shut;
        v_woken := v_pick_lanes.left_woken;
        v_opens := least(v_opens, v_pick_lanes.opens);
        CONTINUE WHEN v_pick_lanes.again AND v_places IS NULL;
        v_got := CASE WHEN v_pick_lanes.again THEN array_length(v_places, 1) ELSE v_left END;
        v_more := v_more OR v_pick_lanes.more
          OR (v_open_gates <> '{}' AND NOT v_pick_lanes.again
            AND coalesce(array_length(v_places, 1), 0) < v_left);
        IF v_pick_lanes.bad IS NOT NULL THEN
          PERFORM @keep_unreadable_v1(now, NULL, v_pick_lanes.bad);
          CONTINUE;
        END IF;
      ELSE
        IF v_gates IS NOT NULL THEN
          v_cut := NULL;
          WITH gates AS MATERIALIZED (
            SELECT g.key, g.step_us IS NOT NULL AS is_rated,
              CASE WHEN g.key = ANY (v_shut) THEN -1 ELSE
                CASE WHEN g.closed_until > now THEN 0 ELSE least(
                  CASE WHEN g.cap IS NOT NULL THEN greatest(0, g.cap -
                    (SELECT coalesce(sum(t.count * u.weight), 0)::int8
                      FROM (SELECT DISTINCT route, weight FROM @gate_use WHERE key = g.key) u
                        JOIN @state_count t ON t.route = u.route AND t.state = 3)) END,
                  CASE WHEN g.step_us IS NOT NULL THEN
                    greatest(0, floor(
                      (now * 1000 + g.burst_us - greatest(g.tat_us, now * 1000)) / g.step_us)) END) END END AS permits
            FROM @gate g WHERE g.key = ANY (v_gates)),
          uses AS (
            SELECT DISTINCT route, key, weight FROM @gate_use WHERE route = ANY (v_offer) AND key = ANY (v_gates))
          SELECT array_agg(u.route), array_agg(u.key), array_agg(u.weight), array_agg(g.permits), bool_or(g.is_rated)
          INTO u_routes, u_keys, u_weights, u_permits, v_rated FROM uses u JOIN gates g ON g.key = u.key;
          SELECT array_agg(o.route), array_agg(m.most) INTO v_offer, v_most
          FROM unnest(v_offer) o(route) LEFT JOIN (
            SELECT route, floor(min(permits / weight))::int8 AS most
            FROM unnest(u_routes, u_weights, u_permits) u(route, weight, permits) GROUP BY route) m ON m.route = o.route
          WHERE m.most IS NULL OR m.most >= 0;
          IF v_lowest[v_i] IS NULL AND array_length(v_offer, 1) IS DISTINCT FROM array_length(v_all_routes, 1) THEN
            v_lowest[v_i] := -9007199254740991;
          END IF;
          EXIT WHEN v_offer IS NULL;
        END IF;
        v_got := v_left;
        v_batch := coalesce(v_batch,
          CASE array_length(v_offer, 1) WHEN 1 THEN v_left ELSE ceil(2.0 * v_left / array_length(v_offer, 1)) + 8 END);
        SELECT array_agg(ctid), array_agg(route), array_agg(rank), array_agg(seq)
        INTO v_places, v_seen, v_ranks, v_order FROM (
          SELECT r.route, h.* FROM unnest(v_offer, v_most) r(route, most) CROSS JOIN LATERAL (
            SELECT ctid, rank, seq FROM @waiting
            WHERE route = r.route AND rank >= v_floor
              AND state = 2 AND lane_key IS NULL AND (timer_at IS NULL OR timer_at > now)
            ORDER BY rank, seq LIMIT least(v_batch, r.most + 1) FOR UPDATE SKIP LOCKED) h
          ORDER BY rank, seq) c;
        IF array_length(v_offer, 1) > 1 THEN
          SELECT least(v_left, min(at)) INTO v_got FROM (
            SELECT at, row_number() OVER (PARTITION BY route ORDER BY at) AS number
            FROM unnest(v_seen) WITH ORDINALITY s(route, at)) s
          WHERE number = v_batch;
          v_places := v_places[:v_got]; v_seen := v_seen[:v_got]; v_order := v_order[:v_got];
        END IF;
        v_lowest[v_i] := least(v_lowest[v_i], v_ranks[1]);
        IF u_routes IS NOT NULL THEN
          WITH asked AS (
            SELECT j.at, u.key, u.weight, u.permits, sum(u.weight) OVER (PARTITION BY u.key ORDER BY j.at) AS sum
            FROM unnest(v_seen) WITH ORDINALITY j(route, at)
              JOIN unnest(u_routes, u_keys, u_weights, u_permits) u(route, key, weight, permits) ON u.route = j.route)
          SELECT at, array_agg(key), array_agg(weight) INTO v_cut, v_refusing, v_weights
          FROM asked WHERE sum > permits GROUP BY at ORDER BY at LIMIT 1;
          IF v_cut IS NOT NULL THEN
            v_places := v_places[:v_cut - 1];
            v_order := v_order[:v_cut - 1];
          END IF;
        END IF;
      END IF;
      IF NOT v_is_laned THEN
        SELECT count(*) FILTER (WHERE input IS NULL),
          string_agg(id, E'\x1e'),
          array_agg(seq),
          CASE WHEN min(greatest(fence, v_fence) + 1) = max(greatest(fence, v_fence) + 1)
            THEN ARRAY[min(greatest(fence, v_fence) + 1)] ELSE array_agg(greatest(fence, v_fence) + 1) END,
          CASE WHEN min(route) = max(route)
            THEN ARRAY[min(route)] ELSE array_agg(route) END,
          CASE WHEN min(rev + 1) = max(rev + 1)
            THEN ARRAY[min(rev + 1)] ELSE array_agg(rev + 1) END,
          CASE WHEN min(attempt + counts_attempt) = max(attempt + counts_attempt)
            THEN ARRAY[min(attempt + counts_attempt)] ELSE array_agg(attempt + counts_attempt) END,
          string_agg(coalesce(input, E'\x02'), E'\x1e'),
          CASE WHEN count(policy) > 0 THEN string_agg(coalesce(policy, E'\x02'), E'\x1e') END,
          CASE WHEN count(meta) > 0 THEN string_agg(coalesce(meta, E'\x02'), E'\x1e') END,
          CASE WHEN count(attempts) > 0 THEN string_agg(coalesce(attempts, E'\x02'), E'\x1e') END,
          CASE WHEN min(created_at) = max(created_at)
            THEN ARRAY[min(created_at)] ELSE array_agg(created_at) END,
          CASE WHEN NOT bool_and(due_at = created_at) THEN array_agg(due_at) END,
          CASE WHEN count(deadline_at) > 0 THEN array_agg(deadline_at) END,
          CASE WHEN min(durable) = max(durable)
            THEN ARRAY[min(durable)] ELSE array_agg(durable) END,
          array_agg(unique_key) FILTER (WHERE holds = -1),
          array_agg(seq) FILTER (WHERE holds = -1)
        INTO v_away,
          l_id, l_seq, l_fence, l_route, l_rev, l_attempt, l_input, l_policy, l_meta, l_attempts, l_created_at,
          l_due_at, l_deadline_at, l_durable,
          v_keys, v_freed
        FROM (
          SELECT id, seq, fence, route, rev, attempt, input, policy, meta, attempts, created_at, due_at, deadline_at,
          durable, counts_attempt, holds, unique_key
          FROM @waiting WHERE ctid = ANY (v_places)) h;
      END IF;
      IF v_is_laned OR l_seq <> v_order THEN
        SELECT count(*) FILTER (WHERE input IS NULL),
          string_agg(id, E'\x1e'),
          array_agg(seq),
          CASE WHEN min(greatest(fence, v_fence) + 1) = max(greatest(fence, v_fence) + 1)
            THEN ARRAY[min(greatest(fence, v_fence) + 1)] ELSE array_agg(greatest(fence, v_fence) + 1) END,
          CASE WHEN min(route) = max(route)
            THEN ARRAY[min(route)] ELSE array_agg(route) END,
          CASE WHEN min(rev + 1) = max(rev + 1)
            THEN ARRAY[min(rev + 1)] ELSE array_agg(rev + 1) END,
          CASE WHEN min(attempt + counts_attempt) = max(attempt + counts_attempt)
            THEN ARRAY[min(attempt + counts_attempt)] ELSE array_agg(attempt + counts_attempt) END,
          string_agg(coalesce(input, E'\x02'), E'\x1e'),
          CASE WHEN count(policy) > 0 THEN string_agg(coalesce(policy, E'\x02'), E'\x1e') END,
          CASE WHEN count(meta) > 0 THEN string_agg(coalesce(meta, E'\x02'), E'\x1e') END,
          CASE WHEN count(attempts) > 0 THEN string_agg(coalesce(attempts, E'\x02'), E'\x1e') END,
          CASE WHEN min(created_at) = max(created_at)
            THEN ARRAY[min(created_at)] ELSE array_agg(created_at) END,
          CASE WHEN NOT bool_and(due_at = created_at) THEN array_agg(due_at) END,
          CASE WHEN count(deadline_at) > 0 THEN array_agg(deadline_at) END,
          CASE WHEN min(durable) = max(durable)
            THEN ARRAY[min(durable)] ELSE array_agg(durable) END,
          array_agg(unique_key) FILTER (WHERE holds = -1),
          array_agg(seq) FILTER (WHERE holds = -1)
        INTO v_away,
          l_id, l_seq, l_fence, l_route, l_rev, l_attempt, l_input, l_policy, l_meta, l_attempts, l_created_at,
          l_due_at, l_deadline_at, l_durable,
          v_keys, v_freed
        FROM (
          SELECT id, seq, fence, route, rev, attempt, input, policy, meta, attempts, created_at, due_at, deadline_at,
          durable, counts_attempt, holds, unique_key
          FROM unnest(v_places) p(place) JOIN @waiting w ON w.ctid = p.place) h;
      END IF;
      IF v_is_laned THEN
        IF v_away > 0 THEN
          SELECT count(*) FILTER (WHERE input IS NULL),
            string_agg(id, E'\x1e'),
            array_agg(seq),
            CASE WHEN min(greatest(fence, v_fence) + 1) = max(greatest(fence, v_fence) + 1)
              THEN ARRAY[min(greatest(fence, v_fence) + 1)] ELSE array_agg(greatest(fence, v_fence) + 1) END,
            CASE WHEN min(route) = max(route)
              THEN ARRAY[min(route)] ELSE array_agg(route) END,
            CASE WHEN min(rev + 1) = max(rev + 1)
              THEN ARRAY[min(rev + 1)] ELSE array_agg(rev + 1) END,
            CASE WHEN min(attempt + counts_attempt) = max(attempt + counts_attempt)
              THEN ARRAY[min(attempt + counts_attempt)] ELSE array_agg(attempt + counts_attempt) END,
            string_agg(coalesce(h.input, (SELECT p.input FROM @payload p WHERE p.seq = h.seq)), E'\x1e'),
            CASE WHEN count(policy) > 0 THEN string_agg(coalesce(policy, E'\x02'), E'\x1e') END,
            CASE WHEN count(meta) > 0 THEN string_agg(coalesce(meta, E'\x02'), E'\x1e') END,
            CASE WHEN count(attempts) > 0 THEN string_agg(coalesce(attempts, E'\x02'), E'\x1e') END,
            CASE WHEN min(created_at) = max(created_at)
              THEN ARRAY[min(created_at)] ELSE array_agg(created_at) END,
            CASE WHEN NOT bool_and(due_at = created_at) THEN array_agg(due_at) END,
            CASE WHEN count(deadline_at) > 0 THEN array_agg(deadline_at) END,
            CASE WHEN min(durable) = max(durable)
              THEN ARRAY[min(durable)] ELSE array_agg(durable) END,
            array_agg(unique_key) FILTER (WHERE holds = -1),
            array_agg(seq) FILTER (WHERE holds = -1)
          INTO v_away,
            l_id, l_seq, l_fence, l_route, l_rev, l_attempt, l_input, l_policy, l_meta, l_attempts, l_created_at,
            l_due_at, l_deadline_at, l_durable,
            v_keys, v_freed
          FROM (
            SELECT id, seq, fence, route, rev, attempt, input, policy, meta, attempts, created_at, due_at, deadline_at,
            durable, counts_attempt, holds, unique_key
            FROM unnest(v_places) p(place) JOIN @waiting w ON w.ctid = p.place) h;
        END IF;
      ELSIF v_away > 0 OR octet_length(l_input) - array_length(v_places, 1) >= v_bytes THEN
        SELECT array_agg(place) FILTER (WHERE before < v_bytes), array_agg(id) FILTER (WHERE bytes IS NULL)
        INTO v_places, v_bad FROM (
          SELECT place, id, bytes,
            coalesce(sum(bytes) OVER (ORDER BY o ROWS BETWEEN UNBOUNDED PRECEDING AND 1 PRECEDING), 0) AS before
          FROM (
            SELECT p.place, p.o, w.id,
              octet_length(coalesce(w.input, (SELECT p.input FROM @payload p WHERE p.seq = w.seq))) AS bytes
            FROM unnest(v_places) WITH ORDINALITY p(place, o) JOIN @waiting w ON w.ctid = p.place) w) b;
        IF v_bad IS NOT NULL THEN
          PERFORM @keep_unreadable_v1(now, NULL, v_bad);
          CONTINUE;
        END IF;
        SELECT count(*) FILTER (WHERE input IS NULL),
          string_agg(id, E'\x1e'),
          array_agg(seq),
          CASE WHEN min(greatest(fence, v_fence) + 1) = max(greatest(fence, v_fence) + 1)
            THEN ARRAY[min(greatest(fence, v_fence) + 1)] ELSE array_agg(greatest(fence, v_fence) + 1) END,
          CASE WHEN min(route) = max(route)
            THEN ARRAY[min(route)] ELSE array_agg(route) END,
          CASE WHEN min(rev + 1) = max(rev + 1)
            THEN ARRAY[min(rev + 1)] ELSE array_agg(rev + 1) END,
          CASE WHEN min(attempt + counts_attempt) = max(attempt + counts_attempt)
            THEN ARRAY[min(attempt + counts_attempt)] ELSE array_agg(attempt + counts_attempt) END,
          string_agg(coalesce(h.input, (SELECT p.input FROM @payload p WHERE p.seq = h.seq)), E'\x1e'),
          CASE WHEN count(policy) > 0 THEN string_agg(coalesce(policy, E'\x02'), E'\x1e') END,
          CASE WHEN count(meta) > 0 THEN string_agg(coalesce(meta, E'\x02'), E'\x1e') END,
          CASE WHEN count(attempts) > 0 THEN string_agg(coalesce(attempts, E'\x02'), E'\x1e') END,
          CASE WHEN min(created_at) = max(created_at)
            THEN ARRAY[min(created_at)] ELSE array_agg(created_at) END,
          CASE WHEN NOT bool_and(due_at = created_at) THEN array_agg(due_at) END,
          CASE WHEN count(deadline_at) > 0 THEN array_agg(deadline_at) END,
          CASE WHEN min(durable) = max(durable)
            THEN ARRAY[min(durable)] ELSE array_agg(durable) END,
          array_agg(unique_key) FILTER (WHERE holds = -1),
          array_agg(seq) FILTER (WHERE holds = -1)
        INTO v_away,
          l_id, l_seq, l_fence, l_route, l_rev, l_attempt, l_input, l_policy, l_meta, l_attempts, l_created_at,
          l_due_at, l_deadline_at, l_durable,
          v_keys, v_freed
        FROM (
          SELECT id, seq, fence, route, rev, attempt, input, policy, meta, attempts, created_at, due_at, deadline_at,
          durable, counts_attempt, holds, unique_key
          FROM unnest(v_places) p(place) JOIN @waiting w ON w.ctid = p.place) h;
      END IF;
      v_count := array_length(v_places, 1);
      IF NOT v_is_laned THEN
        v_pick := v_pick + extract(epoch FROM clock_timestamp() - v_began) * 1000000;
      END IF;
      EXIT WHEN v_count IS NULL AND v_cut IS NULL;
      IF v_count > 0 THEN
        -- The batch may have jobs that were submitted while this call ran. With the time of its beginning they would be
        -- claimed before they were due.
        now := greatest(now, coalesce(p_now, floor(extract(epoch FROM clock_timestamp()) * 1000)::int8));
        v_ends := now + p_lease;
        v_begun := least(v_starts, v_count);
        v_starts := v_starts - v_begun;
        INSERT INTO @leased (
          seq, created_at, route, rank, due_at, fence, rev, attempt, durable, state, counts_attempt,
          cancel_asked, holds, keeps_lane, id, input, unique_hold, lane_step, deadline_at, ttl_at, timer_at,
          settled_fence, claimed_at, started_at, lease_ends_at, attempt_ends_at, ended_at, keep_until,
          result_until, digest, unique_key, lane_key, lane_gates, flow, edges, freed, tags, policy, meta,
          change_token, waits, attempts, progress, owner, reason, result)
        SELECT seq, created_at, route, rank, due_at, greatest(fence, v_fence) + 1, rev + 1, attempt + counts_attempt,
        durable, 3, 1, cancel_asked, CASE holds WHEN -1 THEN 0 ELSE holds END, keeps_lane, id, input,
        unique_hold, lane_step, deadline_at, NULL, least(v_ends, deadline_at), settled_fence, now, begun_at,
        v_ends, NULL, ended_at, keep_until, result_until, digest, unique_key, lane_key, lane_gates, flow,
        edges, freed, tags, policy, meta, change_token, waits, attempts, progress, p_owner, reason, result
        FROM (SELECT now AS begun_at, * FROM @waiting WHERE ctid = ANY (v_places[:v_begun]) UNION ALL SELECT NULL, *
            FROM @waiting WHERE ctid = ANY (v_places[v_begun + 1:])) w;
        DELETE FROM @waiting WHERE ctid = ANY (v_places);
        GET DIAGNOSTICS v_moved = ROW_COUNT;
        IF v_moved <> v_count THEN
          RAISE EXCEPTION 'millrace: a claim took % jobs and removed %', v_count, v_moved USING ERRCODE = 'MR004';
        END IF;
        v_ids := replace(l_id, E'\x1e', E'\x1f');
        IF array_length(l_route, 1) = 1 AND array_length(l_rev, 1) = 1 AND array_length(l_attempt, 1) = 1 THEN
          IF v_begun = 0 THEN v_events := concat_ws(E'\x1f', 3, l_rev[1], l_route[1], 3, l_attempt[1],
            '', v_ids);
          ELSIF v_begun = v_count THEN v_events := concat_ws(E'\x1f', 3, l_rev[1], l_route[1], 3, l_attempt[1],
            'n1', v_ids);
          ELSE v_events := concat_ws(E'\x1f', 3, l_rev[1], l_route[1], 3, l_attempt[1],
            'n1', array_to_string((string_to_array(v_ids, E'\x1f'))[1:v_begun], E'\x1f')) || E'\x1e'
            || concat_ws(E'\x1f', 3, l_rev[1], l_route[1], 3, l_attempt[1],
              '', array_to_string((string_to_array(v_ids, E'\x1f'))[v_begun + 1:], E'\x1f'));
          END IF;
          INSERT INTO @state_count VALUES (l_route[1], 2, -v_count),
            (l_route[1], 3, v_count);
        ELSE
          WITH grouped AS (
            SELECT coalesce(g.route, l_route[1]) AS route, coalesce(g.rev, l_rev[1]) AS rev,
              coalesce(g.attempt, l_attempt[1]) AS attempt, o <= v_begun AS is_first, count(*) AS jobs,
              string_agg(g.id, E'\x1f') AS ids
            FROM unnest(l_route, l_rev, l_attempt, string_to_array(v_ids, E'\x1f'))
              WITH ORDINALITY g(route, rev, attempt, id, o)
            GROUP BY 1, 2, 3, 4),
          counted AS (
            INSERT INTO @state_count SELECT route, 2, -sum(jobs) FROM grouped GROUP BY route
              UNION ALL SELECT route, 3, sum(jobs) FROM grouped GROUP BY route)
          SELECT string_agg(
            concat_ws(E'\x1f', 3, rev, route, 3, attempt,
              CASE WHEN is_first THEN 'n1' ELSE '' END, ids), E'\x1e')
          INTO v_events FROM grouped;
        END IF;
        v_all := @append_events_v1(v_all, v_events);
        IF v_keys IS NOT NULL THEN
          DELETE FROM @uniq u USING unnest(v_keys, v_freed) f(key, seq) WHERE u.key = f.key AND u.seq = f.seq;
        END IF;
        IF v_rated THEN
          UPDATE @gate g SET tat_us = greatest(g.tat_us, now * 1000) + t.permits * g.step_us FROM (
            SELECT u.key, sum(u.weight)::float8 AS permits
            FROM unnest(l_seq, l_route) j(seq, route)
              JOIN unnest(u_routes, u_keys, u_weights) u(route, key, weight) ON u.route = coalesce(j.route, l_route[1])
            GROUP BY u.key) t
          WHERE g.key = t.key AND g.step_us IS NOT NULL;
        END IF;
        v_answer := concat(v_answer,
          E'\x1f', now, E'\x1f', v_i, E'\x1f', v_key_gates, E'\x1f', l_id, E'\x1f', l_seq, E'\x1f', l_fence,
          E'\x1f', l_route, E'\x1f', l_rev, E'\x1f', l_attempt, E'\x1f', l_input, E'\x1f', l_policy,
          E'\x1f', l_meta, E'\x1f', l_attempts, E'\x1f', l_created_at, E'\x1f', l_due_at, E'\x1f', l_deadline_at,
          E'\x1f', l_durable);
        v_bytes := v_bytes - (octet_length(l_input) - v_count + 1);
        EXIT WHEN v_bytes <= 0;
      END IF;
      IF v_cut IS NULL THEN
        v_left := v_left - greatest(v_got, 1);
      ELSE
        v_left := v_left - coalesce(v_count, 0);
        v_shut := v_shut || v_refusing;
        SELECT least(v_opens, min(CASE WHEN g.closed_until IS DISTINCT FROM 8640000000000000 THEN (
          SELECT at FROM (
            SELECT greatest(g.closed_until, ceil((g.tat_us + r.weight * g.step_us - g.burst_us) / 1000))::int8 AS at) o
          WHERE at > now) END)) INTO v_opens
        FROM unnest(v_refusing, v_weights) r(key, weight) JOIN @gate g ON g.key = r.key;
      END IF;
    END LOOP;
    IF v_bytes <= 0 THEN
      -- On routes that a gate has shut, the jobs after the last one that was taken have not been refused yet.
      v_more := EXISTS (
          SELECT 1 FROM @waiting
          WHERE route = ANY (v_offer || p_routes[v_from:])
            AND state = 2 AND lane_key IS NULL AND (timer_at IS NULL OR timer_at > now))
        OR (v_gates IS NOT NULL AND EXISTS (
          SELECT 1 FROM @waiting
          WHERE route = ANY (v_all_routes) AND state = 2 AND lane_key IS NULL AND (timer_at IS NULL OR timer_at > now)
            AND ARRAY[rank, seq] > ARRAY[v_ranks[v_count], l_seq[v_count]]))
        OR v_more OR (v_has_lanes AND EXISTS (SELECT 1 FROM @lane WHERE route = ANY (p_routes[v_from:])));
      EXIT;
    END IF;
  END LOOP;
  IF v_open_gates <> '{}' OR v_woken <> '{}' THEN
    PERFORM @reopen_lanes_v1(now, v_woken, v_open_gates);
  END IF;
  IF v_all IS NOT NULL THEN
    INSERT INTO @feed (at, body) VALUES (now, v_all) RETURNING id INTO v_feed;
    IF v_feed % 1024 = 0 THEN PERFORM @fold_v1(); END IF;
  END IF;
  IF p_clock THEN
    SELECT least(
      (SELECT due_at FROM @waiting WHERE state = 1 ORDER BY due_at, seq LIMIT 1),
      (SELECT timer_at FROM @waiting
        WHERE timer_at IS NOT NULL AND (state <> 1 OR timer_at < due_at)
        ORDER BY timer_at, seq LIMIT 1),
      (SELECT timer_at FROM @leased ORDER BY timer_at, seq LIMIT 1),
      (SELECT due_at FROM @doc WHERE due_at IS NOT NULL ORDER BY due_at LIMIT 1)) INTO v_clock;
  END IF;
  RETURN concat(now, E'\x1f', v_pick, E'\x1f', v_clock, E'\x1f', v_more, E'\x1f', v_opens,
    E'\x1f', v_lowest, v_answer);
END $$;
