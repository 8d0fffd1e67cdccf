/**
 * What operators do to a job: update, edit and replay, under their names in store/rules; and apply_v1, which applies a
 * change that the model computed, or a delete, and writes the row.
 */
import { eventCodes } from "../../../model/events/event-kind.ts";
import { stateCodes } from "../../../model/job/job-state.ts";
import { uniqueHolds } from "../../../store/rules/unique-holds.ts";
import { clearSql } from "../functions/columns.ts";
import { hasChildren } from "../journal/entry.sql.ts";
import { isFlow, isMember, withPassed } from "../flows/member.sql.ts";
import { sql } from "../../../store/sql.ts";

const { running, completed } = stateCodes;

const { end, none } = uniqueHolds;
const replayHolds = sql`CASE WHEN j.unique_hold = ${end} THEN ${end} ELSE ${none} END`;

export const operateSql = sql`
-- p_edit: {input?, policy?, meta?, tags?}; null for none.
CREATE FUNCTION @edit_v1(j @waiting, p_edit jsonb) RETURNS @waiting LANGUAGE plpgsql IMMUTABLE AS $$
BEGIN
  IF p_edit ? 'input' THEN j.input := p_edit->>'input'; END IF;
  IF p_edit ? 'policy' THEN j.policy := p_edit->>'policy'; END IF;
  IF p_edit ? 'meta' THEN j.meta := p_edit->>'meta'; END IF;
  IF p_edit ? 'tags' THEN j.tags := p_edit->>'tags'; END IF;
  RETURN j;
END $$;

CREATE FUNCTION @update_v1(j @waiting, p_next jsonb) RETURNS @waiting LANGUAGE plpgsql IMMUTABLE AS $$
BEGIN
  IF p_next ? 'cancelAsked' THEN j.cancel_asked := (p_next->>'cancelAsked')::bool::int4; END IF;
  IF p_next ? 'rankBase' OR p_next ? 'rankSlope' THEN
    j.rank := coalesce((p_next->>'rankBase')::int8, 0) + coalesce((p_next->>'rankSlope')::int8, 1) * j.due_at;
  END IF;
  RETURN @edit_v1(j, p_next->'edit');
END $$;

-- A finished job comes back. If its key is held until its end, the caller has taken the key already.
CREATE FUNCTION @replay_v1(p_now int8, j @waiting, p_next jsonb) RETURNS @waiting LANGUAGE plpgsql IMMUTABLE AS $$
BEGIN
  ${clearSql("replay")}
  j.holds := ${replayHolds};
  j.waits := ${withPassed("0", "j.")};
  RETURN @place_v1(p_now, j, p_next);
END $$;

-- p_next: the change to apply. p_log: the new attempt log; null leaves it. Answers the events and the new state, or
-- instead of both the holder of the key that a replay would need. defers: deferred work was left. If a member ends, the
-- caller passes its end on along its edges, after everything else of its unit. An update that is signalled writes the
-- marks of j alone, and is no new rev.
CREATE FUNCTION @apply_v1(p_now int8, j @waiting, p_next jsonb, p_log text, OUT events text, OUT held_by text,
    OUT state int2, OUT defers bool) LANGUAGE plpgsql AS $$
#variable_conflict use_column
DECLARE
  v_next @waiting := j; v_to text := p_next->>'to'; v_kind int4 := (p_next->>'event')::int4; v_kept bool := true;
  v_frees bool := false; v_block record;
BEGIN
  defers := false;
  IF p_log IS NOT NULL THEN v_next.attempts := p_log; END IF;
  IF v_kind = ${eventCodes.signalled} THEN
    PERFORM @mark_v1(v_next);
    events := @event_v1(v_kind, v_next);
    state := j.state;
    RETURN;
  END IF;
  IF v_to = 'same' THEN
    v_next := @update_v1(v_next, p_next);
  ELSIF v_to = 'deleted' THEN
    IF j.state = ${running} THEN RAISE EXCEPTION 'millrace: a running job cannot be deleted' USING ERRCODE = 'MR002';
    END IF;
    v_kept := false;
    v_frees := true;
    defers := ${hasChildren("j.")};
  ELSIF v_to IN ('scheduled', 'blocked') AND j.state >= ${completed} THEN
    -- A replay takes its key only if it is free, or if the time of its hold has run out.
    IF j.unique_hold = ${uniqueHolds.end} THEN
      INSERT INTO @uniq AS u VALUES (j.unique_key, j.seq, j.id, NULL)
        ON CONFLICT (key) DO UPDATE SET seq = excluded.seq, id = excluded.id, held_until = NULL
          WHERE u.held_until <= p_now OR u.seq = j.seq;
      IF NOT FOUND THEN SELECT u.id INTO held_by FROM @uniq u WHERE u.key = j.unique_key; END IF;
    END IF;
    IF held_by IS NOT NULL THEN RETURN; END IF;
    IF v_to = 'scheduled' THEN
      v_next := @replay_v1(p_now, v_next, p_next);
    ELSE
      SELECT * INTO v_block FROM @block_v1(p_now, v_next, p_next);
      v_next := v_block.j;
      defers := v_block.defers;
      v_next.holds := ${replayHolds};
    END IF;
    IF ${isMember("j.")} THEN PERFORM @depart_v1(p_now, j); END IF;
  ELSIF j.state >= ${completed} THEN
    RAISE EXCEPTION 'millrace: a finished job comes back only by a schedule, and ends only once'
      USING ERRCODE = 'MR002';
  ELSIF v_to = 'blocked' THEN
    SELECT * INTO v_block FROM @block_v1(p_now, v_next, p_next);
      v_next := v_block.j;
      defers := v_block.defers;
  ELSIF v_to IN ('scheduled', 'ready') THEN
    v_next := @place_v1(p_now, v_next, p_next);
  ELSIF v_to = 'suspended' THEN
    v_next := @suspend_v1(p_now, v_next, p_next);
  ELSIF v_to !~ '^[0-9]+$' THEN
    RAISE EXCEPTION 'millrace: a job cannot become %', v_to USING ERRCODE = 'MR002';
  ELSE
    v_next := @finish_v1(p_now, v_next, p_next);
    defers := ${hasChildren("j.")};
    v_kept := (p_next->>'keepMs')::int8 IS DISTINCT FROM 0 OR ${isMember("j.")};
    v_frees := j.holds <> ${uniqueHolds.none};
  END IF;
  IF (p_next->>'newRound')::bool THEN v_next.durable := @begin_round_v1(v_next); END IF;
  v_next := @advance_v1(j.state, v_next);
  IF v_frees THEN DELETE FROM @uniq WHERE key = j.unique_key AND seq = j.seq; END IF;
  events := @write_v1(j, v_next, v_kind, v_kept);
  -- The members of a flow that is deleted are left to a duty.
  defers := defers OR (NOT v_kept AND ${isFlow("j.")});
  IF defers THEN PERFORM @defer_work_v1(p_now, ARRAY[j.id]); END IF;
  state := CASE WHEN v_kind = ${eventCodes.deleted} THEN NULL ELSE v_next.state END;
END $$;
`;
