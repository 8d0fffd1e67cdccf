/**
 * Rule R4 (store/rules/arrive.ts): the end of a member goes along its edges and arrives at others, which it frees, or of
 * which it makes known that they never can be. One function for one member and for many that end in one call: what
 * arrives at one target is summed up in order, and each target is written once.
 *
 * Targets are locked by id before any of them is counted, so that two calls with the same targets wait at the first of
 * them and for nothing else. A row that moves while it is waited for is looked for again: no arrival may be lost to an
 * edit of its target.
 */
import { eventCodes } from "../../../../model/event-kind.ts";
import { stateCodes, terminalStates } from "../../../../model/job-state.ts";
import { owedKind } from "../../../../store/rules/arrive.ts";
import { fieldEnd, itemEnd } from "../../text.ts";
import { byKeys } from "../call.ts";
import { waitingTimer } from "./advance.ts";
import { touchKeysMax } from "./lane.ts";
import { edgeCount, isMember, passedOf, targetOf, withPassed } from "./member.ts";
import { stateSql } from "./place.ts";
import { groupedEvents } from "./tell.ts";

const { scheduled, ready, blocked, running, completed } = stateCodes;

/** 1 where the letter of an edge at this place has the bit of an end, else 0. */
export const bitAt = (edge: string, at: 1 | 2, ended: string): string =>
  `(((strpos('0123456789abcdefghijklmnopqrstuv', substr(${edge}, ${at}, 1)) - 1) >> (${ended} - ${completed})) & 1)`;

/** How many of the ends that came to a flow were in each terminal state. */
const ends = terminalStates.map((state) => ({
  name: `n_${state}`,
  count: `count(*) FILTER (WHERE ended = ${stateCodes[state]})`,
}));
const newEnds = ends.map(({ name }, at) => `w[${at + 6}] + ${name}`).join(", ");

/** Locks these rows and takes them among the targets. `place`: where a row lies, for one that is written by its place. */
const collect = (table: string, place: string, which: string, more = ""): string => `
    SELECT t_place || array_agg(place), t_id || array_agg(id), t_waits || array_agg(waits), t_freed || array_agg(freed), t_state || array_agg(state)
      INTO t_place, t_id, t_waits, t_freed, t_state
      FROM (SELECT ${place} AS place, id, waits, freed, state FROM @${table} WHERE id = ANY (${which})${more} ORDER BY id FOR UPDATE) t;`;
const isBlocked = ` AND state = ${blocked}`;

export const arriveSql = `
-- Owed work under these ids, each of them as often as it is named: put_doc_v1 without a guard, over a set.
CREATE FUNCTION @owe_v1(p_now int8, p_ids text[]) RETURNS void LANGUAGE plpgsql AS $$
DECLARE v_floor int8 := coalesce((SELECT max(f.version) FROM @doc_floor f), 0);
BEGIN
  INSERT INTO @doc AS d (kind, id, version, body, due_at)
  SELECT '${owedKind}', o.id, v_floor + count(*), E'\\x01e', p_now FROM unnest(p_ids) o(id) GROUP BY o.id ORDER BY o.id
    ON CONFLICT (kind, id) DO UPDATE SET version = d.version + excluded.version - v_floor, body = excluded.body, due_at = excluded.due_at, expires_at = NULL;
  -- As in put_doc_v1: what was given to one that is gone since is below the floor by now.
  SELECT max(f.version) INTO v_floor FROM @doc_floor f WHERE f.version > v_floor;
  IF v_floor IS NOT NULL THEN
    UPDATE @doc d SET version = v_floor + 1 WHERE d.kind = '${owedKind}' AND d.id = ANY (p_ids) AND d.version <= v_floor;
  END IF;
END $$;

-- The ends of these members go along p_max edges each behind p_passed (null: from the first one on), in order of
-- p_places. events: of what was freed. owes: owed work was left.
CREATE FUNCTION @arrive_v1(p_now int8, p_places int4[], p_ids text[], p_flows text[], p_edges text[], p_states int2[], p_passed int4[], p_max int4,
  OUT events text, OUT owes bool) LANGUAGE plpgsql ${byKeys} AS $$
#variable_conflict use_column
DECLARE
  g_id text[]; g_ended int2[]; g_meets int4[]; g_misses int4[]; v_asked text[]; v_flows text[] := p_flows; v_left text[]; v_owed text[]; v_rest text[];
  t_place tid[]; t_id text[]; t_waits text[]; t_freed text[]; t_state int2[]; h_id text[]; h_waits text[];
BEGIN
  -- Of a member with more edges the first one of the rest is seen, too: it tells that they are owed.
  SELECT array_agg(id) FILTER (WHERE NOT is_rest), array_agg(ended) FILTER (WHERE NOT is_rest), array_agg(meets) FILTER (WHERE NOT is_rest),
      array_agg(misses) FILTER (WHERE NOT is_rest), array_agg(member) FILTER (WHERE is_rest)
    INTO g_id, g_ended, g_meets, g_misses, v_rest FROM (
      SELECT m.id AS member, e.o > coalesce(m.passed, 0) + p_max AS is_rest, ${targetOf("m.flow", "e.edge")} AS id, CASE WHEN length(e.edge) = 2 THEN m.state END AS ended,
        ${bitAt("e.edge", 1, "m.state")} AS meets, ${bitAt("e.edge", 2, "m.state")} AS misses
      FROM unnest(p_places, p_ids, p_flows, p_edges, p_states, p_passed) m(place, id, flow, edges, state, passed)
        CROSS JOIN LATERAL jsonb_array_elements_text(m.edges::jsonb) WITH ORDINALITY e(edge, o)
      WHERE e.o > coalesce(m.passed, 0) AND e.o <= coalesce(m.passed, 0) + p_max + 1 ORDER BY m.place, e.o) g;
  v_asked := g_id;
  FOR i IN 1..50 LOOP${collect("waiting", "ctid", "v_asked", isBlocked)}
    -- Most often each target is asked for once and is there.
    EXIT WHEN cardinality(t_id) = cardinality(g_id);
    v_left := ARRAY(SELECT unnest(v_asked) EXCEPT SELECT unnest(t_id));
    EXIT WHEN v_left = '{}';
    v_flows := ARRAY(SELECT unnest(v_flows) INTERSECT SELECT unnest(v_left));
    IF v_flows <> '{}' THEN${collect("history", "NULL::tid", "v_flows")}
      v_left := ARRAY(SELECT unnest(v_left) EXCEPT SELECT unnest(t_id));
    END IF;
    EXIT WHEN NOT EXISTS (SELECT 1 FROM @waiting WHERE id = ANY (v_left)${isBlocked}) AND NOT EXISTS (SELECT 1 FROM @history WHERE id = ANY (v_left) AND id = ANY (v_flows));
    IF i = 50 THEN RAISE EXCEPTION 'millrace: what the end of a member leads to moves too fast' USING ERRCODE = '40001'; END IF;
    v_asked := v_left;
  END LOOP;

  -- What comes to a target is summed up, unless the order matters: where its need is met before the last of them, or
  -- some of them miss it, row by row its need and slack fall. It is freed where the first reaches 0 while the second does
  -- not lack, and whatever comes behind that passes it over. To a flow that has ended only its members come.
  WITH target AS MATERIALIZED (
    SELECT place, id, waits, freed, state, split_part(waits, ',', 1)::int8 AS need, split_part(waits, ',', 2)::int8 AS slack
    FROM unnest(t_place, t_id, t_waits, t_freed, t_state) t(place, id, waits, freed, state)),
  came AS (
    SELECT id, sum(meets) AS met, sum(misses) AS missed, count(*) - count(ended) AS others, ${ends.map(({ name, count }) => `${count} AS ${name}`).join(", ")}
    FROM unnest(g_id, g_ended, g_meets, g_misses) g(id, ended, meets, misses) GROUP BY id),
  summed AS MATERIALIZED (
    SELECT c.*, t.place, t.waits, t.freed, t.state, t.need AS need_before, t.slack AS slack_before, t.need - c.met AS need, t.slack - c.missed AS slack,
      (t.need > 0 AND t.need <= c.met AND (t.need < c.met OR c.missed > 0)) OR (t.state <> ${blocked} AND c.others > 0) AS is_ordered
    FROM came c JOIN target t ON t.id = c.id),
  step AS (
    SELECT g.id, g.o, g.meets, t.need_before - sum(g.meets) OVER s AS need, t.slack_before - sum(g.misses) OVER s AS slack
    FROM unnest(g_id, g_ended, g_meets, g_misses) WITH ORDINALITY g(id, ended, meets, misses, o) JOIN summed t ON t.id = g.id
    WHERE t.is_ordered AND (t.state = ${blocked} OR g.ended IS NOT NULL) WINDOW s AS (PARTITION BY g.id ORDER BY g.o ROWS UNBOUNDED PRECEDING)),
  stepped AS (
    SELECT id, min(need) AS need, min(slack) AS slack, min(slack) FILTER (WHERE need = 0 AND meets = 1 AND slack >= 0) AS slack_freed,
      min(o) FILTER (WHERE need = 0 AND meets = 1) AS met_at, min(o) FILTER (WHERE slack < 0) AS lost_at FROM step GROUP BY id),
  -- Materialized, because the planner would read the text of a target anew for each number that is taken from it.
  counted AS MATERIALIZED (
    SELECT t.id, t.place, t.freed, t.state, t.need_before, t.slack_before, ${ends.map(({ name }) => `t.${name}`).join(", ")}, string_to_array(t.waits, ',')::int8[] AS w,
      coalesce(s.need, t.need) AS need, coalesce(s.slack, t.slack) AS slack,
      CASE WHEN t.is_ordered THEN s.slack_freed WHEN t.need_before > 0 AND t.need <= 0 AND t.slack >= 0 THEN t.slack END AS slack_freed,
      CASE WHEN t.is_ordered THEN s.met_at IS NOT NULL ELSE t.need_before > 0 AND t.need <= 0 END AS is_met, coalesce(s.met_at = s.lost_at, false) AS is_lost_with_it
    FROM summed t LEFT JOIN stepped s ON s.id = t.id WHERE NOT t.is_ordered OR s.id IS NOT NULL),
  judged AS (SELECT *, state = ${blocked} AND freed IS NOT NULL AND slack_freed IS NOT NULL AS is_freed FROM counted),
  written AS MATERIALIZED (
    SELECT id, place, state, is_freed, is_met AND w[4] = 1 AS owes, is_lost_with_it, slack_before, CASE WHEN is_freed THEN slack_freed ELSE slack END AS slack,
      CASE WHEN is_freed THEN string_to_array(freed, ',') END AS p,
      concat_ws(',', CASE WHEN is_freed THEN 0 ELSE need END, CASE WHEN is_freed THEN slack_freed ELSE slack END, w[3], w[4]) ||
      CASE WHEN array_length(w, 1) > 4 THEN concat_ws(',', '', w[5], ${newEnds}) ELSE '' END AS waits FROM judged),
  due AS MATERIALIZED (
    SELECT place, waits, is_freed, p, CASE WHEN is_freed THEN CASE left(p[1], 1) WHEN '@' THEN 0 ELSE p_now END + substr(p[1], 2)::int8 END AS due_at
    FROM written WHERE state = ${blocked}),
  -- A target that stays blocked keeps all but its waits.
  placed AS (
    UPDATE @waiting w SET waits = c.waits, state = c.state, rev = w.rev + c.steps, rank = coalesce(c.rank, w.rank), due_at = coalesce(c.due_at, w.due_at),
      ttl_at = CASE WHEN c.is_freed THEN c.ttl_at ELSE w.ttl_at END, timer_at = CASE WHEN c.is_freed THEN ${waitingTimer("c.").replace("c.deadline_at", "w.deadline_at")} ELSE w.timer_at END
    FROM (SELECT place, waits, is_freed, is_freed::int4 AS steps, due_at, p[2]::int8 + p[3]::int8 * due_at AS rank, due_at + nullif(p[4], '')::int8 AS ttl_at,
      CASE WHEN is_freed THEN ${stateSql("due_at", "p_now")} ELSE ${blocked} END AS state FROM due) c
    WHERE w.ctid = ANY (t_place) AND w.ctid = c.place RETURNING w.id, w.route, w.rev, w.attempt, w.state, w.due_at, w.lane_key, c.is_freed),
  grouped AS MATERIALIZED (
    SELECT route, rev, attempt, state, CASE WHEN state = ${scheduled} THEN due_at END AS due_at, count(*) AS jobs, string_agg(id, ${fieldEnd}) AS ids,
      array_agg(lane_key) FILTER (WHERE lane_key IS NOT NULL) AS lanes
    FROM placed WHERE is_freed GROUP BY 1, 2, 3, 4, 5),
  moved AS (
    INSERT INTO @tally SELECT route, ${blocked}, -sum(jobs) FROM grouped GROUP BY route
      UNION ALL SELECT route, state, sum(jobs) FROM grouped GROUP BY route, state),
  laned AS (SELECT k.lane_key, row_number() OVER () AS number FROM (SELECT DISTINCT unnest(lanes) AS lane_key FROM grouped WHERE state = ${ready}) k),
  touched AS (INSERT INTO @lane_touch (lanes) SELECT array_agg(lane_key) FROM laned GROUP BY (number - 1) / ${touchKeysMax})
  SELECT array_agg(id) FILTER (WHERE state <> ${blocked}), array_agg(waits) FILTER (WHERE state <> ${blocked}),
      -- Once for each arrival that owes something, as one behind the other would.
      v_rest || array_agg(id) FILTER (WHERE state = ${blocked} AND owes)
        || array_agg(id) FILTER (WHERE state = ${blocked} AND slack_before >= 0 AND slack < 0 AND NOT (owes AND is_lost_with_it)),
      (SELECT string_agg(${groupedEvents(`${eventCodes.freed}`, "state", "coalesce('n' || due_at, '')")}, ${itemEnd}) FROM grouped)
    INTO h_id, h_waits, v_owed, events FROM written;

  IF h_id IS NOT NULL THEN
    UPDATE @history h SET waits = n.waits FROM unnest(h_id, h_waits) n(id, waits) WHERE h.id = ANY (h_id) AND h.id = n.id;
  END IF;
  owes := v_owed IS NOT NULL AND v_owed <> '{}';
  IF owes THEN PERFORM @owe_v1(p_now, v_owed); END IF;
END $$;

-- The end of a finished member, whose row is the caller's, goes along its next p_max edges.
CREATE FUNCTION @pass_on_v1(p_now int8, p_id text, p_max int4, OUT events text, OUT owes bool) LANGUAGE plpgsql AS $$
#variable_conflict use_column
DECLARE j @waiting; v_passed int4; v_edges int4;
BEGIN
  owes := false;
  SELECT * INTO j FROM @history WHERE id = p_id;
  IF NOT FOUND OR NOT ${isMember("j.")} THEN RETURN; END IF;
  v_passed := ${passedOf("j.")};
  v_edges := ${edgeCount("j.")};
  IF v_passed >= v_edges THEN RETURN; END IF;
  UPDATE @history SET waits = ${withPassed("least(v_edges, v_passed + p_max)")} WHERE id = p_id AND ended_at = j.ended_at;
  SELECT a.events, a.owes INTO events, owes FROM @arrive_v1(p_now, '{1}', ARRAY[j.id], ARRAY[j.flow], ARRAY[j.edges], ARRAY[j.state], ARRAY[v_passed], p_max) a;
END $$;

-- A member that had ended as j says comes back: its flow counts it among the living again.
CREATE FUNCTION @depart_v1(p_now int8, j @waiting) RETURNS void LANGUAGE plpgsql AS $$
DECLARE f @waiting := @lock_job_v1(p_now, j.flow); w int8[] := string_to_array(f.waits, ',')::int8[]; v_edge text := j.edges::jsonb->>0; v_at int4 := 6 + j.state - ${completed};
BEGIN
  IF w IS NULL THEN RETURN; END IF;
  w[1] := w[1] + ${bitAt("v_edge", 1, "j.state")};
  w[2] := w[2] + ${bitAt("v_edge", 2, "j.state")};
  IF array_length(w, 1) > 4 THEN w[v_at] := w[v_at] - 1; END IF;
  PERFORM @set_waits_v1(f, array_to_string(w, ','));
END $$;

-- Writes what a job waits for, and nothing else of it, where its row lies; the row is the caller's.
CREATE FUNCTION @set_waits_v1(j @waiting, p_waits text) RETURNS void LANGUAGE plpgsql AS $$
BEGIN
  IF j.state = ${running} THEN UPDATE @leased SET waits = p_waits WHERE id = j.id;
  ELSIF j.state < ${completed} THEN UPDATE @waiting SET waits = p_waits WHERE id = j.id;
  ELSE UPDATE @history SET waits = p_waits WHERE id = j.id AND ended_at = j.ended_at; END IF;
END $$;
`;
