-- Takes up to p_max jobs of p_routes, until their inputs reach p_bytes, and writes what that means for their lanes and
-- gates; the caller leases them.
--   gates      of the keys of each job; null if none has any
--   p_scopes, p_gates   the scopes of their queues and the gates of the routes, which are locked
--   shut       p_shut, and the gates that have refused a job
--   p_floor    open lanes of a lower place are not read (floors.ts says why)
--   lowest, look_us     the first place that was read, and how long finding lanes took
--   p_woken    lanes that wait at gates and are looked at again; left_woken: those of them that were not written
--   p_look     the number of this look, from 0
--   p_deep     how many jobs of each lane to read at least: next_deep of the last look
--   again      there may be more to take
--   bad        jobs whose input is gone; then nothing was taken
CREATE FUNCTION @pick_lanes_v1(p_now int8, p_routes int8[], p_max int4, p_bytes int8, p_scopes text[], p_gates text[],
  p_shut text[], p_woken text[], p_floor int8, p_look int4, p_deep int4,
  OUT again bool, OUT next_deep int4, OUT places tid[], OUT seqs int8[], OUT gates text[], OUT shut text[],
  OUT opens int8, OUT more bool, OUT bad text[], OUT left_woken text[], OUT lowest int8, OUT look_us int8)
  LANGUAGE plpgsql
  SET enable_seqscan = off SET enable_bitmapscan = off SET jit = off
  SET plan_cache_mode = force_generic_plan AS $$
#variable_conflict use_column
DECLARE
  v_bound int8[]; v_lanes int4 := least(greatest(p_max, 16) * (2 ^ p_look)::int4, 4096); v_count int4;
  v_deep int4 := p_deep; v_skipped text[] := '{}'; v_taken int4; v_got int8; v_use int4; v_first int4; v_lane int4;
  v_gate int4; v_refused bool; v_over bool[]; v_last int4[]; v_seen int4[]; v_from int4[]; v_to int4[];
  v_chosen int4[]; v_wait_uses int4[]; v_held tid[]; v_clock int8; v_any_shut bool; v_any_waits bool;
  v_began timestamptz; v_takes bool[];
  l_place tid[]; l_key text[]; l_pos int8[]; l_seq int8[]; l_turn int8[]; l_queue text[]; l_waits_at text[];
  g_passed int8[]; g_weight int8[];
  c_place tid[]; c_seq int8[]; c_rank int8[]; c_lane int4[]; c_route int8[]; c_gates text[];
  c_bytes int8[]; c_pos int8[]; c_after int8[]; c_more bool[]; c_go bool[]; v_all_go bool;
  v_bytes int8; v_certain int4; v_end int4; g_key text[]; g_keyed bool[]; g_held int8[]; g_cap int8[];
  g_time float8[]; g_step float8[]; g_burst float8[]; g_tat float8[]; g_closed int8[]; g_shut bool[];
  u_at int4[]; u_gate int4[]; u_weight int8[]; u_cap int8[]; v_timed bool; v_unknown bool;
  v_all_pass bool;
BEGIN
  shut := p_shut;
  left_woken := p_woken;
  look_us := 0;
  LOOP
    -- Nothing may be left of a look that was given up because another call holds its jobs.
    places := NULL; seqs := NULL; gates := NULL; again := false; more := false;
    v_began := clock_timestamp();
    IF array_length(p_routes, 1) = 1 AND p_woken = '{}' AND v_skipped = '{}' THEN
      SELECT array_agg(place), array_agg(key), array_agg(pos), array_agg(seq), array_agg(turn), array_agg(queue),
        array_agg(waits_at)
      INTO l_place, l_key, l_pos, l_seq, l_turn, l_queue, l_waits_at FROM (
        SELECT pos, seq, ctid AS place, key, turn, queue, waits_at FROM @lane
        WHERE route = p_routes[1] AND waits_at IS NULL AND pos >= p_floor
        ORDER BY pos, seq LIMIT v_lanes) l;
    ELSE
      SELECT array_agg(place), array_agg(key), array_agg(pos), array_agg(seq), array_agg(turn), array_agg(queue),
        array_agg(waits_at)
      INTO l_place, l_key, l_pos, l_seq, l_turn, l_queue, l_waits_at FROM (
        SELECT * FROM (
          SELECT l.* FROM unnest(p_routes) r(route) CROSS JOIN LATERAL (
            SELECT pos, seq, ctid AS place, key, turn, queue, waits_at FROM @lane
            WHERE route = r.route AND waits_at IS NULL AND pos >= p_floor
            ORDER BY pos, seq LIMIT v_lanes) l
          UNION ALL SELECT pos, seq, ctid, key, turn, queue, waits_at FROM @lane
          WHERE key = ANY (p_woken) AND route = ANY (p_routes) AND waits_at IS NOT NULL) o
        WHERE v_skipped = '{}' OR key <> ALL (v_skipped) ORDER BY pos, seq LIMIT v_lanes) l;
    END IF;
    look_us := look_us + extract(epoch FROM clock_timestamp() - v_began) * 1000000;
    v_count := coalesce(array_length(l_key, 1), 0);
    v_bound := CASE WHEN v_count >= v_lanes THEN ARRAY[l_pos[v_lanes], l_seq[v_lanes] + 1] END;
    IF v_count > 0 THEN
      v_deep := greatest(ceil(p_max::float8 / v_count)::int4 + 1, v_deep);
      SELECT o.c_place, o.c_seq, o.c_rank, o.c_lane, o.c_route, o.c_gates, o.c_bytes, o.c_pos, o.c_after, o.c_more,
      o.c_go, o.v_all_go, o.v_bytes, o.v_certain, o.v_end, o.g_key, o.g_keyed, o.g_held, o.g_cap, o.g_time,
      o.g_step, o.g_burst, o.g_tat, o.g_closed, o.g_shut, o.u_at, o.u_gate, o.u_weight, o.u_cap, o.v_timed,
      o.v_unknown, o.v_all_pass
      INTO c_place, c_seq, c_rank, c_lane, c_route, c_gates, c_bytes, c_pos, c_after, c_more, c_go, v_all_go,
      v_bytes, v_certain, v_end, g_key, g_keyed, g_held, g_cap, g_time, g_step, g_burst, g_tat, g_closed,
      g_shut, u_at, u_gate, u_weight, u_cap, v_timed, v_unknown, v_all_pass
      FROM @lane_candidates_v1(p_now, p_routes, p_scopes, p_gates, p_shut, l_key, l_turn, l_queue, v_bound, v_deep) o;
      lowest := coalesce(lowest, least(l_pos[1], c_pos[1]));
      v_taken := 0; v_got := 0; v_use := 1; v_any_shut := false; v_any_waits := false;
      v_takes := array_fill(false, ARRAY[v_certain]); v_chosen := '{}'; v_over := array_fill(false, ARRAY[v_count]);
      v_last := array_fill(NULL::int4, ARRAY[v_count]);
      v_seen := v_last; v_from := v_last; v_to := v_last; v_wait_uses := v_last;
      g_passed := array_fill(0::int8, ARRAY[coalesce(array_length(g_key, 1), 0)]); g_weight := g_passed;
      IF (g_key IS NULL OR v_all_pass) AND v_all_go AND v_bytes < p_bytes THEN
        v_taken := least(v_certain, p_max);
        v_got := v_bytes;
        FOR v_at IN 1..v_taken LOOP
          v_last[c_lane[v_at]] := v_at;
        END LOOP;
        v_seen := v_last;
        v_chosen := ARRAY(SELECT generate_series(1, v_taken));
        places := c_place[1:v_taken];
        seqs := c_seq[1:v_taken];
        IF g_key IS NOT NULL THEN
          gates := c_gates[1:v_taken];
          v_takes := array_fill(true, ARRAY[v_taken]);
        END IF;
      END IF;
      FOR v_at IN v_taken + 1..v_certain LOOP
        EXIT WHEN v_taken >= p_max OR v_got >= p_bytes;
        v_first := v_use;
        WHILE u_at[v_use] = v_at LOOP v_use := v_use + 1; END LOOP;
        v_lane := c_lane[v_at];
        CONTINUE WHEN v_over[v_lane] OR NOT c_go[v_at];
        v_seen[v_lane] := v_at;
        v_from[v_lane] := v_first;
        v_to[v_lane] := v_use - 1;
        v_refused := false;
        FOR v_i IN v_first..v_use - 1 LOOP
          v_refused := v_refused OR g_shut[u_gate[v_i]];
        END LOOP;
        IF NOT v_refused THEN
          FOR v_i IN v_first..v_use - 1 LOOP
            CONTINUE WHEN NOT coalesce(
              least(g_time[u_gate[v_i]],
                coalesce(u_cap[v_i], g_cap[u_gate[v_i]]) - g_held[u_gate[v_i]]) < u_weight[v_i], false);
            v_refused := true;
            -- If a cap of the job's own refuses it, the gate stays open for other jobs.
            CONTINUE WHEN u_cap[v_i] IS NOT NULL AND NOT coalesce(g_time[u_gate[v_i]] < u_weight[v_i], false);
            v_any_shut := true;
            g_shut[u_gate[v_i]] := true;
            g_weight[u_gate[v_i]] := u_weight[v_i];
          END LOOP;
        END IF;
        IF v_refused THEN
          v_over[v_lane] := true;
          CONTINUE;
        END IF;
        FOR v_i IN v_first..v_use - 1 LOOP
          v_gate := u_gate[v_i];
          g_held[v_gate] := g_held[v_gate] + u_weight[v_i];
          g_time[v_gate] := g_time[v_gate] - u_weight[v_i];
          g_passed[v_gate] := coalesce(g_passed[v_gate], 0) + u_weight[v_i];
        END LOOP;
        v_last[v_lane] := v_at;
        v_taken := v_taken + 1;
        v_chosen[v_taken] := v_at;
        places[v_taken] := c_place[v_at];
        seqs[v_taken] := c_seq[v_at];
        gates[v_taken] := c_gates[v_at];
        v_takes[v_at] := true;
        v_got := v_got + coalesce(c_bytes[v_at], 0);
      END LOOP;
      FOR v_lane IN 1..CASE WHEN true = ANY (v_over) THEN v_count ELSE 0 END LOOP
        CONTINUE WHEN NOT v_over[v_lane];
        FOR v_i IN v_from[v_lane]..v_to[v_lane] LOOP
          CONTINUE WHEN NOT g_keyed[u_gate[v_i]] OR NOT coalesce(
            least(g_time[u_gate[v_i]],
              coalesce(u_cap[v_i], g_cap[u_gate[v_i]]) - g_held[u_gate[v_i]]) < 1, false);
          v_wait_uses[v_lane] := v_i;
          v_any_waits := true;
          EXIT;
        END LOOP;
      END LOOP;
      again := v_taken < p_max AND v_got < p_bytes AND v_end IS NOT NULL;
      IF again THEN
        next_deep := CASE WHEN v_end = 0 OR v_over[v_end] THEN v_deep ELSE 2 * v_deep END;
        IF v_taken = 0 AND NOT v_any_waits AND v_lanes < 4096 THEN
          v_lanes := v_lanes * 2;
          v_deep := 2 * v_deep;
          CONTINUE;
        END IF;
        again := (v_taken > 0 OR v_any_waits) AND p_look < 16;
        more := NOT again;
      END IF;
      more := more OR (v_got >= p_bytes AND (v_taken < v_certain OR v_end IS NOT NULL));
      IF array_position(c_bytes, NULL) IS NOT NULL THEN
        SELECT array_agg(w.id) INTO bad FROM unnest(v_chosen) c JOIN @waiting w ON w.ctid = c_place[c]
        WHERE c_bytes[c] IS NULL;
        EXIT WHEN bad IS NOT NULL;
      END IF;
      IF v_taken > 0 THEN
        v_held := ARRAY(
          SELECT ctid FROM @waiting WHERE ctid = ANY (places) AND state = 2 FOR UPDATE SKIP LOCKED);
        IF cardinality(v_held) < v_taken THEN
          v_skipped := v_skipped || ARRAY(
            SELECT DISTINCT l_key[c_lane[c]] FROM unnest(v_chosen) c WHERE c_place[c] <> ALL (v_held));
          CONTINUE;
        END IF;
      END IF;
      IF g_key IS NOT NULL THEN
        INSERT INTO @permit
        SELECT g_key[u.gate], c_seq[u.at], u.weight, u.cap IS NOT NULL
        FROM unnest(u_at, u_gate, u_weight, u_cap) u(at, gate, weight, cap)
        WHERE v_takes[u.at] AND g_keyed[u.gate];
        IF v_timed THEN
          INSERT INTO @key_clock AS k
          SELECT g.key,
            CASE WHEN g.passed > 0 AND g.step_us IS NOT NULL
              THEN greatest(g.tat_us, p_now * 1000) + g.passed * g.step_us ELSE g.tat_us END, o.opens
          FROM
            unnest(g_key, g_keyed, g_step, g_burst, g_tat, g_closed, g_passed, g_weight)
              WITH ORDINALITY g(key, is_keyed, step_us, burst_us, tat_us, closed_until, passed, weight, number)
            CROSS JOIN LATERAL (
              SELECT CASE WHEN g.number IN (SELECT u_gate[p] FROM unnest(v_wait_uses) p) THEN
                CASE WHEN g.closed_until IS DISTINCT FROM 8640000000000000 THEN (
                  SELECT at FROM (
                    SELECT greatest(g.closed_until, ceil((
                      CASE WHEN g.passed > 0
                        THEN greatest(g.tat_us, p_now * 1000) + g.passed * g.step_us ELSE g.tat_us END
                        + 1 * g.step_us - g.burst_us) / 1000))::int8 AS at) o
                  WHERE at > p_now) END END AS opens) o
          WHERE g.is_keyed AND (o.opens IS NOT NULL OR (g.passed > 0 AND g.step_us IS NOT NULL))
            ON CONFLICT (key) DO UPDATE SET tat_us = excluded.tat_us,
              opens_at = coalesce(excluded.opens_at, k.opens_at);
          UPDATE @gate o SET tat_us =
            CASE WHEN g.passed > 0 AND g.step_us IS NOT NULL
              THEN greatest(g.tat_us, p_now * 1000) + g.passed * g.step_us ELSE g.tat_us END
          FROM
            unnest(g_key, g_keyed, g_step, g_burst, g_tat, g_closed, g_passed, g_weight)
              WITH ORDINALITY g(key, is_keyed, step_us, burst_us, tat_us, closed_until, passed, weight, number)
          WHERE o.key = ANY (p_gates) AND o.key = g.key AND NOT g.is_keyed AND g.passed > 0 AND g.step_us IS NOT NULL;
        END IF;
        IF v_any_shut THEN
          SELECT p_shut || array_agg(g.key), min(
            CASE WHEN g.closed_until IS DISTINCT FROM 8640000000000000 THEN (
              SELECT at FROM (
                SELECT greatest(g.closed_until, ceil((
                  CASE WHEN g.passed > 0
                    THEN greatest(g.tat_us, p_now * 1000) + g.passed * g.step_us ELSE g.tat_us END
                    + g.weight * g.step_us - g.burst_us) / 1000))::int8 AS at) o
              WHERE at > p_now) END)
          INTO shut, opens FROM
            unnest(g_key, g_keyed, g_step, g_burst, g_tat, g_closed, g_passed, g_weight)
              WITH ORDINALITY g(key, is_keyed, step_us, burst_us, tat_us, closed_until, passed, weight, number)
          WHERE g_shut[g.number];
        END IF;
      END IF;
      WITH seen AS MATERIALIZED (
        SELECT s.lane, l_place[s.lane] AS place, l_key[s.lane] AS key, s.taken, c_gates[s.looked] AS gates,
          g_key[u_gate[s.wait_use]] AS waits_at, u_cap[s.wait_use] AS own_cap
        FROM unnest(v_seen, v_last, v_wait_uses) WITH ORDINALITY s(looked, taken, wait_use, lane)
        WHERE s.taken IS NOT NULL
          OR s.wait_use IS NOT NULL AND g_key[u_gate[s.wait_use]] IS DISTINCT FROM l_waits_at[s.lane]),
      nexts AS (
        SELECT lane, min(at) AS at FROM unnest(c_lane) WITH ORDINALITY c(lane, at)
        WHERE at > coalesce(v_last[lane], 0) GROUP BY lane),
      heads AS MATERIALIZED (
        SELECT s.place, coalesce(c_after[s.taken], l_turn[s.lane]) AS turn, coalesce(c_route[n.at], h.route) AS route,
          coalesce(c_seq[n.at], h.seq) AS seq, CASE WHEN n.at IS NULL THEN h.rank ELSE c_rank[n.at] END AS rank,
          CASE WHEN n.at IS NULL THEN h.lane_step ELSE c_after[n.at] END AS step,
          coalesce(c_gates[n.at], h.lane_gates) = s.gates AS asks_alike, s.waits_at, s.own_cap
        FROM seen s LEFT JOIN nexts n ON n.lane = s.lane LEFT JOIN LATERAL (
          SELECT route, rank, seq, lane_step, lane_gates FROM @waiting
          WHERE lane_key = s.key AND state = 2 AND n.at IS NULL AND c_more[s.taken]
            AND (rank, seq) > (c_rank[s.taken], c_seq[s.taken])
          ORDER BY rank, seq LIMIT 1) h ON true),
      gone AS (
        DELETE FROM @lane WHERE ctid = ANY (ARRAY(
          SELECT h.place FROM heads h WHERE h.route IS NULL AND h.turn IS NULL)))
      UPDATE @lane l SET route = h.route,
        pos = CASE WHEN h.step IS NULL AND h.rank IS NOT NULL THEN h.rank ELSE h.turn END,
        seq = h.seq, turn = h.turn, waits_at = CASE WHEN h.asks_alike THEN h.waits_at END,
        own_cap = CASE WHEN h.asks_alike THEN h.own_cap END
      FROM heads h WHERE l.ctid = h.place AND (h.route IS NOT NULL OR h.turn IS NOT NULL);
      IF c_after[v_chosen[1]] IS NOT NULL THEN
        WITH tops AS (
          INSERT INTO @lane_turn AS t
          SELECT l_queue[c_lane[c]], max(c_pos[c]) FROM unnest(v_chosen) c WHERE c_after[c] IS NOT NULL GROUP BY 1
            ON CONFLICT (queue) DO UPDATE SET top = greatest(t.top, excluded.top) RETURNING queue, top)
        DELETE FROM @lane l USING tops t WHERE l.queue = t.queue AND l.route IS NULL AND l.turn <= t.top;
      END IF;
      IF p_woken <> '{}' THEN
        left_woken := ARRAY(
          SELECT unnest(p_woken) EXCEPT SELECT l_key[s.lane]
          FROM unnest(v_last, v_wait_uses) WITH ORDINALITY s(taken, wait_use, lane)
          WHERE coalesce(s.taken, s.wait_use) IS NOT NULL);
      END IF;
    END IF;
    EXIT;
  END LOOP;
  SELECT min(k.opens_at) INTO v_clock FROM unnest(p_scopes) s(scope) CROSS JOIN LATERAL (
    SELECT opens_at FROM @key_clock k WHERE k.scope = s.scope AND opens_at IS NOT NULL ORDER BY opens_at LIMIT 1) k;
  opens := least(opens, v_clock, CASE WHEN v_unknown THEN p_now + 30 END);
END $$;
