/**
 * One job changing its state, row by row: the general way that changes, retries, keyed submits and effects take. (Plain submits, claims and
 * endings without effects go in sets: submit.ts, claim.ts, settle.ts.) Rules R1, R3 and R8 as far as they touch one row.
 *
 * A row variable has the type of \`waiting\`, which all three job tables share. Guards were checked by the caller, under the row's lock.
 */
import { arrows, jobStates, stateCodes } from "../../../model/job-state.ts";
import { fieldEnd } from "../text.ts";

/** Every arrow of the model as from * 16 + to; staying in a state is allowed too. */
const allowed = jobStates.flatMap((from) =>
  [from, ...arrows[from]].map((to) => stateCodes[from] * 16 + stateCodes[to]),
);

export const jobSql = (s: string): string => `
-- R1. An instant wins over a duration.
CREATE FUNCTION ${s}.due_v1(p_now int8, p_in jsonb, p_at jsonb) RETURNS int8 LANGUAGE sql IMMUTABLE AS $$
  SELECT coalesce((p_at #>> '{}')::int8, p_now + (p_in #>> '{}')::int8)
$$;

CREATE FUNCTION ${s}.timer_v1(j ${s}.waiting) RETURNS int8 LANGUAGE sql IMMUTABLE AS $$
  SELECT CASE j.state
    WHEN ${stateCodes.running} THEN least(j.lease_ends_at, j.attempt_ends_at, j.deadline_at)
    WHEN ${stateCodes.scheduled} THEN least(j.due_at, j.deadline_at, j.ttl_at)
    ELSE least(j.deadline_at, j.ttl_at) END
$$;

-- Finds a job in any table and locks its row. A row that moves meanwhile is looked for again.
CREATE FUNCTION ${s}.lock_job_v1(p_id text, OUT j ${s}.waiting, OUT place text) LANGUAGE plpgsql AS $$
BEGIN
  FOR i IN 1..50 LOOP
    SELECT * INTO j FROM ${s}.waiting WHERE id = p_id FOR UPDATE;
    IF FOUND THEN place := 'waiting'; RETURN; END IF;
    SELECT * INTO j FROM ${s}.leased WHERE id = p_id FOR UPDATE;
    IF FOUND THEN place := 'leased'; RETURN; END IF;
    SELECT * INTO j FROM ${s}.history WHERE id = p_id FOR UPDATE;
    IF FOUND THEN place := 'history'; RETURN; END IF;
    PERFORM 1 FROM ${s}.waiting WHERE id = p_id UNION ALL SELECT 1 FROM ${s}.leased WHERE id = p_id
      UNION ALL SELECT 1 FROM ${s}.history WHERE id = p_id;
    IF NOT FOUND THEN RETURN; END IF;
  END LOOP;
  RAISE EXCEPTION 'millrace: the job % moves too fast', p_id USING ERRCODE = '40001';
END $$;

CREATE FUNCTION ${s}.check_arrow_v1(p_from int2, p_to int2) RETURNS void LANGUAGE plpgsql IMMUTABLE AS $$
BEGIN
  IF NOT (p_from * 16 + p_to = ANY ('{${allowed.join(",")}}'::int4[])) THEN
    RAISE EXCEPTION 'millrace: a job cannot move from state % to %', p_from, p_to USING ERRCODE = 'MR002';
  END IF;
END $$;

CREATE FUNCTION ${s}.drop_row_v1(j ${s}.waiting, p_place text) RETURNS void LANGUAGE plpgsql AS $$
BEGIN
  IF p_place = 'waiting' THEN DELETE FROM ${s}.waiting WHERE id = j.id;
  ELSIF p_place = 'leased' THEN DELETE FROM ${s}.leased WHERE id = j.id;
  ELSE DELETE FROM ${s}.history WHERE id = j.id AND ended_at = j.ended_at; END IF;
END $$;

-- What hangs on a job that is kept nowhere any more.
CREATE FUNCTION ${s}.forget_v1(p_seq int8, p_tags text) RETURNS void LANGUAGE plpgsql AS $$
BEGIN
  IF p_tags IS NOT NULL THEN DELETE FROM ${s}.tag WHERE seq = p_seq AND tag IN (SELECT jsonb_array_elements_text(p_tags::jsonb)); END IF;
  DELETE FROM ${s}.trail WHERE seq = p_seq;
  DELETE FROM ${s}.payload WHERE seq = p_seq;
END $$;

CREATE FUNCTION ${s}.free_key_v1(j ${s}.waiting) RETURNS void LANGUAGE sql AS $$
  DELETE FROM ${s}.uniq WHERE key = j.unique_key AND seq = j.seq
$$;

-- The input as the row holds it: null when it went to payload.
CREATE FUNCTION ${s}.keep_input_v1(p_seq int8, p_input text) RETURNS text LANGUAGE plpgsql AS $$
BEGIN
  IF octet_length(p_input) <= 1024 THEN
    DELETE FROM ${s}.payload WHERE seq = p_seq;
    RETURN p_input;
  END IF;
  INSERT INTO ${s}.payload VALUES (p_seq, p_input) ON CONFLICT (seq) DO UPDATE SET input = excluded.input;
  RETURN NULL;
END $$;

-- Puts a job among the waiting: the lease is dropped, the clock of its state is set, and it is told.
CREATE FUNCTION ${s}.put_waiting_v1(j ${s}.waiting, p_place text, p_old_state int2, p_old_route int4, p_kind int4) RETURNS text LANGUAGE plpgsql AS $$
BEGIN
  PERFORM ${s}.check_arrow_v1(p_old_state, j.state);
  j.rev := j.rev + 1;
  j.lease_ends_at := NULL; j.attempt_ends_at := NULL; j.ended_at := NULL; j.keep_until := NULL; j.reason := NULL; j.result := NULL;
  j.timer_at := ${s}.timer_v1(j);
  INSERT INTO ${s}.waiting SELECT (j).*;
  IF p_old_state <> j.state OR p_old_route <> j.route THEN
    INSERT INTO ${s}.tally VALUES (p_old_route, p_old_state, -1), (j.route, j.state, 1);
  END IF;
  RETURN ${s}.event_v1(p_kind, j, CASE WHEN j.state = ${stateCodes.scheduled} THEN 'n' || j.due_at END);
END $$;

-- Applies a Finish, Schedule or HandBack. p_log: the attempt log from now on, or null. p_by_holder: the settle of the lease's holder.
-- Answers what to tell, and the holder of the key that a replay would need.
CREATE FUNCTION ${s}.apply_v1(p_now int8, j ${s}.waiting, p_place text, p_next jsonb, p_log text, p_by_holder bool,
  OUT events text, OUT held_by text, OUT state int2) LANGUAGE plpgsql AS $$
#variable_conflict use_column
DECLARE
  v_old int2 := j.state;
  v_to jsonb := p_next->'to';
  v_kind int4 := (p_next->>'event')::int4;
  v_edit jsonb := p_next->'edit';
BEGIN
  IF v_to = '"scheduled"' AND v_old >= ${stateCodes.completed} THEN
    IF j.unique_hold = -2 THEN
      INSERT INTO ${s}.uniq AS u VALUES (j.unique_key, j.seq, j.id, NULL)
        ON CONFLICT (key) DO UPDATE SET seq = excluded.seq, id = excluded.id, held_until = NULL WHERE u.held_until <= p_now OR u.seq = j.seq;
      IF NOT FOUND THEN SELECT u.id INTO held_by FROM ${s}.uniq u WHERE u.key = j.unique_key; RETURN; END IF;
      j.holds := 2;
    ELSE
      j.holds := 0;
    END IF;
    j.cancel_asked := false;
    IF j.deadline_at <= p_now THEN j.deadline_at := NULL; END IF;
  END IF;
  IF p_log IS NOT NULL THEN j.attempts := p_log; END IF;
  IF p_by_holder THEN j.settled_fence := j.fence; END IF;
  PERFORM ${s}.drop_row_v1(j, p_place);

  IF v_to = '"ready"' THEN
    ASSERT v_old < ${stateCodes.completed}, 'a finished job comes back only by a schedule';
    j.state := ${stateCodes.ready};
    j.counts_attempt := (p_next->>'countsAttempt')::int2;
    events := ${s}.put_waiting_v1(j, p_place, v_old, j.route, v_kind);
    state := j.state;
    RETURN;
  END IF;

  IF v_to = '"scheduled"' THEN
    j.due_at := ${s}.due_v1(p_now, p_next->'dueIn', p_next->'dueAt');
    j.rank := (p_next->>'rankBase')::int8 + (p_next->>'rankSlope')::int8 * j.due_at;
    j.ttl_at := j.due_at + (p_next->>'ttl')::int8;
    j.counts_attempt := (p_next->>'countsAttempt')::int2;
    j.attempt := coalesce((p_next->>'attempt')::int4, j.attempt);
    j.state := CASE WHEN j.due_at <= p_now THEN ${stateCodes.ready} ELSE ${stateCodes.scheduled} END;
    IF v_edit IS NOT NULL THEN j := ${s}.edit_v1(j, v_edit); END IF;
    events := ${s}.put_waiting_v1(j, p_place, v_old, j.route, v_kind);
    state := j.state;
    RETURN;
  END IF;

  state := (p_next->>'to')::int2;
  PERFORM ${s}.check_arrow_v1(v_old, state);
  IF j.holds <> 0 THEN PERFORM ${s}.free_key_v1(j); END IF;
  j.holds := 0; j.state := state; j.rev := j.rev + 1; j.timer_at := NULL; j.lease_ends_at := NULL; j.attempt_ends_at := NULL;
  j.ended_at := p_now; j.reason := p_next->>'reason'; j.result := p_next->>'result'; j.keep_until := p_now + (p_next->>'keep')::int8;
  INSERT INTO ${s}.tally VALUES (j.route, v_old, -1);
  IF (p_next->>'keep')::int8 = 0 THEN
    PERFORM ${s}.forget_v1(j.seq, j.tags);
  ELSE
    INSERT INTO ${s}.history SELECT (j).*;
    INSERT INTO ${s}.tally VALUES (j.route, j.state, 1);
  END IF;
  events := ${s}.event_v1(v_kind, j, 's' || j.reason);
END $$;

CREATE FUNCTION ${s}.edit_v1(j ${s}.waiting, p_edit jsonb) RETURNS ${s}.waiting LANGUAGE plpgsql AS $$
BEGIN
  IF p_edit ? 'input' THEN j.input := ${s}.keep_input_v1(j.seq, p_edit->>'input'); END IF;
  IF p_edit ? 'policy' THEN j.policy := p_edit->>'policy'; END IF;
  IF p_edit ? 'meta' THEN j.meta := p_edit->>'meta'; END IF;
  RETURN j;
END $$;
`;

/** Groups of a set-based call: one group of ids for each (rev, route, attempt, ...) that occurs. */
export const groupedEvents = (kind: string, state: string, extra: string): string =>
  `concat_ws(${fieldEnd}, ${kind}, rev, route, ${state}, attempt, ${extra}, ids)`;

/** A column as a list, which has a single item when all are the same. */
export const brief = (value: string): string =>
  `CASE WHEN min(${value}) = max(${value}) THEN ARRAY[min(${value})] ELSE array_agg(${value}) END`;
