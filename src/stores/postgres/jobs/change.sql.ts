/**
 * change_v1: changes of jobs by operators and duties, under guards (rule R2). Of each change the first case whose guard
 * holds is applied. If none holds, the answer is the job's present state. The row stays locked from the look to the
 * write. Ends that are alike are written as a set (finish_set_v1), all other changes one by one (change_one_v1).
 */
import { eventCodes } from "../../../model/events/event-kind.ts";
import { stateCodes } from "../../../model/job/job-state.ts";
import { storeLimits } from "../../../store/contract-limits.ts";
import { uniqueHolds } from "../../../store/rules/unique-holds.ts";
import { columnList, movedBy } from "../functions/columns.ts";
import { fieldEnd } from "../functions/packed-values.ts";
import { isUnreadable } from "../upkeep/unreadable.sql.ts";
import { byIndex } from "../functions/call.sql.ts";
import { edgeCount, isMember, passedOf } from "../flows/member.sql.ts";
import { brief, emitSet } from "../feed/emit.sql.ts";
import { waitBriefly } from "../functions/each-item.sql.ts";
import { sql } from "../../../store/sql.ts";

const { running, completed } = stateCodes;
const { edgesAtOnceMax, edgesPerStepMax } = storeLimits;

/** Rule R3 over waiting rows that have no special fields. */
const finished = movedBy("finish", {
  state: "v_to",
  rev: "rev + 1",
  endedAt: "p_now",
  keepUntil: "p_now + (p_end->>'keepMs')::int8",
  reason: "p_end->>'reason'",
  result: "p_end->>'result'",
  attempts: "coalesce(p_log, attempts)",
});

export const changeSql = sql`
-- Changes that end jobs in one state in the same way, as one set: hundreds of flows end together. p_changes: as
-- change_one_v1 has them, each job once, all with one guard except for its rev; p_end, p_log: their next and attempts.
-- If one of the jobs does not meet its guard, is a member, holds a key or is in a lane, nothing is done and the answer
-- is null: then each job is changed by itself.
CREATE FUNCTION @finish_set_v1(p_now int8, p_changes jsonb, p_from int2, p_end jsonb, p_log text,
  OUT answers jsonb, OUT events text) LANGUAGE plpgsql AS $$
#variable_conflict use_column
DECLARE
  v_to int2 := (p_end->>'to')::int2; v_places tid[]; v_count int4; v_ids text; l_route int8[]; l_rev int4[];
  l_attempt int4[]; r_id text[]; r_rev int4[]; v_events text;
BEGIN
  SELECT array_agg(place) INTO v_places FROM (
    SELECT j.ctid AS place FROM @waiting j JOIN (
      SELECT c->>'id' AS id, (c->'cases'->0->'guard'->>'rev')::int4 AS rev
      FROM jsonb_array_elements(p_changes) c) c ON c.id = j.id
    WHERE j.state = p_from AND j.rev = coalesce(c.rev, j.rev) AND j.flow IS NULL
      AND j.holds = ${uniqueHolds.none} AND j.lane_key IS NULL AND NOT
        ${isUnreadable("waiting", "j")}
    ORDER BY j.id FOR UPDATE OF j) h;
  IF cardinality(v_places) IS DISTINCT FROM jsonb_array_length(p_changes) THEN RETURN; END IF;
  WITH ended AS (DELETE FROM @waiting WHERE ctid = ANY (v_places) RETURNING *),
  kept AS (
    INSERT INTO @history (
      ${columnList})
    SELECT ${finished}
    FROM ended)
  SELECT count(*), string_agg(id, ${fieldEnd}),
    ${brief("route")},
    ${brief("rev + 1")},
    ${brief("attempt")},
    array_agg(id), array_agg(rev + 1)
  INTO v_count, v_ids, l_route, l_rev, l_attempt, r_id, r_rev FROM ended;
  ${emitSet({
    kind: "(p_end->>'event')::int4",
    from: "p_from",
    to: "v_to",
    extra: "coalesce('s' || (p_end->>'reason'), '')",
  })}
  events := v_events;
  SELECT jsonb_agg(jsonb_build_object('kind', 'ok', 'applied', 0, 'from', p_from, 'state', v_to, 'rev', r.rev)
    ORDER BY c.place)
  INTO answers FROM jsonb_array_elements(p_changes) WITH ORDINALITY c(change, place)
    JOIN unnest(r_id, r_rev) r(id, rev) ON r.id = c.change->>'id';
END $$;

-- p_change: {id, token?, cases: [{guard, next, attempts?, append?}], keys?, isLate}; keys: those of the appends. The
-- answer has its events and, if the job was running, the route that it has left.
CREATE FUNCTION @change_one_v1(p_now int8, p_change jsonb) RETURNS jsonb LANGUAGE plpgsql AS $$
DECLARE
  j @waiting := @lock_job_v1(p_now, p_change->>'id'); v_case jsonb; v_at int4 := 0; v_applied record;
  v_passed record; v_token text := p_change->>'token'; v_append jsonb;
BEGIN
  IF j.id IS NULL THEN RETURN '{"kind": "gone"}'; END IF;
  IF p_change ? 'keys' AND @is_repeated_v1(j.seq, p_change->'keys') THEN
    RETURN jsonb_build_object('kind', 'repeated', 'state', j.state, 'rev', j.rev);
  END IF;
  FOR v_case IN SELECT * FROM jsonb_array_elements(p_change->'cases') LOOP
    EXIT WHEN @is_held_v1(p_now, j, v_case->'guard');
    v_case := NULL;
    v_at := v_at + 1;
  END LOOP;
  IF v_case IS NULL THEN
    RETURN jsonb_build_object('kind', CASE WHEN v_token = j.change_token THEN 'already' ELSE 'changed' END,
      'state', j.state, 'rev', j.rev);
  END IF;
  v_append := v_case->'append';
  IF v_append IS NOT NULL AND @is_full_v1(j.seq, v_append) THEN
    RETURN jsonb_build_object('kind', 'full', 'state', j.state, 'rev', j.rev);
  END IF;
  -- The end of a member that has not gone along all its edges cannot be taken back.
  IF j.state >= ${completed} AND j.waits IS NOT NULL AND v_case->'next'->>'to' IN ('scheduled', 'blocked')
    AND ${passedOf("j.")} < ${edgeCount("j.")} THEN
    RETURN jsonb_build_object('kind', 'changed', 'state', j.state, 'rev', j.rev);
  END IF;
  j.change_token := coalesce(v_token, j.change_token);
  IF v_append IS NOT NULL THEN
    SELECT (a.job).* INTO j FROM @append_v1(p_now, j, jsonb_build_array(v_append->'entry'), true) a;
  END IF;
  SELECT * INTO v_applied FROM @apply_v1(p_now, j, v_case->'next', v_case->>'attempts');
  IF v_applied.held_by IS NOT NULL THEN
    DELETE FROM @entry WHERE seq = j.seq AND key = v_append->'entry'->>'key';
    RETURN jsonb_build_object('kind', 'key-held', 'by', v_applied.held_by);
  END IF;
  IF ${isMember("j.")} AND v_applied.state >= ${completed}
    AND (j.state < ${completed} OR v_case->'next' ? 'passesOn') THEN
    SELECT * INTO v_passed FROM @pass_on_v1(p_now, j.id, CASE
      WHEN j.state < ${completed} THEN ${edgesAtOnceMax}
      ELSE least((v_case->'next'->>'passesOn')::int4, ${edgesPerStepMax}) END);
    v_applied.events := @append_events_v1(v_applied.events, v_passed.events);
    v_applied.defers := v_applied.defers OR v_passed.defers;
  END IF;
  RETURN jsonb_build_object('kind', 'ok', 'applied', v_at, 'from', j.state, 'state', v_applied.state,
    'rev', j.rev + CASE (v_case->'next'->>'event')::int4 WHEN ${eventCodes.signalled} THEN 0 ELSE 1 END,
    'events', v_applied.events, 'defers', v_applied.defers,
    'left', CASE WHEN j.state = ${running} AND v_applied.state IS DISTINCT FROM ${running} THEN j.route END,
    'lane', CASE WHEN j.lane_key IS NOT NULL THEN @leaves_v1(j) END);
END $$;

-- p_from, p_end, p_log: if all changes may be made as a set (finish_set_v1); p_from is null if they may not.
CREATE FUNCTION @change_v1(p_now int8, p_commit text, p_changes text, p_from int2, p_end jsonb, p_log text,
  OUT now int8, OUT answers jsonb, OUT events text, OUT ready int8[], OUT defers bool) LANGUAGE plpgsql
  ${byIndex} AS $$
BEGIN
  IF p_from IS NOT NULL THEN
    now := @begin_v1(p_now, p_commit);
    ${waitBriefly}
    SELECT s.answers, s.events INTO answers, events FROM @finish_set_v1(now, p_changes::jsonb, p_from, p_end, p_log) s;
    IF answers IS NOT NULL THEN
      PERFORM @emit_v1(now, events, false);
      RETURN;
    END IF;
  END IF;
  SELECT e.now, e.answers, e.events, e.ready, e.defers INTO now, answers, events, ready, defers
  FROM @each_v1(coalesce(now, p_now), p_commit, 'change_one_v1', p_changes) e;
END $$;
`;
