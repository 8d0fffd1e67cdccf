/**
 * Rule R4 (store/rules/flow/arrive.ts): the end of a member goes along its edges and arrives at its targets. It frees
 * them, or shows that they can never be freed. One function serves one member and many that end in one call: arrivals
 * at one target are summed up, and each target is written once. arrive-in-order.sql.ts does the targets for which the
 * order of the ends matters.
 *
 * Targets are locked by id before any of them is counted, so that two calls with the same targets wait only at the
 * first of them. If a row moves while a call waits for it, the call looks for it again, so that an edit of a target
 * loses no arrival.
 */
import { eventCodes } from "../../../model/events/event-kind.ts";
import { stateCodes, terminalStates } from "../../../model/job/job-state.ts";
import { deferredKind } from "../../../store/rules/flow/arrive.ts";
import { fieldEnd } from "../functions/packed-values.ts";
import { byIndex, byKeys } from "../functions/call.sql.ts";
import { edgeCount, isMember, passedOf, targetOf, withPassed } from "./member.sql.ts";
import { stateSql } from "../jobs/place.sql.ts";
import { brief, emitSet } from "../feed/emit.sql.ts";
import { sql } from "../../../store/sql.ts";

const { scheduled, ready, blocked, running, completed } = stateCodes;

/** 1 if the letter at this place of an edge, a digit of base 32, has the bit of an end, else 0. */
export const bitAt = (edge: string, at: 1 | 2, ended: string): string =>
  `((((ascii(substr(${edge}, ${at}, 1)) - ascii('0')) % 39) >> (${ended} - ${completed})) & 1)`;

/** How many of the ends that came to a flow were in each terminal state. */
const ends = terminalStates
  .map((state) => sql`coalesce(sum(times) FILTER (WHERE ended = ${stateCodes[state]}), 0)`)
  .join(",\n");

const isBlocked = `state = ${blocked}`;

/** Locks these rows and adds them to the targets. `place`: where the row lies, if it is written by its place. */
const collect = (table: string, place: string, which: string, where = "true"): string => sql`
  SELECT t_place || array_agg(place), t_id || array_agg(id), t_waits || array_agg(waits),
    t_freed || array_agg(freed), t_state || array_agg(state)
  INTO t_place, t_id, t_waits, t_freed, t_state FROM (
    SELECT ${place} AS place, id, waits, freed, state FROM @${table}
    WHERE id = ANY (${which}) AND ${where} ORDER BY id FOR UPDATE) t;`;

/**
 * The targets of these members' edges and what arrives there: the next p_max edges of each member, and whether more are
 * left.
 */
const comings = (members: string, own: string): string => sql`
  SELECT ${own}, e.o, e.o > coalesce(m.passed, 0) + p_max AS is_left,
    ${targetOf("m.flow", "e.edge")} AS id,
    CASE WHEN length(e.edge) = 2 THEN m.state END AS ended,
    ${bitAt("e.edge", 1, "m.state")} AS meets,
    ${bitAt("e.edge", 2, "m.state")} AS misses
  FROM
    ${members}
    CROSS JOIN LATERAL jsonb_array_elements_text(m.edges::jsonb) WITH ORDINALITY e(edge, o)
  WHERE e.o > coalesce(m.passed, 0) AND e.o <= coalesce(m.passed, 0) + p_max + 1`;
const inOrder = comings(
  "unnest(p_places, p_flows, p_edges, p_states, p_passed) m(place, flow, edges, state, passed)",
  "m.place",
);
/** Members that are alike are taken once for all of them: usually those of a node that fans out. */
const inGroups = comings(
  sql`
    (SELECT flow, edges, state, passed, count(*) AS times
      FROM unnest(p_flows, p_edges, p_states, p_passed) m(flow, edges, state, passed) GROUP BY 1, 2, 3, 4) m`,
  "m.times",
);
const came = ["id", "ended", "meets", "misses"]
  .map((name) => sql`array_agg(${name}) FILTER (WHERE NOT is_left)`)
  .join(",\n");

/** Frees targets and places them as their column `freed` says, which is v_how; w is what they wait for now. */
const declareFreed = sql`
  v_how text[]; v_due int8; v_ttl int8; v_state int2; v_count int4; v_ids text; l_route int8[]; l_rev int4[];
  l_attempt int4[]; v_lanes text[]; v_lane_routes int8[]; v_events text;`;
const freeRows = (which: string): string => sql`
  v_due := CASE left(v_how[1], 1) WHEN '@' THEN 0 ELSE p_now END + substr(v_how[1], 2)::int8;
  v_ttl := v_due + nullif(v_how[4], '')::int8;
  v_state := ${stateSql("v_due", "p_now")};
  WITH placed AS (
    UPDATE @waiting SET waits = array_to_string(w, ','), state = v_state, rev = rev + 1, due_at = v_due,
      rank = v_how[2]::int8 + v_how[3]::int8 * v_due, ttl_at = v_ttl,
      timer_at = least(CASE v_state WHEN ${scheduled} THEN v_due END, deadline_at, v_ttl)
    WHERE ${which}
    RETURNING id, route, rev, attempt, lane_key)
  SELECT count(*), string_agg(id, ${fieldEnd}),
    ${brief("route")},
    ${brief("rev")},
    ${brief("attempt")},
    array_agg(lane_key) FILTER (WHERE lane_key IS NOT NULL), array_agg(route) FILTER (WHERE lane_key IS NOT NULL)
  INTO v_count, v_ids, l_route, l_rev, l_attempt, v_lanes, v_lane_routes FROM placed;
  ${emitSet({
    kind: `${eventCodes.freed}`,
    from: `${blocked}`,
    to: "v_state",
    extra: sql`CASE v_state WHEN ${scheduled} THEN 'n' || v_due ELSE '' END`,
  })}
  events := @append_events_v1(events, v_events);
  IF v_lanes IS NOT NULL AND v_state = ${ready} THEN
    PERFORM @lanes_changed_v1(v_lanes, v_lane_routes, NULL);
  END IF;`;

/** If one member has at least this many targets, it is worth checking whether all of them are alike. */
const manyTargets = 16;

export const arriveSql = sql`
-- Leaves deferred work under these ids, for each of them as often as it is named: put_doc_v1 without a guard, over a
-- set.
CREATE FUNCTION @defer_work_v1(p_now int8, p_ids text[]) RETURNS void LANGUAGE plpgsql AS $$
DECLARE v_floor int8 := coalesce((SELECT max(f.version) FROM @doc_floor f), 0);
BEGIN
  INSERT INTO @doc AS d (kind, id, version, body, due_at)
  SELECT '${deferredKind}', o.id, v_floor + count(*), E'\\x01e', p_now
  FROM unnest(p_ids) o(id) GROUP BY o.id ORDER BY o.id
    ON CONFLICT (kind, id) DO UPDATE SET version = d.version + excluded.version - v_floor, body = excluded.body,
      due_at = excluded.due_at, expires_at = NULL;
  -- As in put_doc_v1: the versions of a document that was deleted meanwhile are below the floor by now.
  SELECT max(f.version) INTO v_floor FROM @doc_floor f WHERE f.version > v_floor;
  IF v_floor IS NOT NULL THEN
    UPDATE @doc d SET version = v_floor + 1
    WHERE d.kind = '${deferredKind}' AND d.id = ANY (p_ids) AND d.version <= v_floor;
  END IF;
END $$;

-- One end meets each of these targets. If all of them wait for nothing else and are alike (is_alike), they are freed
-- where they lie, in the order of their ids. left: those that have moved since they were read.
CREATE FUNCTION @free_many_v1(p_now int8, p_ids text[], OUT is_alike bool, OUT events text, OUT left text[])
  LANGUAGE plpgsql
  ${byIndex} AS $$
#variable_conflict use_column
DECLARE
  v_seen record; w int8[];
  ${declareFreed}
BEGIN
  SELECT count(*) AS jobs, count(freed) AS places, min(waits) AS waits, max(waits) AS last_waits,
    min(freed) AS freed, max(freed) AS last_freed
  INTO v_seen FROM @waiting WHERE id = ANY (p_ids) AND ${isBlocked};
  w := string_to_array(v_seen.waits, ',');
  is_alike := v_seen.places = cardinality(p_ids) AND v_seen.jobs = v_seen.places
    AND v_seen.waits = v_seen.last_waits AND v_seen.freed = v_seen.last_freed
    AND w[1] = 1 AND w[2] >= 0 AND w[4] <> 1 AND cardinality(w) = 4;
  IF NOT is_alike THEN RETURN; END IF;
  w[1] := 0;
  v_how := string_to_array(v_seen.freed, ',');
  ${freeRows(sql`id = ANY (p_ids) AND ${isBlocked} AND waits = v_seen.waits AND freed = v_seen.freed`)}
  IF v_count < cardinality(p_ids) THEN
    "left" := ARRAY(
      SELECT unnest(p_ids) EXCEPT SELECT unnest(string_to_array(v_ids, ${fieldEnd})));
  END IF;
END $$;

-- The ends of these members go along p_max edges each after p_passed (null: from the first one on), in order of
-- p_places. events: of the jobs that were freed. defers: deferred work was left.
CREATE FUNCTION @arrive_v1(p_now int8, p_places int4[], p_ids text[], p_flows text[], p_edges text[], p_states int2[],
  p_passed int4[], p_max int4, OUT events text, OUT defers bool) LANGUAGE plpgsql
  ${byKeys} AS $$
#variable_conflict use_column
DECLARE
  g_id text[]; g_ended int2[]; g_meets int4[]; g_misses int4[]; g_times int8[]; v_asked text[];
  v_flows text[] := p_flows; v_left text[]; v_deferred text[]; v_is_left bool;
  t_place tid[]; t_id text[]; t_waits text[]; t_freed text[]; t_state int2[]; v_target record; w int8[];
  v_is_met bool; v_ordered text[]; v_judged record;
  v_is_one bool := cardinality(p_ids) = 1; v_are_met bool; v_own int4; v_many record;
  ${declareFreed}
BEGIN
  -- If a member has more edges, the first one that is left is also read: it shows that work has to be deferred.
  IF v_is_one THEN
    SELECT ${came},
      bool_or(is_left), bool_and(meets = 1 AND misses = 0) FILTER (WHERE ended IS NULL)
    INTO g_id, g_ended, g_meets, g_misses, v_is_left, v_are_met FROM (
      ${inOrder}
      ORDER BY m.place, e.o) g;
  ELSE
    SELECT ${came},
      array_agg(times) FILTER (WHERE NOT is_left), bool_or(is_left)
    INTO g_id, g_ended, g_meets, g_misses, g_times, v_is_left FROM (
      ${inGroups}) g;
  END IF;
  IF v_is_left THEN
    v_deferred := ARRAY(
      SELECT m.id FROM unnest(p_ids, p_edges, p_passed) m(id, edges, passed)
      WHERE ${edgeCount("m.")} > coalesce(m.passed, 0) + p_max);
  END IF;
  IF v_are_met AND cardinality(g_id) >= ${manyTargets} THEN
    -- The flow is locked before its members, because it comes before them in the order of ids. Its edge is the first
    -- one.
    v_own := count(*) FROM unnest(g_ended) e WHERE e IS NOT NULL;
    IF v_own > 0 THEN PERFORM 1 FROM @waiting WHERE id = p_flows[1] FOR UPDATE; END IF;
    SELECT * INTO v_many FROM @free_many_v1(p_now, g_id[v_own + 1:]);
    IF v_many.is_alike THEN
      events := v_many.events;
      v_left := coalesce(v_many.left, '{}');
      g_id := g_id[:v_own] || v_left;
      g_ended := g_ended[:v_own] || array_fill(NULL::int2, ARRAY[cardinality(v_left)]);
      g_meets := g_meets[:cardinality(g_id)];
      g_misses := g_misses[:v_own] || array_fill(0, ARRAY[cardinality(v_left)]);
    END IF;
  END IF;
  v_asked := g_id;
  FOR i IN 1..50 LOOP
    EXIT WHEN coalesce(cardinality(v_asked), 0) = 0;
    ${collect("waiting", "ctid", "v_asked", isBlocked)}
    -- Usually each target is named once and is found, so one pass is enough.
    EXIT WHEN cardinality(t_id) = cardinality(g_id);
    v_left := ARRAY(SELECT unnest(v_asked) EXCEPT SELECT unnest(t_id));
    EXIT WHEN v_left = '{}';
    v_flows := ARRAY(SELECT unnest(v_flows) INTERSECT SELECT unnest(v_left));
    IF v_flows <> '{}' THEN
      ${collect("history", "NULL::tid", "v_flows")}
      v_left := ARRAY(SELECT unnest(v_left) EXCEPT SELECT unnest(t_id));
    END IF;
    EXIT WHEN NOT EXISTS (SELECT 1 FROM @waiting WHERE id = ANY (v_left) AND ${isBlocked})
      AND NOT EXISTS (SELECT 1 FROM @history WHERE id = ANY (v_left) AND id = ANY (v_flows));
    IF i = 50 THEN
      RAISE EXCEPTION 'millrace: what the end of a member leads to moves too fast' USING ERRCODE = '40001';
    END IF;
    v_asked := v_left;
  END LOOP;

  -- Targets that are alike and have the same arrivals are written and emitted together.
  FOR v_target IN
    SELECT t.waits, t.freed, t.state, c.met, c.missed, c.ends, array_agg(t.id) AS ids, array_agg(t.place) AS places
    FROM (
      SELECT id, sum(meets * times) AS met, sum(misses * times) AS missed,
        CASE WHEN count(ended) > 0 THEN ARRAY[
          ${ends}] END AS ends
      FROM (
        SELECT id, ended, meets, misses, coalesce(times, 1) AS times
        FROM unnest(g_id, g_ended, g_meets, g_misses, g_times) g(id, ended, meets, misses, times)) g
      GROUP BY id) c
      JOIN unnest(t_place, t_id, t_waits, t_freed, t_state) t(place, id, waits, freed, state) ON t.id = c.id
    GROUP BY 1, 2, 3, 4, 5, 6
  LOOP
    w := string_to_array(v_target.waits, ',');
    -- If some ends miss it, or more come than it needs, their order matters.
    IF v_target.state <> ${blocked} OR v_target.missed > 0 OR (w[1] > 0 AND w[1] < v_target.met) THEN
      v_ordered := v_ordered || v_target.ids;
      CONTINUE;
    END IF;
    v_is_met := w[1] > 0 AND w[1] = v_target.met;
    IF v_is_met AND w[4] = 1 THEN v_deferred := v_deferred || v_target.ids; END IF;
    w[1] := w[1] - v_target.met;
    IF v_target.ends IS NOT NULL AND cardinality(w) > 4 THEN
      FOR i IN 1..${terminalStates.length} LOOP w[5 + i] := w[5 + i] + v_target.ends[i]; END LOOP;
    END IF;
    IF NOT v_is_met OR v_target.freed IS NULL OR w[2] < 0 THEN
      UPDATE @waiting SET waits = array_to_string(w, ',') WHERE ctid = ANY (v_target.places);
      CONTINUE;
    END IF;
    v_how := string_to_array(v_target.freed, ',');
    ${freeRows("ctid = ANY (v_target.places)")}
  END LOOP;
  IF v_ordered IS NOT NULL THEN
    IF NOT v_is_one THEN
      SELECT ${came}
      INTO g_id, g_ended, g_meets, g_misses FROM (
        ${inOrder}
        ORDER BY m.place, e.o) g;
    END IF;
    SELECT * INTO v_judged FROM @arrive_in_order_v1(p_now, v_ordered, g_id, g_ended, g_meets, g_misses,
      t_place, t_id, t_waits, t_freed, t_state);
    events := @append_events_v1(events, v_judged.events);
    v_deferred := v_deferred || v_judged.deferred;
  END IF;
  defers := cardinality(v_deferred) > 0;
  IF defers THEN PERFORM @defer_work_v1(p_now, v_deferred); ELSE defers := false; END IF;
END $$;

-- The end of a finished member, whose row the caller has locked, goes along its next p_max edges.
CREATE FUNCTION @pass_on_v1(p_now int8, p_id text, p_max int4, OUT events text, OUT defers bool) LANGUAGE plpgsql AS $$
#variable_conflict use_column
DECLARE j @waiting; v_passed int4; v_edges int4;
BEGIN
  defers := false;
  SELECT * INTO j FROM @history WHERE id = p_id;
  IF NOT FOUND OR NOT ${isMember("j.")} THEN RETURN; END IF;
  v_passed := ${passedOf("j.")};
  v_edges := ${edgeCount("j.")};
  IF v_passed >= v_edges THEN RETURN; END IF;
  UPDATE @history SET waits = ${withPassed("least(v_edges, v_passed + p_max)")}
    WHERE id = p_id AND ended_at = j.ended_at;
  SELECT a.events, a.defers INTO events, defers FROM @arrive_v1(p_now, '{1}', ARRAY[j.id], ARRAY[j.flow],
    ARRAY[j.edges], ARRAY[j.state], ARRAY[v_passed], p_max) a;
END $$;

-- A member that had ended as j says comes back: its flow counts it as live again.
CREATE FUNCTION @depart_v1(p_now int8, j @waiting) RETURNS void LANGUAGE plpgsql AS $$
DECLARE
  f @waiting := @lock_job_v1(p_now, j.flow); w int8[] := string_to_array(f.waits, ',')::int8[];
  v_edge text := j.edges::jsonb->>0; v_at int4 := 6 + j.state - ${completed};
BEGIN
  IF w IS NULL THEN RETURN; END IF;
  w[1] := w[1] + ${bitAt("v_edge", 1, "j.state")};
  w[2] := w[2] + ${bitAt("v_edge", 2, "j.state")};
  IF array_length(w, 1) > 4 THEN w[v_at] := w[v_at] - 1; END IF;
  PERFORM @set_waits_v1(f, array_to_string(w, ','));
END $$;

-- Writes what a job waits for, and nothing else of it. The caller has locked its row.
CREATE FUNCTION @set_waits_v1(j @waiting, p_waits text) RETURNS void LANGUAGE plpgsql AS $$
BEGIN
  IF j.state = ${running} THEN UPDATE @leased SET waits = p_waits WHERE id = j.id;
  ELSIF j.state < ${completed} THEN UPDATE @waiting SET waits = p_waits WHERE id = j.id;
  ELSE UPDATE @history SET waits = p_waits WHERE id = j.id AND ended_at = j.ended_at; END IF;
END $$;
`;
