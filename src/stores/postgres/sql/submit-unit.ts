/**
 * Units that may meet something: a job under a given id, the repeat of an unknown submit, the holder of a unique key (rule R8), a
 * document's guard. Also the way that effects of a settle take.
 *
 * Two calls may meet at the same id or key at once. Both insert and never only look: a unique index makes the second wait for the first, and
 * a look behind the insert finds a job that has left the waiting table meanwhile.
 */
import { eventCodes } from "../../../model/event-kind.ts";

export const submitUnitSql = (s: string): string => `
-- Several ids and keys in one call are locked in one order, so that two calls cannot wait for each other.
CREATE FUNCTION ${s}.lock_keys_v1(p_units jsonb) RETURNS void LANGUAGE plpgsql AS $$
DECLARE v_locks int8[];
BEGIN
  SELECT array_agg(DISTINCT hashtextextended('${s}' || k, 0)) INTO v_locks FROM jsonb_array_elements(p_units) u, jsonb_array_elements(u->'jobs') j,
    unnest(ARRAY[j->>'key', CASE WHEN j->>'digest' IS NOT NULL THEN j->>'id' END]) k WHERE k IS NOT NULL;
  IF array_length(v_locks, 1) > 1 THEN
    PERFORM pg_advisory_xact_lock(l) FROM (SELECT unnest(v_locks) AS l ORDER BY 1) sorted;
  END IF;
END $$;

-- All of a unit or nothing.
CREATE FUNCTION ${s}.submit_whole_v1(p_now int8, p_unit jsonb) RETURNS jsonb LANGUAGE plpgsql AS $$
DECLARE v_answer jsonb;
BEGIN
  IF NOT (p_unit->>'late')::bool THEN RETURN ${s}.submit_unit_v1(p_now, p_unit, false); END IF;
  BEGIN
    v_answer := ${s}.submit_unit_v1(p_now, p_unit, true);
    RAISE EXCEPTION 'millrace: taken back' USING ERRCODE = 'MR001';
  EXCEPTION WHEN SQLSTATE 'MR001' THEN
    IF v_answer->>'kind' <> 'ok' THEN RETURN v_answer; END IF;
  END;
  BEGIN
    v_answer := ${s}.submit_unit_v1(p_now, p_unit, false);
    IF v_answer->>'kind' = 'ok' THEN RETURN v_answer; END IF;
    RAISE EXCEPTION 'millrace: taken back' USING ERRCODE = 'MR001';
  EXCEPTION WHEN SQLSTATE 'MR001' THEN
    RETURN v_answer;
  END;
END $$;

-- Jobs in order, then documents in order; the first refusal is the answer.
CREATE FUNCTION ${s}.submit_unit_v1(p_now int8, p_unit jsonb, p_trial bool) RETURNS jsonb LANGUAGE plpgsql AS $$
DECLARE
  v_repeat bool := coalesce((p_unit->>'repeat')::bool, false);
  v_job jsonb; v_doc jsonb; v_one record; v_ids jsonb := '[]'; v_hows jsonb := '[]'; v_events text; v_happened bool := false;
BEGIN
  FOR v_job IN SELECT * FROM jsonb_array_elements(p_unit->'jobs') LOOP
    SELECT * INTO v_one FROM ${s}.submit_job_v1(p_now, v_job, v_repeat, p_trial);
    IF v_one.how IS NULL THEN RETURN jsonb_build_object('kind', 'refused', 'reason', 'id-differs', 'id', v_job->>'id'); END IF;
    v_ids := v_ids || to_jsonb(v_one.id);
    v_hows := v_hows || to_jsonb(v_one.how);
    v_events := ${s}.and_v1(v_events, v_one.events);
    -- A unit one of whose minted ids is known has happened whole, so its documents are not put again.
    IF v_repeat AND v_one.how = 'existing' AND v_one.id = v_job->>'id' AND v_job->>'digest' IS NULL THEN v_happened := true; END IF;
  END LOOP;
  IF NOT v_happened THEN
    FOR v_doc IN SELECT * FROM jsonb_array_elements(coalesce(p_unit->'docs', '[]')) LOOP
      IF (${s}.put_doc_v1(p_now, v_doc)).kind = 'changed' THEN
        RETURN jsonb_build_object('kind', 'refused', 'reason', 'doc-changed', 'id', v_doc->>'id');
      END IF;
    END LOOP;
  END IF;
  RETURN jsonb_build_object('kind', 'ok', 'ids', v_ids, 'hows', v_hows, 'events', v_events);
END $$;

-- how: null when the id is there with another digest.
CREATE FUNCTION ${s}.submit_job_v1(p_now int8, p_job jsonb, p_repeat bool, p_trial bool, OUT id text, OUT how text, OUT events text) LANGUAGE plpgsql AS $$
#variable_conflict use_column
DECLARE
  v_digest text := p_job->>'digest'; v_key text := p_job->>'key'; v_hold int8 := (p_job->>'hold')::int8;
  v_isknown bool := v_digest IS NOT NULL OR p_repeat;
  v_known record; v_holder record; h ${s}.waiting; j ${s}.waiting;
BEGIN
  id := p_job->>'id';
  FOR i IN 1..50 LOOP
    IF v_isknown THEN
      SELECT k.digest INTO v_known FROM (SELECT w.digest FROM ${s}.waiting w WHERE w.id = p_job->>'id'
        UNION ALL SELECT l.digest FROM ${s}.leased l WHERE l.id = p_job->>'id' UNION ALL SELECT h.digest FROM ${s}.history h WHERE h.id = p_job->>'id') k;
      IF FOUND THEN
        IF v_known.digest IS NOT DISTINCT FROM v_digest THEN how := 'existing'; END IF;
        RETURN;
      END IF;
    END IF;
    IF v_key IS NOT NULL THEN
      SELECT u.seq, u.id INTO v_holder FROM ${s}.uniq u WHERE u.key = v_key AND (u.held_until IS NULL OR u.held_until > p_now);
      IF FOUND THEN
        IF p_job->>'onHeld' <> 'keep' THEN
          SELECT * INTO h FROM ${s}.waiting w WHERE w.id = v_holder.id AND w.attempt = 0 AND w.state <= 2 FOR UPDATE;
          IF FOUND THEN
            PERFORM 1 FROM ${s}.uniq u WHERE u.key = v_key AND u.seq = h.seq;
            IF NOT FOUND THEN CONTINUE; END IF;
            events := ${s}.meet_holder_v1(p_now, h, p_job);
            id := v_holder.id;
            how := CASE p_job->>'onHeld' WHEN 'replace' THEN 'replaced' ELSE 'rescheduled' END;
            RETURN;
          END IF;
        END IF;
        id := v_holder.id;
        how := 'existing';
        RETURN;
      END IF;
    END IF;
    IF j.seq IS NULL THEN j := ${s}.new_job_v1(p_now, p_job, p_trial); END IF;
    IF v_key IS NOT NULL THEN
      INSERT INTO ${s}.uniq AS u VALUES (v_key, j.seq, j.id, CASE WHEN v_hold >= 0 THEN p_now + v_hold END)
        ON CONFLICT (key) DO UPDATE SET seq = excluded.seq, id = excluded.id, held_until = excluded.held_until WHERE u.held_until <= p_now;
      IF NOT FOUND THEN CONTINUE; END IF;
    END IF;
    IF v_isknown THEN
      INSERT INTO ${s}.waiting SELECT (j).* ON CONFLICT DO NOTHING;
      IF FOUND THEN
        PERFORM 1 FROM ${s}.leased l WHERE l.id = j.id UNION ALL SELECT 1 FROM ${s}.history h WHERE h.id = j.id;
        IF NOT FOUND THEN how := 'created'; EXIT; END IF;
        DELETE FROM ${s}.waiting w WHERE w.id = j.id AND w.seq = j.seq;
      END IF;
      DELETE FROM ${s}.uniq u WHERE u.key = v_key AND u.seq = j.seq;
      CONTINUE;
    END IF;
    INSERT INTO ${s}.waiting SELECT (j).*;
    how := 'created';
    EXIT;
  END LOOP;
  IF how IS NULL THEN RAISE EXCEPTION 'millrace: the id or key of % changes hands too fast', id USING ERRCODE = '40001'; END IF;
  IF j.input IS NULL THEN INSERT INTO ${s}.payload VALUES (j.seq, p_job->>'input'); END IF;
  PERFORM ${s}.add_tags_v1(j);
  INSERT INTO ${s}.tally VALUES (j.route, j.state, 1);
  events := ${s}.event_v1(${eventCodes.submitted}, j, CASE WHEN j.state = 1 THEN 'n' || j.due_at END);
END $$;

CREATE FUNCTION ${s}.add_tags_v1(j ${s}.waiting) RETURNS void LANGUAGE sql AS $$
  INSERT INTO ${s}.tag SELECT t, j.seq, j.id FROM jsonb_array_elements_text(j.tags::jsonb) t WHERE j.tags IS NOT NULL ON CONFLICT DO NOTHING
$$;

-- A row for a new job, not yet written.
CREATE FUNCTION ${s}.new_job_v1(p_now int8, p_job jsonb, p_trial bool) RETURNS ${s}.waiting LANGUAGE plpgsql AS $$
DECLARE j ${s}.waiting;
BEGIN
  j.seq := CASE WHEN p_trial THEN nextval('${s}.try_seq') ELSE nextval('${s}.job_seq') END;
  j.id := p_job->>'id';
  j.digest := p_job->>'digest';
  j.created_at := p_now;
  j.fence := 0; j.attempt := 0; j.rev := 1; j.counts_attempt := 1; j.cancel_asked := false;
  j.unique_key := p_job->>'key';
  j := ${s}.fill_v1(p_now, j, p_job);
  IF octet_length(p_job->>'input') <= 1024 THEN j.input := p_job->>'input'; END IF;
  RETURN j;
END $$;

-- What a submit and a replace write alike. The input is kept apart (keep_input_v1).
CREATE FUNCTION ${s}.fill_v1(p_now int8, j ${s}.waiting, p_job jsonb) RETURNS ${s}.waiting LANGUAGE plpgsql AS $$
BEGIN
  j := ${s}.place_v1(p_now, j, p_job);
  j.route := ${s}.route_number_v1(p_job->>'queue', p_job->>'name');
  j.deadline_at := ${s}.due_v1(p_now, p_job->'deadlineIn', p_job->'deadlineAt');
  j.unique_hold := (p_job->>'hold')::int8;
  j.holds := CASE j.unique_hold WHEN -1 THEN 1 WHEN -2 THEN 2 ELSE 0 END;
  j.policy := p_job->>'policy';
  j.meta := p_job->>'meta';
  j.tags := p_job->>'tags';
  j.timer_at := ${s}.timer_v1(j);
  RETURN j;
END $$;

-- Due time, rank, time-to-live and state. A blocked holder stays blocked.
CREATE FUNCTION ${s}.place_v1(p_now int8, j ${s}.waiting, p_job jsonb) RETURNS ${s}.waiting LANGUAGE plpgsql AS $$
BEGIN
  j.due_at := ${s}.due_v1(p_now, p_job->'dueIn', p_job->'dueAt');
  j.rank := (p_job->>'rankBase')::int8 + (p_job->>'rankSlope')::int8 * j.due_at;
  j.ttl_at := j.due_at + (p_job->>'ttl')::int8;
  IF j.state IS DISTINCT FROM 0 THEN j.state := CASE WHEN j.due_at <= p_now THEN 2 ELSE 1 END; END IF;
  RETURN j;
END $$;

-- Replace or reschedule a holder that has not started; its row is locked. Id, digest, seq and the time of creation stay.
CREATE FUNCTION ${s}.meet_holder_v1(p_now int8, j ${s}.waiting, p_job jsonb) RETURNS text LANGUAGE plpgsql AS $$
DECLARE v_route int4 := j.route; v_state int2 := j.state;
BEGIN
  DELETE FROM ${s}.waiting w WHERE w.id = j.id;
  IF p_job->>'onHeld' = 'reschedule' THEN
    j := ${s}.place_v1(p_now, j, p_job);
    RETURN ${s}.put_waiting_v1(j, 'waiting', v_state, v_route, ${eventCodes.rescheduled});
  END IF;
  IF j.tags IS NOT NULL THEN DELETE FROM ${s}.tag t WHERE t.seq = j.seq AND t.tag IN (SELECT jsonb_array_elements_text(j.tags::jsonb)); END IF;
  j := ${s}.fill_v1(p_now, j, p_job);
  j.input := ${s}.keep_input_v1(j.seq, p_job->>'input');
  PERFORM ${s}.add_tags_v1(j);
  UPDATE ${s}.uniq SET held_until = CASE WHEN j.unique_hold >= 0 THEN p_now + j.unique_hold END WHERE key = j.unique_key AND seq = j.seq;
  RETURN ${s}.put_waiting_v1(j, 'waiting', v_state, v_route, ${eventCodes.replaced});
END $$;
`;
