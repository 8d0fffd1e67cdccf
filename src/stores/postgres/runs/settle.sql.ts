/**
 * settle_v1: the end of a running attempt, written under its fence. It is applied at most once and only with the
 * current fence; a repeat with the same fence answers already. Plain endings (store/path-predicates.ts) move from
 * leased to history in sets; retries, hand-backs and endings with effects are written one by one. p_steps says in which
 * order: n > 0 takes a run of n plain endings that end alike, 0 the next of p_singles.
 *
 * Rows are found by the index over the list of ids and hashed against the request, whatever the statistics say. In a
 * table that fills and empties the statistics change by the second, and a nested loop from the wrong side took 60 ms
 * for 250 jobs. The index also gives one order of locks.
 */
import { stateCodes } from "../../../model/job/job-state.ts";
import { storeLimits } from "../../../store/contract-limits.ts";
import { keptForeverAt } from "../../../store/rules/finish.ts";
import { uniqueHolds } from "../../../store/rules/unique-holds.ts";
import { carriedBy, columnList, movedBy } from "../functions/columns.ts";
import type { Expressions } from "../functions/columns.ts";
import { fieldEnd, itemEnd, texts } from "../functions/packed-values.ts";
import { byKeys, setCommit, timeNow } from "../functions/call.sql.ts";
import { hasChildren, lastEntry } from "../journal/entry.sql.ts";
import { edgeCount, isMember, withPassedOfFour } from "../flows/member.sql.ts";
import { brief, noteOf, emitSet } from "../feed/emit.sql.ts";
import { declareRouteLists, keepRoutes } from "../jobs/routes.sql.ts";
import { ofCall, leaveLane, waitBriefly, callItem } from "../functions/each-item.sql.ts";
import { sql } from "../../../store/sql.ts";

const { running, completed } = stateCodes;
const { edgesAtOnceMax } = storeLimits;

/** Rule R3 over the rows of a run. Its ending is v_state, v_keep and v_reason; a row's place in the call is at. */
const endings: Expressions = {
  state: "v_state",
  rev: "rev + 1",
  settledFence: "fence",
  endedAt: "now",
  keepUntil: sql`CASE WHEN ${isMember()} THEN ${keptForeverAt} ELSE now + v_keep END`,
  waits: sql`
    CASE WHEN ${isMember()} AND NOT p_inside THEN
      ${withPassedOfFour(`least(${edgeCount()}, ${edgesAtOnceMax})`)}
    ELSE waits END`,
  reason: "v_reason",
  result: "v_results[at]",
  attempts: "coalesce(v_logs[at], attempts)",
};
const finished = movedBy("finish", endings);
/** The columns that this copies, and those that are also read. Other columns are not carried, which saves time. */
const carried = carriedBy("finish", endings, ["rev", "waits", "attempts", "holds"]);

/** Rows that are not kept, of a run that keeps nothing: members are kept anyway. */
const isDropped = sql`v_keep = 0 AND NOT ${isMember()}`;

/** A column of those jobs of a run for which a condition holds, as a list. */
const listOf = (column: string, where: string): string => sql`
  array_agg(${column}) FILTER (WHERE ${where})`;

/** The ends of members in the runs so far go along their edges, in the order of the call. */
const arriveAll = sql`
  IF m_id IS NOT NULL THEN
    IF p_inside THEN
      PERFORM @defer_work_v1(now, m_id);
      v_defers := true;
    ELSE
      SELECT * INTO v_arrived
      FROM @arrive_v1(now, m_place, m_id, m_flow, m_edges, m_state, NULL, ${edgesAtOnceMax});
      v_emitted := @append_events_v1(v_emitted, v_arrived.events);
      v_all := @append_events_v1(v_all, v_arrived.events);
      v_defers := v_defers OR v_arrived.defers;
    END IF;
    m_place := NULL; m_id := NULL; m_flow := NULL; m_edges := NULL; m_state := NULL;
  END IF;`;

export const settleSql = sql`
-- One settle with its effects. The answer has its events, the route and the lane that its job has left, and whether
-- deferred work was left. p_settle: {id, seq, fence, next, attempts, journal?: {seen, entries}, effects?, isLate,
-- isInside}.
CREATE FUNCTION @settle_one_v1(p_now int8, p_settle jsonb) RETURNS jsonb LANGUAGE plpgsql AS $$
DECLARE
  j @waiting; v_applied record; v_unit jsonb; v_lane jsonb; v_note text; v_passed record; v_defers bool;
  v_journal jsonb := p_settle->'journal'; v_last int4;
  v_id text := p_settle->>'id'; v_seq int8 := (p_settle->>'seq')::int8; v_fence int8 := (p_settle->>'fence')::int8;
BEGIN
  SELECT * INTO j FROM @leased WHERE id = v_id FOR UPDATE;
  IF j.state <> ${running} THEN PERFORM @keep_unreadable_v1(p_now, NULL, ARRAY[v_id]); j := NULL; END IF;
  IF j.id IS NULL OR j.fence <> v_fence OR j.seq <> v_seq THEN
    RETURN jsonb_build_object('kind', @refusal_v1(v_id, v_seq, v_fence));
  END IF;
  -- A job whose cancel was asked for must not wait again.
  IF j.cancel_asked = 1 AND p_settle->'next'->>'to' IN ('scheduled', 'ready', 'suspended') THEN
    RETURN '{"kind": "cancel-asked"}';
  END IF;
  IF v_journal IS NOT NULL THEN
    IF v_journal->>'seen' IS NOT NULL THEN
      v_last := ${lastEntry("v_seq")};
      IF v_last > (v_journal->>'seen')::int4 THEN
        RETURN jsonb_build_object('kind', 'arrived', 'last', v_last);
      ELSIF v_last < (v_journal->>'seen')::int4 THEN
        RETURN '{"kind": "stale"}';
      END IF;
    END IF;
    IF v_journal->'entries' <> '[]' THEN
      SELECT (a.job).* INTO j FROM @append_v1(p_now, j, v_journal->'entries', false) a;
    END IF;
  END IF;
  j.settled_fence := j.fence;
  v_note := ${noteOf("j.started_at", "coalesce(p_settle->>'attempts', '')")};
  IF j.lane_key IS NOT NULL THEN v_lane := @leaves_v1(j); END IF;
  SELECT * INTO v_applied FROM @apply_v1(p_now, j, p_settle->'next', p_settle->>'attempts');
  v_applied.events := @noted_v1(v_applied.events, v_note);
  v_defers := v_applied.defers;
  IF p_settle->'effects' IS NOT NULL THEN
    v_unit := @submit_unit_v1(p_now, p_settle->'effects');
    IF v_unit->>'kind' <> 'ok' THEN
      RETURN jsonb_build_object('kind', v_unit->>'reason', 'id', v_unit->>'id');
    END IF;
    v_applied.events := @append_events_v1(v_applied.events, v_unit->>'events');
    v_defers := v_defers OR (v_unit->>'defers')::bool;
  END IF;
  IF v_applied.state >= ${completed} AND ${isMember("j.")} THEN
    IF (p_settle->>'isInside')::bool THEN
      PERFORM @defer_work_v1(p_now, ARRAY[j.id]);
      v_defers := true;
    ELSE
      SELECT * INTO v_passed FROM @pass_on_v1(p_now, j.id, ${edgesAtOnceMax});
      v_applied.events := @append_events_v1(v_applied.events, v_passed.events);
      v_defers := v_defers OR v_passed.defers;
    END IF;
  END IF;
  RETURN jsonb_build_object('kind', 'ok', 'events', v_applied.events, 'left', j.route, 'lane', v_lane,
    'defers', v_defers);
END $$;

-- p_routes to p_scopes: the routes of all jobs in effects. p_places: the place of each plain settle in the order of the
-- call; null if they are in that order. p_fences: one if all are the same. p_states, p_kinds, p_keeps, p_reasons: the
-- ending of each run. p_durables: whether the jobs of each run are durable; null if none are. Answers one text: time;
-- {position of a plain settle: why it was not applied}; answers of p_singles; routes that may have room at a gate;
-- whether deferred work was left; events of p_singles and of jobs that were freed.
CREATE FUNCTION @settle_v1(p_now int8, p_commit text, p_inside bool, p_steps int4[],
  ${declareRouteLists},
  p_ids text, p_seqs int8[], p_fences int8[], p_states int2[], p_kinds int2[], p_keeps int8[], p_reasons text,
  p_results text, p_logs text, p_durables bool[], p_places int4[], p_singles jsonb) RETURNS text LANGUAGE plpgsql
  ${byKeys} AS $$
#variable_conflict use_column
DECLARE
  now int8 := ${timeNow};
  v_asked text[] := ${texts("p_ids")};
  v_reasons text[] := ${texts("p_reasons")};
  v_results text[] := ${texts("p_results")};
  v_logs text[] := ${texts("p_logs")};
  v_state int2; v_keep int8; v_reason text; v_durable bool; v_parents text[];
  v_step int4; v_from int4 := 1; v_to int4; v_run int4 := 0;
  v_single int4 := 0; v_answer jsonb; v_answers jsonb; v_refused jsonb; v_events text; v_emitted text; v_all text;
  v_count int4; v_ids text; l_route int8[]; l_rev int4[]; l_attempt int4[]; v_done int4[]; v_keys text[];
  v_freed int8[]; v_dropped int8[]; v_tagged int8[]; v_tags text[]; v_left int8[]; v_ready int8[];
  v_left_lanes text[]; v_limits text[]; v_lanes text[]; v_laned int8[];
  r_at int4[]; r_id text[]; r_flow text[]; r_edges text[]; r_route int8[];
  m_place int4[]; m_id text[]; m_flow text[]; m_edges text[]; m_state int2[]; v_arrived record; v_defers bool := false;
BEGIN
  ${setCommit}
  IF NOT p_inside THEN ${waitBriefly} END IF;
  IF p_singles IS NOT NULL THEN
    ${keepRoutes()}
    PERFORM @lock_keys_v1(jsonb_path_query_array(p_singles, '$[*].effects'));
    IF array_length(p_steps, 1) > 1 AND NOT p_inside THEN
      PERFORM @lock_targets_v1(v_asked || ARRAY(
        SELECT s->>'id' FROM jsonb_array_elements(p_singles) s WHERE NOT (s->>'isLate')::bool), NULL);
    END IF;
  END IF;
  FOREACH v_step IN ARRAY p_steps LOOP
    IF v_step = 0 THEN
      ${arriveAll}
      v_answer := ${callItem("settle_one_v1", "p_singles->v_single")};
      v_single := v_single + 1;
      v_emitted := @append_events_v1(v_emitted, v_answer->>'events');
      v_all := @append_events_v1(v_all, v_answer->>'events');
      v_left := v_left || (v_answer->>'left')::int8;
      v_defers := v_defers OR coalesce((v_answer->>'defers')::bool, false);
      v_answers := coalesce(v_answers, '[]') || jsonb_build_array(v_answer - '${ofCall}'::text[]);
      IF v_answer->>'lane' IS NOT NULL THEN
        ${leaveLane}
      END IF;
      CONTINUE;
    END IF;
    v_run := v_run + 1;
    v_state := p_states[v_run]; v_keep := p_keeps[v_run]; v_reason := v_reasons[v_run];
    v_durable := coalesce(p_durables[v_run], false);
    v_to := v_from + v_step - 1;
    WITH ended AS (
      DELETE FROM @leased l
      USING unnest(v_asked[v_from:v_to], p_seqs[v_from:v_to], p_fences[v_from:v_to])
        WITH ORDINALITY a(id, seq, fence, o)
      WHERE l.id = ANY (v_asked[v_from:v_to]) AND l.id = a.id AND l.seq = a.seq
        AND l.fence = coalesce(a.fence, p_fences[1])
      RETURNING ${carried},
        a.o::int4 + v_from - 1 AS at),
    kept AS (
      INSERT INTO @history (
        ${columnList})
      SELECT ${finished}
      FROM ended WHERE v_keep IS DISTINCT FROM 0 OR ${isMember()})
    SELECT count(*), array_agg(at),
      string_agg(id || ${fieldEnd} ||
        ${noteOf("started_at", "coalesce(v_logs[at], '')")}, ${itemEnd}),
      ${brief("route")},
      ${brief("rev + 1")},
      ${brief("attempt")},
      ${listOf("unique_key", `holds <> ${uniqueHolds.none}`)},
      ${listOf("seq", `holds <> ${uniqueHolds.none}`)},
      ${listOf("seq", isDropped)},
      ${listOf("seq", `${isDropped} AND tags IS NOT NULL`)},
      ${listOf("tags", `${isDropped} AND tags IS NOT NULL`)},
      ${listOf("lane_key", "lane_gates IS NOT NULL")},
      ${listOf("seq", "lane_gates IS NOT NULL")},
      ${listOf("id", `v_durable AND ${hasChildren()}`)},
      ${["at", "id", "flow", "edges", "route"].map((column) => listOf(column, isMember())).join(",\n")}
    INTO v_count, v_done, v_ids, l_route, l_rev, l_attempt, v_keys, v_freed, v_dropped, v_tagged, v_tags, v_lanes,
      v_laned, v_parents, r_at, r_id, r_flow, r_edges, r_route FROM ended;
    IF v_count > 0 THEN
      ${emitSet({
        kind: "p_kinds[v_run]",
        from: `${running}`,
        to: "v_state",
        extra: "coalesce('s' || v_reason, '')",
        isNoted: true,
        counted: (jobs) => `CASE WHEN v_keep = 0 THEN 0 ELSE ${jobs} END`,
      })}
      v_all := @append_events_v1(v_all, v_events);
      v_left := v_left || l_route;
    END IF;
    IF r_at IS NOT NULL THEN
      m_place := m_place || CASE
        WHEN p_places IS NULL THEN r_at ELSE ARRAY(SELECT p_places[at] FROM unnest(r_at) at) END;
      m_id := m_id || r_id; m_flow := m_flow || r_flow; m_edges := m_edges || r_edges;
      m_state := m_state || array_fill(v_state, ARRAY[cardinality(r_at)]);
      -- Members are kept even if their ending keeps nothing, so they are counted.
      IF v_keep = 0 THEN INSERT INTO @state_count SELECT r, v_state, count(*) FROM unnest(r_route) r GROUP BY r; END IF;
    END IF;
    IF v_parents IS NOT NULL THEN
      PERFORM @defer_work_v1(now, v_parents);
      v_defers := true;
    END IF;
    -- A job without gates of keys does not keep the next job of its lane waiting, so only the others are looked at.
    IF v_laned IS NOT NULL THEN
      v_left_lanes := v_left_lanes || v_lanes;
      v_limits := v_limits || @return_permits_v1(v_laned);
    END IF;
    IF v_keys IS NOT NULL THEN
      DELETE FROM @uniq u USING unnest(v_keys, v_freed) f(key, seq)
      WHERE u.key = ANY (v_keys) AND u.key = f.key AND u.seq = f.seq;
    END IF;
    -- delete_attached_v1 in sets: job by job it cost more than keeping the jobs. Only jobs with tags are done one by
    -- one.
    IF v_dropped IS NOT NULL THEN
      IF v_durable THEN
        DELETE FROM @entry WHERE seq = ANY (v_dropped);
        DELETE FROM @slip WHERE seq = ANY (v_dropped);
      END IF;
      DELETE FROM @journal WHERE seq = ANY (v_dropped);
      DELETE FROM @payload WHERE seq = ANY (v_dropped);
      IF v_tagged IS NOT NULL THEN
        PERFORM @drop_tags_v1(d.seq, d.tags) FROM unnest(v_tagged, v_tags) d(seq, tags);
      END IF;
    END IF;
    IF v_count < v_step THEN
      SELECT coalesce(v_refused, '{}') || jsonb_object_agg(at - 1,
        @refusal_v1(v_asked[at], p_seqs[at], coalesce(p_fences[at], p_fences[1])))
      INTO v_refused FROM generate_series(v_from, v_to) at WHERE at <> ALL (coalesce(v_done, '{}'));
    END IF;
    v_from := v_to + 1;
  END LOOP;
  ${arriveAll}
  PERFORM @emit_v1(now, v_all, p_inside);
  IF EXISTS (SELECT 1 FROM @gate) THEN v_ready := @sharing_v1(v_left); END IF;
  IF v_left_lanes IS NOT NULL THEN v_ready := v_ready || @lane_hints_v1(v_left_lanes, v_limits); END IF;
  RETURN concat_ws(${fieldEnd}, now, coalesce(v_refused::text, ''), coalesce(v_answers::text, ''),
    coalesce(v_ready::text, ''), v_defers::int4, v_emitted);
END $$;
`;
