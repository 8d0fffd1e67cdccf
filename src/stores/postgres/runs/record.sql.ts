/**
 * record_v1: what running attempts write with their fence. Steps of durable runs are written as a set: entries of
 * hundreds of runs in a few statements. Progress, log lines and entries with effects are written one by one.
 *
 * The set locks the rows of its leases with KEY SHARE. That excludes the settle, the reclaim and appends of others,
 * which delete the row or lock it for update. It does not exclude renewals: a run whose steps follow each other at once
 * holds this lock half of the time, and a renewal that passed its row over three times would lose the lease.
 */
import { durableMarks } from "../../../model/durable/durable-marks.ts";
import { eventCodes } from "../../../model/events/event-kind.ts";
import { storeLimits } from "../../../store/contract-limits.ts";
import { byKeys, setCommit, timeNow } from "../functions/call.sql.ts";
import { callItem, ofCall, waitBriefly } from "../functions/each-item.sql.ts";
import { fieldEnd, texts } from "../functions/packed-values.ts";
import { declareRouteLists, keepRoutes } from "../jobs/routes.sql.ts";
import { hasKey, lastEntry } from "../journal/entry.sql.ts";
import { sql } from "../../../store/sql.ts";

const linesMax = storeLimits.logLinesPerJobMax;
const { hasJournal, isEnding } = durableMarks;

/**
 * The entries of writes whose lease is current, by statements that read what was committed before the locks. v_seqs,
 * v_durables and v_lasts are by the places of the writes; a lost lease has null in each.
 */
const appendSet = sql`
  SELECT array_agg(l.seq ORDER BY a.o), array_agg(l.durable ORDER BY a.o) INTO v_seqs, v_durables
  FROM unnest(v_ids, p_seqs, p_fences) WITH ORDINALITY a(id, seq, fence, o) LEFT JOIN (
      SELECT id, seq, fence, durable FROM @leased WHERE id = ANY (v_ids) ORDER BY id FOR KEY SHARE) l
    ON l.id = a.id AND l.seq = a.seq AND l.fence = a.fence;
  SELECT array_agg(CASE WHEN s.seq IS NOT NULL THEN
    ${lastEntry("s.seq")} END ORDER BY s.o)
  INTO v_lasts FROM unnest(v_seqs) WITH ORDINALITY s(seq, o);
  WITH fresh AS MATERIALIZED (
    SELECT p.*, v_lasts[p.write] + (row_number() OVER (PARTITION BY p.write ORDER BY p.o))::int4 AS number
    FROM (
      SELECT e.write, e.o, v_seqs[e.write] AS seq, e.key, e.body, coalesce(e.marks, 0) AS marks, e.unread
      FROM unnest(p_writes, v_keys, ${texts("p_bodies")}, p_marks, p_unreads)
        WITH ORDINALITY e(write, key, body, marks, unread, o)) p
    WHERE p.seq IS NOT NULL AND NOT
      ${hasKey("p.seq", "p.key")}),
  put AS (
    INSERT INTO @entry SELECT seq, now, number, false, key, body, unread FROM fresh
      ON CONFLICT DO NOTHING RETURNING 1),
  changed AS (
    SELECT write, max(number) AS last, bit_or(marks) | ${hasJournal} AS marks FROM fresh GROUP BY write)
  SELECT array_agg(write), array_agg(last), array_agg(marks),
    (SELECT count(*) FROM put), (SELECT count(*) FROM fresh),
    CASE WHEN p_reads IS NOT NULL THEN (SELECT array_agg(o::int4 ORDER BY o) FROM fresh) END,
    CASE WHEN p_reads IS NOT NULL THEN (SELECT array_agg(number ORDER BY o) FROM fresh) END
  INTO f_writes, f_lasts, f_marks, v_put, v_fresh, f_places, f_numbers FROM changed;
  -- Another call of the same attempt, whose reply was lost, is writing the same entries.
  IF v_put <> v_fresh THEN
    RAISE EXCEPTION 'millrace: a journal has grown meanwhile' USING ERRCODE = '40001';
  END IF;
  FOR v_i IN 1..coalesce(cardinality(f_writes), 0) LOOP
    v_lasts[f_writes[v_i]] := f_lasts[v_i];
    v_mark := v_durables[f_writes[v_i]] | f_marks[v_i];
    IF v_mark <> v_durables[f_writes[v_i]] THEN
      u_writes := u_writes || f_writes[v_i]; u_marks := u_marks || f_marks[v_i];
    END IF;
  END LOOP;
  IF u_writes IS NOT NULL OR p_resets IS NOT NULL THEN
    UPDATE @leased l SET durable = l.durable | u.marks, attempt = CASE WHEN u.resets THEN 1 ELSE l.attempt END,
      attempts = CASE WHEN u.resets AND l.cancel_asked = 0 THEN NULL ELSE l.attempts END,
      deadline_at = CASE WHEN u.ends THEN NULL ELSE l.deadline_at END,
      cancel_asked = CASE WHEN u.ends THEN 0 ELSE l.cancel_asked END,
      timer_at = CASE WHEN u.ends THEN least(l.lease_ends_at, l.attempt_ends_at) ELSE l.timer_at END
    FROM (
      SELECT v_ids[c.write] AS id, bit_or(c.marks) AS marks, bit_or(c.marks) & ${isEnding} <> 0 AS ends,
        bool_or(c.resets) AS resets
      FROM (
        SELECT m.write, m.marks, false AS resets FROM unnest(u_writes, u_marks) m(write, marks)
        UNION ALL SELECT r.write, 0, true FROM unnest(p_resets) r(write)) c
      WHERE v_seqs[c.write] IS NOT NULL GROUP BY c.write) u
    WHERE l.id = ANY (v_ids) AND l.id = u.id;
  END IF;`;

export const recordSql = sql`
-- What one running attempt writes. p_write: {id, seq, fence, progress?, logs?, overflow?, frames?, entries?,
-- effects?, setsBack?, steps?, isLate}. With entries the answer is appended, or the refusal of an effect.
CREATE FUNCTION @record_one_v1(p_now int8, p_write jsonb) RETURNS jsonb LANGUAGE plpgsql AS $$
DECLARE
  v_id text := p_write->>'id'; v_seq int8 := (p_write->>'seq')::int8; v_fence int8 := (p_write->>'fence')::int8;
  v_last int4; v_line text; j @waiting; v_event text; v_unit jsonb; v_appended record;
BEGIN
  SELECT * INTO j FROM @leased WHERE id = v_id AND seq = v_seq AND fence = v_fence FOR UPDATE;
  IF NOT FOUND THEN RETURN jsonb_build_object('kind', @lost_v1(v_id, v_seq, v_fence)); END IF;
  IF p_write ? 'progress' THEN
    UPDATE @leased SET progress = p_write->>'progress' WHERE id = v_id;
    j.progress := p_write->>'progress';
    v_event := @event_v1(${eventCodes.progress}, j);
  END IF;
  IF p_write ? 'logs' THEN
    SELECT coalesce(max(number), 0) INTO v_last FROM @journal WHERE seq = v_seq AND fence = 0;
    FOR v_line IN SELECT * FROM jsonb_array_elements_text(p_write->'logs') LOOP
      IF v_last = ${linesMax} THEN
        UPDATE @journal SET at = p_now, body = p_write->>'overflow'
        WHERE seq = v_seq AND fence = 0 AND number = ${linesMax} AND p_write ? 'overflow';
        EXIT;
      END IF;
      v_last := v_last + 1;
      INSERT INTO @journal VALUES (v_seq, 0, v_last, p_now, v_line);
    END LOOP;
  END IF;
  IF p_write ? 'frames' THEN
    PERFORM @write_frames_v1(p_now, v_seq, v_fence, p_write->'frames');
    v_event := @append_events_v1(v_event, @event_v1(${eventCodes.output}, j));
  END IF;
  IF NOT p_write ? 'entries' THEN RETURN jsonb_build_object('kind', 'ok', 'events', v_event); END IF;
  IF p_write ? 'setsBack' THEN
    j.attempt := 1;
    j.attempts := CASE WHEN j.cancel_asked = 1 THEN j.attempts END;
  END IF;
  SELECT * INTO v_appended FROM @append_v1(p_now, j, p_write->'entries', false);
  PERFORM @mark_v1(v_appended.job);
  IF p_write ? 'steps' AND v_appended.has_grown THEN
    j := v_appended.job;
    FOR v_line IN SELECT * FROM jsonb_array_elements_text(p_write->'steps') LOOP
      j.progress := v_line;
      v_event := @append_events_v1(v_event, @event_v1(${eventCodes.step}, j));
    END LOOP;
  END IF;
  IF p_write ? 'effects' AND v_appended.has_grown THEN
    v_unit := @submit_unit_v1(p_now, p_write->'effects');
    IF v_unit->>'kind' <> 'ok' THEN
      RETURN jsonb_build_object('kind', v_unit->>'reason', 'id', v_unit->>'id');
    END IF;
    v_event := @append_events_v1(v_event, v_unit->>'events');
  END IF;
  RETURN jsonb_build_object('kind', 'appended', 'last', v_appended.last, 'at', p_now, 'events', v_event,
    'defers', coalesce((v_unit->>'defers')::bool, false));
END $$;

-- p_routes to p_scopes: the routes of all jobs in effects. p_ids, p_seqs, p_fences: the writes of the set, each job
-- once. p_resets: places of those whose attempts count anew. p_writes: for each entry the place of its write, in order.
-- p_marks, p_unreads: null if none has any. p_readers, p_reads: an entry by its place, and the number of an unread
-- entry that it reads. Answers one text: time; the last number of each journal of the set, null for a lost lease;
-- {place of a lost one: why}; answers of p_singles; whether deferred work was left; events of p_singles.
CREATE FUNCTION @record_v1(p_now int8, p_commit text,
  ${declareRouteLists},
  p_ids text, p_seqs int8[], p_fences int8[], p_resets int4[], p_writes int4[], p_keys text, p_bodies text,
  p_marks int4[], p_unreads int8[], p_readers int4[], p_reads int4[], p_singles jsonb) RETURNS text LANGUAGE plpgsql
  ${byKeys} AS $$
#variable_conflict use_column
DECLARE
  now int8 := ${timeNow};
  v_ids text[] := ${texts("p_ids")};
  v_keys text[] := ${texts("p_keys")};
  v_seqs int8[]; v_durables int4[]; v_lasts int4[]; v_mark int4; v_put int8; v_fresh int8; v_lost jsonb;
  f_writes int4[]; f_lasts int4[]; f_marks int4[]; f_places int4[]; f_numbers int4[]; u_writes int4[]; u_marks int4[];
  v_single jsonb; v_answer jsonb; v_answers jsonb; v_events text; v_defers bool := false;
BEGIN
  ${setCommit}
  ${waitBriefly}
  IF v_ids IS NOT NULL THEN
    ${appendSet}
    FOR v_i IN 1..coalesce(cardinality(p_reads), 0) LOOP
      -- An entry that was passed over reads nothing, and no other reads a later one.
      CONTINUE WHEN coalesce(f_numbers[array_position(f_places, p_readers[v_i])] < p_reads[v_i], true);
      UPDATE @entry e SET unread = NULL
      WHERE e.seq = v_seqs[p_writes[p_readers[v_i]]] AND e.number = p_reads[v_i] AND e.unread IS NOT NULL;
    END LOOP;
    SELECT jsonb_object_agg(l.o - 1, CASE
      @refusal_v1(v_ids[l.o], p_seqs[l.o], p_fences[l.o]) WHEN 'gone' THEN 'gone' ELSE 'stale' END)
    INTO v_lost FROM unnest(v_seqs) WITH ORDINALITY l(seq, o) WHERE l.seq IS NULL;
  END IF;
  IF p_singles IS NOT NULL THEN
    ${keepRoutes()}
    PERFORM @lock_keys_v1(jsonb_path_query_array(p_singles, '$[*].effects'));
    FOR v_single IN SELECT * FROM jsonb_array_elements(p_singles) LOOP
      v_answer := ${callItem("record_one_v1", "v_single")};
      v_events := @append_events_v1(v_events, v_answer->>'events');
      v_defers := v_defers OR coalesce((v_answer->>'defers')::bool, false);
      v_answers := coalesce(v_answers, '[]') || jsonb_build_array(v_answer - '${ofCall}'::text[]);
    END LOOP;
    PERFORM @emit_v1(now, v_events, false);
  END IF;
  RETURN concat_ws(${fieldEnd}, now, coalesce(v_lasts::text, ''), coalesce(v_lost::text, ''),
    coalesce(v_answers::text, ''), v_defers::int4, coalesce(v_events, ''));
END $$;
`;
