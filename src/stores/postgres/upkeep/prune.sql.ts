/**
 * Retention: deletes records that have been kept long enough, a bounded number per call. Finished jobs are deleted with
 * their tags, payload and log lines. If nearly all rows of a day's partition may be deleted, the few that must stay
 * move to the default partition, and the partition is dropped. So with a retention of a day or more, the rows of a day
 * wait until the whole day may be deleted. They are deleted one by one only if the partition cannot be dropped.
 */
import { stateCodes } from "../../../model/job/job-state.ts";
import { isKeptForATime } from "../connection/schema.sql.ts";
import { isFlow } from "../flows/member.sql.ts";
import { sql } from "../../../store/sql.ts";

const windowFactor = 4;
const windowMin = 1000;
const dayMs = 86_400_000;
const daysAhead = 3;
/** A partition with fewer rows is emptied row by row. */
const dropMin = 5000;

const { completed } = stateCodes;

/** Rows of days that may be pruned, and of the default partition, which has all days. */
const oldRows = (where: string): string => {
  const columns = "seq, id, ended_at, route, state, keep_until, keeps_lane";
  return sql`
    SELECT ${columns} FROM @history
    WHERE ended_at < v_bound AND seq > p_after AND ${where}
    UNION ALL SELECT ${columns} FROM @history_rest
    WHERE ended_at >= v_bound AND ended_at <= v_old AND seq > p_after AND ${where}`;
};

/**
 * A row h of a day: of the state $1, without a retention time of its own, holding no group, of none of the queues $2.
 */
const mayGo = sql`
  h.state = $1 AND h.keep_until IS NULL AND h.keeps_lane = 0
  AND h.route IN (SELECT number FROM @route WHERE queue <> ALL ($2))`;

/** Acts on finished rows for which the time in a column of theirs is over: v_ids and v_ends, null if there is none. */
const pruneTimed = (until: string, act: string, where = "true"): string => sql`
  SELECT array_agg(id), array_agg(ended_at) INTO v_ids, v_ends FROM (
    SELECT id, ended_at FROM @history
    WHERE ${until} <= v_now AND ${where}
    ORDER BY ${until}, seq LIMIT p_max - v_seen) d;
  ${act}
  pruned := pruned + v_count;
  v_seen := v_seen + coalesce(cardinality(v_ids), 0);`;

/** Deletes only the results; their jobs stay. */
const deleteResults = sql`
  UPDATE @history h SET result = NULL, result_until = NULL FROM unnest(v_ids, v_ends) d(id, ended_at)
  WHERE h.id = ANY (v_ids) AND h.id = d.id AND h.ended_at = d.ended_at AND h.result_until <= v_now;
  GET DIAGNOSTICS v_count = ROW_COUNT;`;

export const pruneSql = sql`
-- Deletes finished rows by place, none if the lists are null; answers how many. A deleted flow leaves deferred work.
CREATE FUNCTION @delete_finished_v1(p_now int8, p_ids text[], p_ends int8[]) RETURNS int8 LANGUAGE plpgsql AS $$
DECLARE v_pruned int8; v_flows text[];
BEGIN
  WITH gone AS (
    DELETE FROM @history h USING unnest(p_ids, p_ends) d(id, ended_at)
    WHERE h.id = ANY (p_ids) AND h.id = d.id AND h.ended_at = d.ended_at
    RETURNING h.seq, h.route, h.state, h.tags, h.id, h.waits, h.durable),
  counted AS (INSERT INTO @state_count SELECT route, state, -count(*) FROM gone GROUP BY route, state),
  deleted AS (
    SELECT @delete_attached_v1(seq, tags, durable),
      CASE WHEN ${isFlow()} THEN id END AS flow FROM gone)
  SELECT count(*), array_agg(flow) FILTER (WHERE flow IS NOT NULL) INTO v_pruned, v_flows FROM deleted;
  IF v_flows IS NOT NULL THEN PERFORM @defer_work_v1(p_now, v_flows); END IF;
  RETURN v_pruned;
END $$;

-- Deletes finished jobs of an outcome without a retention time of their own, in order of seq after p_after. Days that
-- are too young are not read, so the cost depends on the rows that may be deleted, not on the rows that are kept.
CREATE FUNCTION @prune_history_v1(p_now int8, p_commit text, p_state int2, p_queue text, p_except text[],
  p_older int8, p_max int4, p_after int8, OUT pruned int8, OUT more bool, OUT last int8) LANGUAGE plpgsql
  SET plan_cache_mode = force_custom_plan AS $$
DECLARE
  v_now int8 := @begin_v1(p_now, p_commit); v_window int4 := greatest(${windowMin}, p_max * ${windowFactor});
  v_ids text[]; v_ends int8[]; v_seen int8; v_stop int8; v_old int8 := v_now - p_older;
  v_bound int8 := CASE WHEN p_older < ${dayMs} THEN v_old / ${dayMs} + 1 ELSE v_old / ${dayMs} END * ${dayMs};
BEGIN
  PERFORM @make_partitions_v1(v_now);
  pruned := CASE WHEN p_after = 0
    THEN @drop_partition_v1(v_now, p_state, p_queue, p_except, v_old) ELSE 0 END;
  IF pruned > 0 THEN more := true; last := 0; RETURN; END IF;
  -- The plan is made for this p_state: states other than completed have an index of their own.
  SELECT count(*), max(seq) INTO v_seen, v_stop FROM (
    SELECT seq FROM (
      ${oldRows(`(p_state = ${completed} OR state <> ${completed})`)}) h
    ORDER BY seq LIMIT v_window) w;
  IF v_seen > 0 THEN
    SELECT array_agg(id), array_agg(ended_at), max(seq) INTO v_ids, v_ends, last FROM (
      SELECT h.id, h.ended_at, h.seq FROM (
        ${oldRows("seq <= v_stop")}) h
      WHERE h.state = p_state AND h.keep_until IS NULL AND h.keeps_lane = 0 AND h.ended_at <= v_old AND h.route IN (
        SELECT number FROM @route
        WHERE CASE WHEN p_queue IS NULL THEN queue <> ALL (p_except) ELSE queue = p_queue END)
      ORDER BY h.seq LIMIT p_max) d;
  END IF;
  pruned := @delete_finished_v1(v_now, v_ids, v_ends);
  IF pruned < p_max THEN last := v_stop; more := v_seen = v_window; ELSE more := true; END IF;
END $$;

-- Deletes the jobs of a queue and an outcome beyond the newest p_keep, in windows of seqs after p_after; in a window
-- those that ended first. Only one call at a time counts and deletes, because two would both delete the same surplus.
CREATE FUNCTION @prune_surplus_v1(p_now int8, p_commit text, p_state int2, p_queue text, p_keep int8,
  p_max int4, p_after int8, OUT pruned int8, OUT more bool, OUT last int8) LANGUAGE plpgsql
  SET plan_cache_mode = force_custom_plan AS $$
DECLARE
  v_now int8 := @begin_v1(p_now, p_commit); v_window int4 := greatest(${windowMin}, p_max * ${windowFactor});
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
    WHERE seq > p_after AND (p_state = ${completed} OR state <> ${completed}) ORDER BY seq LIMIT v_window) w;
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

-- Deletes finished jobs whose own retention time is over, and results whose time is over.
CREATE FUNCTION @prune_kept_v1(p_now int8, p_commit text, p_max int4, OUT pruned int8, OUT more bool)
  LANGUAGE plpgsql AS $$
DECLARE
  v_now int8 := @begin_v1(p_now, p_commit); v_ids text[]; v_ends int8[]; v_count int8; v_seen int8 := 0;
BEGIN
  pruned := 0;
  ${pruneTimed("keep_until", "v_count := @delete_finished_v1(v_now, v_ids, v_ends);", isKeptForATime)}
  ${pruneTimed("result_until", deleteResults)}
  more := v_seen = p_max;
END $$;

-- Deletes unique keys and documents whose time is over.
CREATE FUNCTION @prune_expired_v1(p_now int8, p_commit text, p_max int4, OUT pruned int8, OUT more bool)
  LANGUAGE plpgsql AS $$
DECLARE v_now int8 := @begin_v1(p_now, p_commit);
BEGIN
  DELETE FROM @uniq WHERE ctid = ANY (ARRAY(
    SELECT ctid FROM @uniq WHERE held_until <= v_now ORDER BY held_until LIMIT p_max FOR UPDATE SKIP LOCKED));
  GET DIAGNOSTICS pruned = ROW_COUNT;
  WITH gone AS (
    DELETE FROM @doc WHERE ctid = ANY (ARRAY(
      SELECT ctid FROM @doc WHERE expires_at <= v_now ORDER BY expires_at LIMIT p_max - pruned
      FOR UPDATE SKIP LOCKED))
    RETURNING version),
  floors AS (INSERT INTO @doc_floor SELECT max(version) FROM gone HAVING count(*) > 0)
  SELECT pruned + count(*) INTO pruned FROM gone;
  more := pruned = p_max;
END $$;

-- Deletes records of the feed that are too old. The newest one stays, because the next number follows from it.
CREATE FUNCTION @prune_feed_v1(p_now int8, p_commit text, p_older int8, p_max int4, OUT pruned int8, OUT more bool)
  LANGUAGE plpgsql SET enable_seqscan = off AS $$
DECLARE v_now int8 := @begin_v1(p_now, p_commit); v_last int8;
BEGIN
  PERFORM @number_feed_v1();
  SELECT max(number) INTO v_last FROM (
    SELECT number, at FROM @feed WHERE number IS NOT NULL ORDER BY number LIMIT p_max) f
  WHERE at <= v_now - p_older AND number < (SELECT max(number) FROM @feed WHERE number IS NOT NULL);
  DELETE FROM @feed WHERE number <= v_last;
  GET DIAGNOSTICS pruned = ROW_COUNT;
  more := pruned = p_max;
  PERFORM @fold_v1();
END $$;

-- Makes partitions for today and the days to come. A day whose rows are already in the default partition stays there;
-- so does every day if the user may not create tables. Only the owner of a table may partition it, so this function and
-- the next run with the rights of the user who migrated, not of the caller.
CREATE FUNCTION @make_partitions_v1(p_now int8) RETURNS void LANGUAGE plpgsql
  SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
DECLARE v_day int8; v_name text;
BEGIN
  FOR v_i IN 0..${daysAhead} LOOP
    v_day := p_now / ${dayMs} + v_i;
    v_name := 'history_' || v_day;
    CONTINUE WHEN to_regclass('@history_' || v_day) IS NOT NULL;
    IF NOT pg_try_advisory_xact_lock(hashtextextended('@partition', 0)) THEN RETURN; END IF;
    CONTINUE WHEN EXISTS (
      SELECT 1 FROM @history_rest WHERE ended_at >= v_day * ${dayMs} AND ended_at < (v_day + 1) * ${dayMs});
    BEGIN
      PERFORM set_config('lock_timeout', '200ms', true);
      EXECUTE format('CREATE TABLE @%I PARTITION OF @history FOR VALUES FROM (%s) TO (%s)',
        v_name, v_day * ${dayMs}, (v_day + 1) * ${dayMs});
      PERFORM set_config('lock_timeout', '0', true);
    EXCEPTION WHEN lock_not_available OR check_violation OR duplicate_table OR insufficient_privilege THEN
      RETURN;
    END;
  END LOOP;
END $$;

-- Drops the oldest day that ended before p_before if nearly all of it may be deleted; answers how many rows were
-- deleted.
CREATE FUNCTION @drop_partition_v1(p_now int8, p_state int2, p_queue text, p_except text[], p_before int8)
  RETURNS int8 LANGUAGE plpgsql
  SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
DECLARE v_name text; v_rows int8; v_stay int8;
BEGIN
  IF p_queue IS NOT NULL THEN RETURN 0; END IF;
  FOR v_name IN
    SELECT c.relname FROM pg_catalog.pg_inherits i JOIN pg_catalog.pg_class c ON c.oid = i.inhrelid
    WHERE i.inhparent = '@history'::regclass AND c.relname ~ '^history_[0-9]+$'
      AND (substr(c.relname, 9)::int8 + 1) * ${dayMs} <= p_before
    ORDER BY substr(c.relname, 9)::int8 LIMIT 2
  LOOP
    EXECUTE format($sql$
      SELECT count(*), count(*) FILTER (WHERE NOT (
        ${mayGo})) FROM @%I h$sql$, v_name)
    INTO v_rows, v_stay USING p_state, p_except;
    CONTINUE WHEN v_rows > 0 AND (v_rows < ${dropMin} OR v_stay > v_rows / 4);
    BEGIN
      PERFORM set_config('lock_timeout', '500ms', true);
      EXECUTE format('ALTER TABLE @history DETACH PARTITION @%I', v_name);
      PERFORM set_config('lock_timeout', '0', true);
    EXCEPTION WHEN lock_not_available OR insufficient_privilege THEN
      RETURN 0;
    END;
    EXECUTE format($sql$
      INSERT INTO @history SELECT h.* FROM @%I h WHERE NOT (
        ${mayGo})$sql$, v_name)
    USING p_state, p_except;
    EXECUTE format($sql$
      SELECT @defer_work_v1($3, array_agg(h.id)) FROM @%I h
      WHERE
        ${mayGo}
        AND ${isFlow("h.")} HAVING count(*) > 0$sql$, v_name)
    USING p_state, p_except, p_now;
    EXECUTE format($sql$
      WITH gone AS MATERIALIZED (
        SELECT h.seq, h.route, h.state, h.tags, h.durable, h.input FROM @%I h
        WHERE
          ${mayGo}),
      counted AS (INSERT INTO @state_count SELECT route, state, -count(*) FROM gone GROUP BY route, state),
      lines AS (DELETE FROM @journal t USING gone g WHERE t.seq = g.seq),
      entries AS (DELETE FROM @entry t USING gone g WHERE g.durable <> 0 AND t.seq = g.seq),
      slips AS (DELETE FROM @slip t USING gone g WHERE g.durable <> 0 AND t.seq = g.seq),
      large AS (DELETE FROM @payload p USING gone g WHERE g.input IS NULL AND p.seq = g.seq)
      DELETE FROM @tag t USING gone g
      WHERE g.tags IS NOT NULL AND t.seq = g.seq AND t.tag = ANY (@tags_of_v1(g.tags))$sql$, v_name)
    USING p_state, p_except;
    EXECUTE format('DROP TABLE @%I', v_name);
    IF v_rows - v_stay > 0 THEN RETURN v_rows - v_stay; END IF;
  END LOOP;
  RETURN 0;
END $$;
`;
