/**
 * The general path of a submit, for units that may meet something: a job under a given id, the repeat of an unknown
 * submit, the holder of a unique key (rule R8), a document's guard. The effects of a settle also take it.
 *
 * Two calls may use the same id or key at once. So both insert, and never rely on a look alone: a unique index makes
 * the second call wait for the first, and a look after the insert finds a job that has left the waiting table
 * meanwhile.
 *
 * A refused unit does not give back its numbers of the sequence of jobs, so seqs grow, but have gaps.
 */
import { eventCodes } from "../../../model/events/event-kind.ts";
import type { PutDocAnswer } from "../../../store/operations.ts";
import { refusalOfPut } from "../../../store/rules/add.ts";
import { columnList, ofAllTables } from "../functions/columns.ts";
import { inlineBytesMax } from "../runs/advance.sql.ts";
import { isIntakeClosed } from "../limits/admit.sql.ts";
import { heldUntil, isReplaceable } from "./meet.sql.ts";
import { sql } from "../../../store/sql.ts";

/** Why a unit is refused whose put was answered so. */
const refusals = ["changed", "above", "uncountable"]
  .map((kind) => `WHEN '${kind}' THEN '${refusalOfPut({ kind } as PutDocAnswer)}'`)
  .join("\n");

export const submitUnitSql = sql`
-- Several ids and keys in one call are locked in one order, so that two calls cannot wait for each other. A unit with a
-- savepoint is left out: it gives up after a moment instead.
CREATE FUNCTION @lock_keys_v1(p_units jsonb) RETURNS void LANGUAGE plpgsql AS $$
DECLARE v_locks int8[];
BEGIN
  SELECT array_agg(DISTINCT hashtextextended('@uniq' || k, 0)) INTO v_locks
  FROM jsonb_array_elements(p_units) u, jsonb_array_elements(u->'jobs') j, unnest(ARRAY[
    j->'given'->>'unique_key', CASE WHEN j->'given'->>'digest' IS NOT NULL THEN j->'given'->>'id' END]) k
  WHERE k IS NOT NULL AND NOT (u->>'isLate')::bool;
  IF array_length(v_locks, 1) > 1 THEN
    PERFORM pg_advisory_xact_lock(l) FROM (SELECT unnest(v_locks) AS l ORDER BY 1) sorted;
  END IF;
END $$;

-- Writes jobs in order, then their growth of a flow, then documents in order; the first refusal is the answer. Checks
-- come before everything else; but in a repeat only after the look whether it has happened already.
CREATE FUNCTION @submit_unit_v1(p_now int8, p_unit jsonb) RETURNS jsonb LANGUAGE plpgsql AS $$
DECLARE
  v_repeat bool := coalesce((p_unit->>'isRepeat')::bool, false);
  v_job jsonb; v_doc jsonb; v_one record; v_ids jsonb := '[]'; v_hows jsonb := '[]'; v_events text;
  v_happened bool := false; v_failed text; v_part jsonb; v_linked record; v_put record; v_defers bool := false;
BEGIN
  IF p_unit ? 'checks' AND NOT v_repeat THEN
    v_failed := @failed_check_v1(p_now, p_unit->'checks');
    IF v_failed IS NOT NULL THEN
      RETURN jsonb_build_object('kind', 'refused', 'reason', 'doc-changed', 'id', v_failed);
    END IF;
  END IF;
  FOR v_job IN SELECT * FROM jsonb_array_elements(p_unit->'jobs') LOOP
    SELECT * INTO v_one FROM @submit_job_v1(p_now, v_job, v_repeat);
    IF v_one.how IS NULL THEN
      RETURN jsonb_build_object('kind', 'refused', 'reason', 'id-differs', 'id', v_one.id);
    END IF;
    IF v_one.how IN ('intake-closed', 'key-held') THEN
      RETURN jsonb_build_object('kind', 'refused', 'reason', v_one.how, 'id', v_one.id);
    END IF;
    v_ids := v_ids || to_jsonb(v_one.id);
    v_hows := v_hows || to_jsonb(v_one.how);
    v_events := @append_events_v1(v_events, v_one.events);
    -- If a minted id of a unit is known, the unit has happened whole, so its documents are not put again.
    IF v_repeat AND v_one.how = 'existing' AND v_one.id = v_job->'given'->>'id'
      AND v_job->'given'->>'digest' IS NULL THEN
      v_happened := true;
    END IF;
  END LOOP;
  IF NOT v_happened THEN
    IF p_unit ? 'checks' AND v_repeat THEN
      v_failed := @failed_check_v1(p_now, p_unit->'checks');
      IF v_failed IS NOT NULL THEN
        RETURN jsonb_build_object('kind', 'refused', 'reason', 'doc-changed', 'id', v_failed);
      END IF;
    END IF;
    FOR v_part IN SELECT * FROM jsonb_array_elements(p_unit->'grows') LOOP
      IF NOT @grow_v1(p_now, v_part) THEN
        RETURN jsonb_build_object('kind', 'refused', 'reason', 'flow-closed', 'id', v_part->>'id');
      END IF;
    END LOOP;
    FOR v_part IN SELECT * FROM jsonb_array_elements(p_unit->'links') LOOP
      SELECT * INTO v_linked FROM @link_v1(p_now, v_part, (p_unit->>'isInside')::bool);
      IF NOT v_linked.is_there THEN
        RETURN jsonb_build_object('kind', 'refused', 'reason', 'flow-closed', 'id', v_part->>'from');
      END IF;
      v_events := @append_events_v1(v_events, v_linked.events);
      v_defers := v_defers OR v_linked.defers;
    END LOOP;
    FOR v_doc IN SELECT * FROM jsonb_array_elements(p_unit->'docs') LOOP
      SELECT * INTO v_put FROM @put_doc_v1(p_now, v_doc);
      IF v_put.kind <> 'ok' THEN
        RETURN jsonb_build_object('kind', 'refused', 'id', v_doc->>'id', 'reason', CASE v_put.kind
          ${refusals}
        END);
      END IF;
      v_defers := v_defers OR v_put.defers;
      v_events := @append_events_v1(v_events, v_doc->>'emits');
    END LOOP;
  END IF;
  RETURN jsonb_build_object('kind', 'ok', 'ids', v_ids, 'hows', v_hows, 'events', v_events, 'defers', v_defers);
END $$;

-- p_job as place_new_v1 takes it, with onHeld, and with queueGate if its intake may be closed. how: null if the id
-- exists with another digest; 'intake-closed' for a new job; 'key-held' for a member whose key another job holds.
CREATE FUNCTION @submit_job_v1(p_now int8, p_job jsonb, p_repeat bool, OUT id text, OUT how text, OUT events text)
  LANGUAGE plpgsql AS $$
#variable_conflict use_column
DECLARE
  v_id text := p_job->'given'->>'id'; v_digest text := p_job->'given'->>'digest';
  v_key text := p_job->'given'->>'unique_key';
  v_mayexist bool := v_digest IS NOT NULL OR p_repeat; v_known record; v_holder record; h @waiting; j @waiting;
BEGIN
  id := v_id;
  FOR i IN 1..50 LOOP
    IF v_mayexist THEN
      SELECT k.digest INTO v_known FROM (
        ${ofAllTables("j.digest", "j.id = v_id")}) k;
      IF FOUND THEN
        IF v_known.digest IS NOT DISTINCT FROM v_digest THEN how := 'existing'; END IF;
        RETURN;
      END IF;
    END IF;
    IF p_job ? 'queueGate' AND ${isIntakeClosed("p_job->>'queueGate'")} THEN
      how := 'intake-closed';
      RETURN;
    END IF;
    IF v_key IS NOT NULL THEN
      SELECT u.seq, u.id INTO v_holder FROM @uniq u
        WHERE u.key = v_key AND (u.held_until IS NULL OR u.held_until > p_now);
      IF FOUND THEN
        IF p_job->'given'->>'waits' IS NOT NULL THEN how := 'key-held'; RETURN; END IF;
        IF p_job->>'onHeld' <> 'keep' THEN
          SELECT * INTO h FROM @waiting w
          WHERE w.id = v_holder.id AND ${isReplaceable} FOR UPDATE;
          IF FOUND THEN
            PERFORM 1 FROM @uniq u WHERE u.key = v_key AND u.seq = h.seq;
            IF NOT FOUND THEN CONTINUE; END IF;
            events := @meet_v1(p_now, h, p_job);
            id := v_holder.id;
            how := 'replaced';
            RETURN;
          END IF;
        END IF;
        id := v_holder.id;
        how := 'existing';
        RETURN;
      END IF;
    END IF;
    IF j.seq IS NULL THEN
      j := @place_new_v1(p_now, p_job);
      IF octet_length(j.input) > ${inlineBytesMax} THEN j.input := NULL; END IF;
    END IF;
    IF v_key IS NOT NULL THEN
      INSERT INTO @uniq AS u VALUES (v_key, j.seq, j.id, ${heldUntil("j.unique_hold")})
        ON CONFLICT (key) DO UPDATE SET seq = excluded.seq, id = excluded.id, held_until = excluded.held_until
          WHERE u.held_until <= p_now;
      IF NOT FOUND THEN CONTINUE; END IF;
    END IF;
    IF NOT v_mayexist THEN
      INSERT INTO @waiting (
        ${columnList})
      SELECT (j).*;
      how := 'created';
      EXIT;
    END IF;
    INSERT INTO @waiting (
      ${columnList})
    SELECT (j).* ON CONFLICT DO NOTHING;
    IF FOUND THEN
      PERFORM 1 FROM @leased l WHERE l.id = j.id UNION ALL SELECT 1 FROM @history h WHERE h.id = j.id;
      IF NOT FOUND THEN how := 'created'; EXIT; END IF;
      DELETE FROM @waiting w WHERE w.id = j.id AND w.seq = j.seq;
    END IF;
    DELETE FROM @uniq u WHERE u.key = v_key AND u.seq = j.seq;
  END LOOP;
  IF how IS NULL THEN
    RAISE EXCEPTION 'millrace: the id or key of % changes hands too fast', id USING ERRCODE = '40001';
  END IF;
  IF j.input IS NULL THEN INSERT INTO @payload VALUES (j.seq, p_job->'given'->>'input'); END IF;
  PERFORM @add_tags_v1(j);
  IF j.lane_key IS NOT NULL THEN PERFORM @lanes_changed_v1(ARRAY[j.lane_key], ARRAY[j.route], NULL); END IF;
  INSERT INTO @state_count VALUES (j.route, j.state, 1);
  events := @event_v1(${eventCodes.submitted}, j);
END $$;
`;
