-- One phase of the audit. repaired: how many rows were wrong, by kind. The phases jobs, unique and lanes read p_max
-- rows after p_after, unreadable reads more. checked: how many rows were read; last: the last of them, in the phase
-- unreadable only if there are more.
CREATE FUNCTION @audit_v1(p_now int8, p_commit text, p_phase text, p_after text, p_max int4,
  OUT repaired jsonb, OUT checked int8, OUT last text) LANGUAGE plpgsql AS $$
DECLARE
  v_now int8 := @begin_v1(p_now, p_commit); v_rows int8; v_after int8; v_last int8; v_gates text[]; v_more bool;
  v_keys text[]; v_wrong text[]; v_scopes text[];
BEGIN
  repaired := '{}';
  checked := 0;
  CASE p_phase
  WHEN 'unreadable' THEN
    v_after := coalesce(nullif(p_after, '')::int8, '-9223372036854775808'::int8);
    SELECT count(*), max(seq) INTO checked, v_last FROM (
      SELECT seq FROM (
        (SELECT seq FROM @waiting WHERE seq > v_after ORDER BY seq LIMIT p_max * 4)
        UNION ALL (SELECT seq FROM @leased WHERE seq > v_after ORDER BY seq LIMIT p_max * 4)
        UNION ALL (SELECT seq FROM @history WHERE seq > v_after ORDER BY seq LIMIT p_max * 4)) s
      ORDER BY seq LIMIT p_max * 4) w;
    repaired := jsonb_build_object('unreadable', @keep_unreadable_v1(v_now, NULL, NULL, v_after, v_last));
    IF checked = p_max * 4 THEN last := v_last; END IF;
  WHEN 'jobs' THEN
    v_after := coalesce(nullif(p_after, '')::int8, 0);
    SELECT count(*), max(seq) INTO checked, v_last FROM (
      SELECT seq FROM @waiting WHERE seq > v_after ORDER BY seq LIMIT p_max) w;
    last := v_last;
    UPDATE @waiting j SET timer_at = @timer_v1(j)
    WHERE seq > v_after AND seq <= v_last AND timer_at IS DISTINCT FROM @timer_v1(j);
    GET DIAGNOSTICS v_rows = ROW_COUNT;
    repaired := jsonb_build_object('timer', v_rows);
  WHEN 'leases' THEN
    UPDATE @leased l SET timer_at = @timer_v1(ROW(l.*)) WHERE timer_at IS DISTINCT FROM @timer_v1(ROW(l.*));
    GET DIAGNOSTICS v_rows = ROW_COUNT;
    repaired := jsonb_build_object('timer', v_rows);
  WHEN 'unique' THEN
    -- Keys held by a job, not by time, whose job is not live any more.
    SELECT count(*), max(key) INTO checked, last FROM (
      SELECT key FROM @uniq WHERE key > p_after ORDER BY key LIMIT p_max) k;
    DELETE FROM @uniq u WHERE key > p_after AND key <= last AND held_until IS NULL AND NOT EXISTS (
      SELECT 1 FROM @waiting w WHERE w.id = u.id UNION ALL SELECT 1 FROM @leased l WHERE l.id = u.id);
    GET DIAGNOSTICS v_rows = ROW_COUNT;
    repaired := jsonb_build_object('unique', v_rows);
  WHEN 'orphans' THEN
    -- Rows of deleted jobs. A row that another call is moving is in exactly one of the tables in a statement's
    -- snapshot.
    DELETE FROM @tag t WHERE NOT EXISTS (
      SELECT 1 FROM @waiting j WHERE j.id = t.id
      UNION ALL SELECT 1 FROM @leased j WHERE j.id = t.id
      UNION ALL SELECT 1 FROM @history j WHERE j.id = t.id);
    GET DIAGNOSTICS v_rows = ROW_COUNT;
    repaired := repaired || jsonb_build_object('tag', v_rows);
    DELETE FROM @journal t WHERE NOT EXISTS (
      SELECT 1 FROM @waiting j WHERE j.seq = t.seq
      UNION ALL SELECT 1 FROM @leased j WHERE j.seq = t.seq
      UNION ALL SELECT 1 FROM @history j WHERE j.seq = t.seq);
    GET DIAGNOSTICS v_rows = ROW_COUNT;
    repaired := repaired || jsonb_build_object('journal', v_rows);
    DELETE FROM @entry t WHERE NOT EXISTS (
      SELECT 1 FROM @waiting j WHERE j.seq = t.seq
      UNION ALL SELECT 1 FROM @leased j WHERE j.seq = t.seq
      UNION ALL SELECT 1 FROM @history j WHERE j.seq = t.seq);
    GET DIAGNOSTICS v_rows = ROW_COUNT;
    repaired := repaired || jsonb_build_object('entry', v_rows);
    DELETE FROM @slip t WHERE NOT EXISTS (
      SELECT 1 FROM @waiting j WHERE j.seq = t.seq
      UNION ALL SELECT 1 FROM @leased j WHERE j.seq = t.seq
      UNION ALL SELECT 1 FROM @history j WHERE j.seq = t.seq);
    GET DIAGNOSTICS v_rows = ROW_COUNT;
    repaired := repaired || jsonb_build_object('slip', v_rows);
    DELETE FROM @payload t WHERE NOT EXISTS (
      SELECT 1 FROM @waiting j WHERE j.seq = t.seq
      UNION ALL SELECT 1 FROM @leased j WHERE j.seq = t.seq
      UNION ALL SELECT 1 FROM @history j WHERE j.seq = t.seq);
    GET DIAGNOSTICS v_rows = ROW_COUNT;
    repaired := repaired || jsonb_build_object('payload', v_rows);
  WHEN 'gates' THEN
    -- Without these rows claims would not know the gates of a route, and would leave its jobs out.
    INSERT INTO @gate_use
    SELECT u.key, u.route, u.weight FROM @route r CROSS JOIN LATERAL (
      SELECT 'q:' || r.queue AS key, r.number AS route, 1 AS weight
      UNION ALL SELECT u->>'key', r.number, (u->>'weight')::int8
      FROM jsonb_path_query(r.gates, '$[*]') u
      WHERE u->>'key' IS NOT NULL AND jsonb_typeof(u->'weight') = 'number') u
    EXCEPT SELECT key, route, weight FROM @gate_use;
    GET DIAGNOSTICS v_rows = ROW_COUNT;
    repaired := jsonb_build_object('gate-use', v_rows);
  WHEN 'permits' THEN
    WITH real AS MATERIALIZED (
      SELECT u.key, j.seq, u.weight, u.cap IS NOT NULL FROM @leased j CROSS JOIN LATERAL
        (SELECT substr(t, length(split_part(t, ':', 1)) + length(split_part(t, ':', 2)) + 3) AS key,
          split_part(t, ':', 1)::int8 AS weight, nullif(split_part(t, ':', 2), '')::int8 AS cap
          FROM jsonb_array_elements_text(j.lane_gates::jsonb) t) u
      WHERE j.lane_gates IS NOT NULL AND true
      UNION ALL
      SELECT u.key, j.seq, u.weight, u.cap IS NOT NULL FROM @waiting j CROSS JOIN LATERAL
        (SELECT substr(t, length(split_part(t, ':', 1)) + length(split_part(t, ':', 2)) + 3) AS key,
          split_part(t, ':', 1)::int8 AS weight, nullif(split_part(t, ':', 2), '')::int8 AS cap
          FROM jsonb_array_elements_text(j.lane_gates::jsonb) t) u
      WHERE j.lane_gates IS NOT NULL AND j.keeps_lane = 1 AND u.cap IS NOT NULL
      UNION ALL
      SELECT u.key, j.seq, u.weight, u.cap IS NOT NULL FROM @history j CROSS JOIN LATERAL
        (SELECT substr(t, length(split_part(t, ':', 1)) + length(split_part(t, ':', 2)) + 3) AS key,
          split_part(t, ':', 1)::int8 AS weight, nullif(split_part(t, ':', 2), '')::int8 AS cap
          FROM jsonb_array_elements_text(j.lane_gates::jsonb) t) u
      WHERE j.lane_gates IS NOT NULL AND j.keeps_lane = 1 AND u.cap IS NOT NULL),
    missing AS (SELECT * FROM real EXCEPT ALL SELECT key, seq, weight, is_own FROM @permit),
    surplus AS (SELECT key, seq, weight, is_own FROM @permit EXCEPT ALL SELECT * FROM real),
    gone AS (
      DELETE FROM @permit p USING surplus s
      WHERE p.seq = s.seq AND (p.key, p.weight, p.is_own) = (s.key, s.weight, s.is_own) RETURNING p.key),
    added AS (INSERT INTO @permit SELECT m.* FROM missing m RETURNING key)
    SELECT (SELECT count(*) FROM gone) + (SELECT count(*) FROM added), (SELECT array_agg(key) FROM gone)
    INTO v_rows, v_gates;
    IF v_gates IS NOT NULL THEN PERFORM @gates_changed_v1(v_gates); END IF;
    repaired := jsonb_build_object('permit', v_rows);
    DELETE FROM @key_clock WHERE tat_us <= v_now * 1000 AND opens_at IS NULL;
  WHEN 'lanes' THEN
    v_scopes := ARRAY(
      SELECT 'g:' || queue FROM @route WHERE lanes IS NOT NULL
      UNION SELECT scope FROM @lane_scope UNION SELECT scope FROM @lane_change);
    PERFORM pg_advisory_xact_lock(l.lock) FROM (
      SELECT hashtextextended('@lane' || s, 0) AS lock FROM unnest(v_scopes) s ORDER BY 1) l;
    LOOP
      SELECT d.woken, d.open_gates, d.more INTO v_keys, v_gates, v_more
      FROM @apply_lane_changes_v1(v_now, v_scopes, true) d;
      PERFORM @reopen_lanes_v1(v_now, v_keys, v_gates);
      EXIT WHEN NOT v_more;
    END LOOP;
    SELECT array_agg(key), count(*), max(key) INTO v_keys, checked, last FROM (
      (SELECT DISTINCT lane_key AS key FROM @waiting
        WHERE state = 2 AND lane_key > p_after ORDER BY 1 LIMIT p_max)
      UNION (SELECT key FROM @lane WHERE key > p_after ORDER BY 1 LIMIT p_max)
      ORDER BY 1 LIMIT p_max) k;
    v_wrong := ARRAY(
      SELECT k FROM unnest(v_keys) k
        LEFT JOIN LATERAL (
          SELECT route, rank, seq, lane_step, lane_gates FROM @waiting
          WHERE lane_key = k AND state = 2 
          ORDER BY rank, seq LIMIT 1) h ON true
        LEFT JOIN LATERAL (
          SELECT * FROM @lane r
          WHERE r.key = k
            AND true OFFSET 0) l ON true
      WHERE NOT EXISTS (SELECT 1 FROM @lane_change t WHERE k = ANY (t.lanes))
        AND (l.route, l.seq, l.pos) IS DISTINCT FROM (h.route, h.seq, CASE
          WHEN h.lane_step IS NULL THEN coalesce(h.rank, l.turn)
          ELSE coalesce(l.turn, l.pos - 1) END));
    -- A lane without ready jobs has no row, or a row that only remembers its turn. So only a row with a job is wrong
    -- then.
    v_wrong := ARRAY(
      SELECT w FROM unnest(v_wrong) w
      WHERE EXISTS (SELECT 1 FROM @lane l WHERE l.key = w AND l.route IS NOT NULL)
        OR EXISTS (SELECT 1 FROM @waiting j WHERE j.lane_key = w AND j.state = 2));
    PERFORM @refresh_lanes_v1(v_now, v_wrong, v_wrong, v_scopes);
    WITH asleep AS (
      SELECT DISTINCT l.waits_at FROM @lane l JOIN LATERAL (
        SELECT g.held, g.cap,
          CASE WHEN g.closed_until > v_now THEN 0
            WHEN g.step_us IS NOT NULL THEN
              greatest(0, floor(
                (v_now * 1000 + g.burst_us - greatest(g.tat_us, v_now * 1000)) / g.step_us)) END AS by_time
        FROM (
          SELECT k.key, (SELECT coalesce(sum(p.weight), 0)::int8 FROM @permit p WHERE p.key = k.key) AS held,
            coalesce(o.cap, m.key_cap) AS cap,
            CASE WHEN o.step_us IS NULL THEN m.key_step_us ELSE o.step_us END AS step_us,
            CASE WHEN o.step_us IS NULL THEN m.key_burst_us ELSE o.burst_us END AS burst_us,
            coalesce(t.tat_us, 0) AS tat_us, o.closed_until
          FROM (SELECT l.waits_at AS key) k
            LEFT JOIN LATERAL (
              SELECT * FROM @gate r
              WHERE r.key = k.key
                AND true OFFSET 0) o ON true
            LEFT JOIN LATERAL (
              SELECT * FROM @gate r
              WHERE r.key = split_part(k.key, E'\t', 1)
                AND true OFFSET 0) m ON true
            LEFT JOIN LATERAL (
              SELECT * FROM @key_clock r
              WHERE r.key = k.key
                AND true OFFSET 0) t ON true) g) s ON true
      WHERE l.key = ANY (v_keys) AND l.waits_at IS NOT NULL
        AND coalesce(least(s.by_time, coalesce(l.own_cap, s.cap) - s.held), 1) >= 1
        AND NOT EXISTS (SELECT 1 FROM @lane_change t WHERE l.waits_at = ANY (t.gates))),
    unknown AS (
      INSERT INTO @lane_scope
      SELECT l.queue, split_part(u.key, E'\t', 1)
      FROM @lane l
        CROSS JOIN LATERAL (
          SELECT route, rank, seq, lane_step, lane_gates FROM @waiting
          WHERE lane_key = l.key AND state = 2 
          ORDER BY rank, seq LIMIT 1) h
        CROSS JOIN LATERAL
          (SELECT substr(t, length(split_part(t, ':', 1)) + length(split_part(t, ':', 2)) + 3) AS key,
            split_part(t, ':', 1)::int8 AS weight, nullif(split_part(t, ':', 2), '')::int8 AS cap
            FROM jsonb_array_elements_text(h.lane_gates::jsonb) t) u
      WHERE l.key = ANY (v_keys) AND split_part(u.key, E'\t', 1) <> 'g:' || l.queue
      EXCEPT SELECT queue, scope FROM @lane_scope RETURNING 1)
    SELECT array_agg(waits_at), (SELECT count(*) FROM unknown) INTO v_gates, v_rows FROM asleep;
    IF v_gates IS NOT NULL THEN PERFORM @gates_changed_v1(v_gates); END IF;
    repaired := jsonb_build_object('lane', coalesce(array_length(v_wrong, 1), 0),
      'waiting-lane', coalesce(cardinality(v_gates), 0), 'lane-scope', v_rows);
  WHEN 'counts' THEN
    repaired := jsonb_build_object('state-count', @recount_v1(NULL));
    PERFORM @fold_v1();
  END CASE;
END $$;
