/**
 * change_v1: what operators and duties do to a job under a guard (rule R2). The first case whose guard holds is applied; none holding answers
 * where the job stands. The row stays locked from the look to the write.
 */
import { eventCodes } from "../../../model/event-kind.ts";
import { stateCodes } from "../../../model/job-state.ts";

const { scheduled, running, completed } = stateCodes;

export const changeSql = (s: string): string => `
-- guard: {states, rev?, fence?, rang?}
CREATE FUNCTION ${s}.holds_v1(p_now int8, j ${s}.waiting, p_guard jsonb) RETURNS bool LANGUAGE sql IMMUTABLE AS $$
  SELECT p_guard->'states' @> to_jsonb(j.state)
    AND (p_guard->>'rev' IS NULL OR (p_guard->>'rev')::int8 = j.rev)
    AND (p_guard->>'fence' IS NULL OR (p_guard->>'fence')::int8 = j.fence)
    AND (p_guard->>'rang' IS NULL OR (j.state < ${completed} AND coalesce(CASE p_guard->>'rang' WHEN 'lease' THEN j.lease_ends_at
      WHEN 'attempt' THEN j.attempt_ends_at WHEN 'deadline' THEN j.deadline_at ELSE j.ttl_at END <= p_now, false)))
$$;

CREATE FUNCTION ${s}.mark_v1(j ${s}.waiting, p_place text, p_next jsonb, p_log text) RETURNS text LANGUAGE plpgsql AS $$
BEGIN
  j.rev := j.rev + 1;
  j.cancel_asked := coalesce((p_next->>'cancelAsked')::bool, j.cancel_asked);
  j.attempts := coalesce(p_log, j.attempts);
  IF p_next ? 'rankBase' OR p_next ? 'rankSlope' THEN
    j.rank := coalesce((p_next->>'rankBase')::int8, 0) + coalesce((p_next->>'rankSlope')::int8, 1) * j.due_at;
  END IF;
  IF p_next->'edit' IS NOT NULL THEN j := ${s}.edit_v1(j, p_next->'edit'); END IF;
  PERFORM ${s}.drop_row_v1(j, p_place);
  IF p_place = 'waiting' THEN INSERT INTO ${s}.waiting SELECT (j).*;
  ELSIF p_place = 'leased' THEN INSERT INTO ${s}.leased SELECT (j).*;
  ELSE INSERT INTO ${s}.history SELECT (j).*; END IF;
  RETURN ${s}.event_v1((p_next->>'event')::int4, j, CASE WHEN j.state = ${scheduled} THEN 'n' || j.due_at
    WHEN j.state = ${running} THEN CASE WHEN j.cancel_asked THEN 's' || j.owner END WHEN j.state >= ${completed} THEN 's' || j.reason END);
END $$;

CREATE FUNCTION ${s}.remove_v1(j ${s}.waiting, p_place text) RETURNS text LANGUAGE plpgsql AS $$
BEGIN
  IF j.state = ${running} THEN RAISE EXCEPTION 'millrace: a running job cannot be removed' USING ERRCODE = 'MR002'; END IF;
  PERFORM ${s}.drop_row_v1(j, p_place);
  PERFORM ${s}.free_key_v1(j);
  PERFORM ${s}.forget_v1(j.seq, j.tags);
  INSERT INTO ${s}.tally VALUES (j.route, j.state, -1);
  j.rev := j.rev + 1;
  j.state := NULL;
  RETURN ${s}.event_v1(${eventCodes.removed}, j, NULL);
END $$;

-- p_changes: [{id, cases: [{guard, next, attempts?}]}], in order.
CREATE FUNCTION ${s}.change_v1(p_now int8, p_commit text, p_changes text, OUT now int8, OUT answers jsonb, OUT events text) LANGUAGE plpgsql AS $$
#variable_conflict use_column
DECLARE v_change jsonb; v_case jsonb; v_next jsonb; v_at int4; v_found record; j ${s}.waiting; v_applied record; v_answer jsonb; v_state int2;
BEGIN
  now := ${s}.begin_v1(p_now, p_commit);
  answers := '[]';
  FOR v_change IN SELECT * FROM jsonb_array_elements(p_changes::jsonb) LOOP
    SELECT * INTO v_found FROM ${s}.lock_job_v1(v_change->>'id');
    IF v_found.place IS NULL THEN answers := answers || '[{"kind": "gone"}]'; CONTINUE; END IF;
    j := v_found.j;
    v_at := -1;
    FOR v_i IN 0..jsonb_array_length(v_change->'cases') - 1 LOOP
      IF ${s}.holds_v1(now, j, v_change->'cases'->v_i->'guard') THEN v_at := v_i; EXIT; END IF;
    END LOOP;
    IF v_at < 0 THEN
      answers := answers || jsonb_build_array(jsonb_build_object('kind', 'changed', 'state', j.state, 'rev', j.rev));
      CONTINUE;
    END IF;
    v_case := v_change->'cases'->v_at;
    v_next := v_case->'next';
    IF v_next->>'to' = 'same' THEN
      events := ${s}.and_v1(events, ${s}.mark_v1(j, v_found.place, v_next, v_case->>'attempts'));
      v_state := j.state;
    ELSIF v_next->>'to' = 'removed' THEN
      events := ${s}.and_v1(events, ${s}.remove_v1(j, v_found.place));
      v_state := NULL;
    ELSE
      SELECT * INTO v_applied FROM ${s}.apply_v1(now, j, v_found.place, v_next, v_case->>'attempts', false);
      IF v_applied.held_by IS NOT NULL THEN
        answers := answers || jsonb_build_array(jsonb_build_object('kind', 'key-held', 'by', v_applied.held_by));
        CONTINUE;
      END IF;
      events := ${s}.and_v1(events, v_applied.events);
      v_state := v_applied.state;
    END IF;
    answers := answers || jsonb_build_array(jsonb_build_object('kind', 'ok', 'applied', v_at, 'from', j.state, 'state', v_state, 'rev', j.rev + 1));
  END LOOP;
  PERFORM ${s}.tell_v1(now, events, false);
END $$;
`;
