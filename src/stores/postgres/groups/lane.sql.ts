/**
 * What a change of a job means for its lane (store/rules/gates/lane-change.ts), by appends alone: a row of permit for
 * each gate of a key that it holds, and rows of lane_change for each lane whose ready jobs have changed and each gate
 * whose permits have. The next claim applies these rows (lanes.sql.ts). So nothing here waits for other calls, even
 * inside the caller's own transaction.
 *
 * Claims of lanes run one after the other inside a scope. A scope is a queue, with its lanes and their turns, or a
 * limit, whose keys several queues may share. A claim locks the scopes of its queues in one order, before it looks and
 * until its commit. So does every other call that writes lanes or puts the gate of a key. The scope of a queue has the
 * name of the gate of its groups, so the scope of a key is always the part before the key.
 */
import { stateCodes } from "../../../model/job/job-state.ts";
import { foreverMs } from "../../../model/limits/gate.ts";
import { groupGateKey } from "../../../model/routing/lane.ts";
import { sql } from "../../../store/sql.ts";

const { ready, running } = stateCodes;

/** The most lanes or gates in one row of lane_change: a claim bounds its work by the number of rows. */
const changesPerRowMax = 100;

export const scopeOfQueue = (queue: string): string => `'${groupGateKey("")}' || ${queue}`;
export const scopeOfKey = (key: string): string => sql`split_part(${key}, E'\\t', 1)`;
export const laneLock = (scope: string): string => sql`hashtextextended('@lane' || ${scope}, 0)`;

/** The known scopes of these queues: the queues themselves, and the limits whose keys their jobs take. */
export const scopesOf = (queues: string): string => sql`
  SELECT ${scopeOfQueue("q")} AS scope FROM unnest(${queues}) q
  UNION SELECT scope FROM @lane_scope WHERE queue = ANY (${queues})`;

/** Whether a gate is that of a key of a limit or a group: its own key then contains a tab. */
export const isOfKey = "key LIKE E'%\\t%'";

/** The gates of keys in a job's list (writeKeyUse in model/routing/lane.ts), as rows u. */
export const keyUses = (gates: string): string => sql`
  (SELECT substr(t, length(split_part(t, ':', 1)) + length(split_part(t, ':', 2)) + 3) AS key,
    split_part(t, ':', 1)::int8 AS weight, nullif(split_part(t, ':', 2), '')::int8 AS cap
    FROM jsonb_array_elements_text(${gates}::jsonb) t) u`;

/**
 * Finds the row with this key by its index, whatever the statistics say: these tables are empty at one time and full at
 * another.
 */
export const byKey = (table: string, key: string, name: string, condition = "true"): string => sql`
  LEFT JOIN LATERAL (
    SELECT * FROM @${table} r
    WHERE r.key = ${key}
      AND ${condition} OFFSET 0) ${name} ON true`;

const limitOf = scopeOfKey("k.key");
const hasOwnTime = sql`
  (o.closed_until IS NOT NULL OR o.step_us IS NOT NULL
    OR m.key_step_us IS NOT NULL)`;

interface KeySources {
  readonly held: string;
  /** Joins o, the key's own gate, m, that of its limit, and t, its clock. */
  readonly joins: string;
}

const eachByKey: KeySources = {
  held: "(SELECT coalesce(sum(p.weight), 0)::int8 FROM @permit p WHERE p.key = k.key)",
  joins: sql`
    ${byKey("gate", "k.key", "o")}
    ${byKey("gate", limitOf, "m")}
    ${byKey("key_clock", "k.key", "t")}`,
};

/** The present state of gates of keys, whether they were put or not. `keys`: rows k with a key. */
export const keyStates = (keys: string, { held, joins } = eachByKey): string => sql`
  SELECT k.key, ${held} AS held,
    coalesce(o.cap, m.key_cap) AS cap,
    CASE WHEN o.step_us IS NULL THEN m.key_step_us ELSE o.step_us END AS step_us,
    CASE WHEN o.step_us IS NULL THEN m.key_burst_us ELSE o.burst_us END AS burst_us,
    coalesce(t.tat_us, 0) AS tat_us, o.closed_until
  FROM ${keys}
    ${joins}`;

/**
 * The same for many keys at once, as a claim needs it. Permits and limits are read as sets, the gate of a key only if
 * any was put, and a clock only if one of the gates has any. Table `keys`: a column key, each once.
 */
export const manyKeyStates = keyStates("keys k", {
  held: "coalesce(p.held, 0)",
  joins: sql`
    LEFT JOIN (
      SELECT p.key, sum(p.weight::float8)::int8 AS held FROM @permit p
      WHERE p.key = ANY (ARRAY(SELECT key FROM keys)) GROUP BY p.key) p ON p.key = k.key
    LEFT JOIN (
      SELECT * FROM @gate WHERE key = ANY (ARRAY(SELECT DISTINCT ${limitOf} FROM keys k))) m
      ON m.key = ${limitOf}
    ${byKey("gate", "k.key", "o", sql`(SELECT EXISTS (SELECT 1 FROM @gate WHERE ${isOfKey}))`)}
    ${byKey("key_clock", "k.key", "t", hasOwnTime)}`,
});

/** How many permits the clock of gate g lets pass, whatever jobs hold; null for any number. */
export const timeLeft = (now: string): string => sql`
  CASE WHEN g.closed_until > ${now} THEN 0
    WHEN g.step_us IS NOT NULL THEN
      greatest(0, floor(
        (${now} * 1000 + g.burst_us - greatest(g.tat_us, ${now} * 1000)) / g.step_us)) END`;

/** When the clock of gate g lets this many pass, after `passed` have; null if the clock does not hold them back. */
export const opensAfter = (passed: string, permits: string, now: string): string => sql`
  CASE WHEN g.closed_until IS DISTINCT FROM ${foreverMs} THEN (
    SELECT at FROM (
      SELECT greatest(g.closed_until, ceil((
        CASE WHEN ${passed} > 0
          THEN greatest(g.tat_us, ${now} * 1000) + ${passed} * g.step_us ELSE g.tat_us END
          + ${permits} * g.step_us - g.burst_us) / 1000))::int8 AS at) o
    WHERE at > ${now}) END`;

/** Cuts the rows of a list n into parts of one scope that are small enough for one row of lane_change. */
const parts = (rows: string): string => sql`
  (SELECT scope, item, row_number() OVER (PARTITION BY scope) AS number FROM (
    ${rows}) d) n
  GROUP BY scope, (number - 1) / ${changesPerRowMax}`;

export const laneRuleSql = sql`
-- The first jobs of these lanes may have changed. p_routes: for each lane the route of a job in it; one route if it is
-- the same for all. p_reopened: the first job may need other gates than before, so the lane does not wait any more.
CREATE FUNCTION @lanes_changed_v1(p_lanes text[], p_routes int8[], p_reopened bool) RETURNS void
  LANGUAGE plpgsql AS $$
BEGIN
  WITH queues AS MATERIALIZED (SELECT DISTINCT number, queue FROM @route WHERE number = ANY (p_routes))
  INSERT INTO @lane_change (scope, lanes, is_reopened)
  SELECT scope, array_agg(item), p_reopened FROM
    ${parts(sql`
      SELECT DISTINCT ${scopeOfQueue("coalesce(q.queue, '')")} AS scope, l.lane AS item
      FROM unnest(p_lanes, p_routes) l(lane, route)
        LEFT JOIN queues q ON q.number = coalesce(l.route, p_routes[1])
      WHERE l.lane IS NOT NULL`)};
END $$;

-- The number of permits that these gates of keys let pass may have changed.
CREATE FUNCTION @gates_changed_v1(p_gates text[]) RETURNS void LANGUAGE plpgsql AS $$
BEGIN
  INSERT INTO @lane_change (scope, gates)
  SELECT scope, array_agg(item) FROM
    ${parts(sql`SELECT ${scopeOfKey("g")} AS scope, g AS item FROM unnest(p_gates) g`)};
END $$;

-- Locks the scopes of these queues. is_busy: not all of them are locked, because another call holds one for too long,
-- or because jobs have begun to use a limit that was not known before. p_waits: whether to wait for another call.
CREATE FUNCTION @lock_scopes_v1(p_queues text[], p_waits bool, OUT scopes text[], OUT is_busy bool)
  LANGUAGE plpgsql AS $$
DECLARE v_locks int8[];
BEGIN
  SELECT array_agg(s.scope ORDER BY l.lock), array_agg(l.lock ORDER BY l.lock) INTO scopes, v_locks
  FROM (
    ${scopesOf("p_queues")}) s
    CROSS JOIN LATERAL (SELECT ${laneLock("s.scope")} AS lock) l;
  FOR v_i IN 1..coalesce(cardinality(v_locks), 0) LOOP
    is_busy := NOT (pg_try_advisory_xact_lock(v_locks[v_i])
      OR (p_waits AND @wait_gate_v1(v_locks[v_i], false)));
    IF is_busy THEN RETURN; END IF;
  END LOOP;
  is_busy := EXISTS (SELECT 1 FROM @lane_scope o WHERE o.queue = ANY (p_queues) AND o.scope <> ALL (scopes));
END $$;

-- A job with a lane before and after a change; p_kept: the job is still there after it.
CREATE FUNCTION @move_lane_v1(p_from @waiting, j @waiting, p_kept bool) RETURNS void LANGUAGE plpgsql AS $$
DECLARE
  v_gates text[]; v_held bool := p_from.state = ${running} OR p_from.keeps_lane = 1;
  v_keeps bool := p_kept AND j.keeps_lane = 1;
BEGIN
  IF v_held AND NOT (p_kept AND j.state = ${running}) THEN
    WITH returned AS (DELETE FROM @permit WHERE seq = j.seq AND NOT (is_own AND v_keeps) RETURNING key)
    SELECT array_agg(key) INTO v_gates FROM returned;
    IF v_gates IS NOT NULL THEN PERFORM @gates_changed_v1(v_gates); END IF;
  ELSIF v_keeps AND NOT v_held AND j.lane_gates IS NOT NULL THEN
    INSERT INTO @permit
    SELECT u.key, j.seq, u.weight, true FROM
      ${keyUses("j.lane_gates")}
    WHERE u.cap IS NOT NULL;
  END IF;
  IF p_from.state = ${ready} OR (p_kept AND j.state = ${ready}) THEN
    PERFORM @lanes_changed_v1(ARRAY[p_from.lane_key, j.lane_key], ARRAY[p_from.route, j.route],
      p_from.lane_gates IS DISTINCT FROM j.lane_gates);
  END IF;
END $$;

-- These jobs have left \`running\`. Answers the keys of limits that they held.
CREATE FUNCTION @return_permits_v1(p_seqs int8[]) RETURNS text[] LANGUAGE plpgsql AS $$
DECLARE v_gates text[]; v_limits text[];
BEGIN
  WITH returned AS (DELETE FROM @permit WHERE seq = ANY (p_seqs) RETURNING key, is_own)
  SELECT array_agg(key), array_agg(DISTINCT key) FILTER (WHERE NOT is_own) INTO v_gates, v_limits FROM returned;
  PERFORM @gates_changed_v1(v_gates);
  RETURN v_limits;
END $$;

-- The argument for lane_hints_v1, taken of one job before it is changed; null if the job holds nothing.
CREATE FUNCTION @leaves_v1(j @waiting) RETURNS jsonb LANGUAGE sql STABLE AS $$
  SELECT CASE WHEN j.state = ${running} OR j.keeps_lane = 1 THEN jsonb_build_object(
    'lane', j.lane_key, 'limits', ARRAY(SELECT key FROM @permit WHERE seq = j.seq AND NOT is_own)) END
$$;

-- The routes that may go on after jobs of these lanes have left, which held these keys of limits. It is read without a
-- lock, so it may answer too many.
CREATE FUNCTION @lane_hints_v1(p_lanes text[], p_limits text[]) RETURNS int8[] LANGUAGE sql STABLE
  SET enable_nestloop = on AS $$
  SELECT ARRAY(
    SELECT route FROM @lane WHERE key = ANY (p_lanes) AND route IS NOT NULL
    UNION SELECT w.route FROM unnest(p_limits) k
      CROSS JOIN LATERAL (SELECT route FROM @lane WHERE waits_at = k LIMIT 10) w)
$$;
`;
