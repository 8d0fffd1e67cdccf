/**
 * Rule R2 over the journal of a durable run (store/rules/journal.ts), on the general path. The journal is rows of
 * `entry`, under the seq of the job. Whoever appends has locked the job's row against its end, its reclaim and the
 * appends of others. Two calls of one attempt may meet (the reply of the first was lost): the unique number lets only
 * one of them go on.
 *
 * A row with a number below 1 is the key of an entry of an earlier round that is still refused. Its key begins with a
 * character that no packed text has, so it meets no key of this round. The newest of them has the lowest number.
 *
 * Each look names its index by comparing rows. Statistics of a table that has just grown lead the planner to another
 * one, which reads the whole journal of a job for each entry.
 */
import { durableMarks, roundStep } from "../../../model/durable/durable-marks.ts";
import { stateCodes } from "../../../model/job/job-state.ts";
import { storeLimits } from "../../../store/contract-limits.ts";
import { clearSql } from "../functions/columns.ts";
import { fieldEnd } from "../functions/packed-values.ts";
import { inLines, sql } from "../../../store/sql.ts";

const { running, completed, suspended } = stateCodes;
const { hasJournal, isEnding } = durableMarks;

const numberMax = 2 ** 31 - 1;

/** The last number of the journal under this seq; 0 for an empty one. */
export const lastEntry = (seq: string): string => sql`
  coalesce((
    SELECT CASE WHEN e.seq = ${seq} THEN greatest(e.number, 0) END FROM @entry e
    WHERE (e.seq, e.number) <= (${seq}, ${numberMax}) ORDER BY e.seq DESC, e.number DESC LIMIT 1), 0)`;

/** Whether the journal under this seq has this key. */
export const hasKey = (seq: string, key: string): string => sql`
  coalesce((
    SELECT e.seq = ${seq} AND e.key = ${key} FROM @entry e
    WHERE (e.seq, e.key) >= (${seq}, ${key}) ORDER BY e.seq, e.key LIMIT 1), false)`;

/** The job has started others that end with it: its end, whatever the cause, leaves deferred work. */
export const hasChildren = (of = ""): string => `(${of}durable & ${durableMarks.hasChildren}) <> 0`;

const oldKey = (key: string): string => `${fieldEnd} || ${key}`;

/** What a mark can change in a row. */
const marked = ["durable", "deadline_at", "cancel_asked", "timer_at", "attempt", "attempts", "change_token"];
const writeMarks = (table: string, where = "true"): string => sql`
  UPDATE @${table} w SET
    ${inLines(marked.map((column) => `${column} = j.${column}`))}
  WHERE w.id = j.id AND ${where} AND (
      ${inLines(marked.map((column) => `w.${column}`))})
    IS DISTINCT FROM (
      ${inLines(marked.map((column) => `j.${column}`))});`;

export const entrySql = sql`
-- Appends entries in order to the journal of job j. An entry whose key the journal has is passed over. p_foreign:
-- others append it. job: the row with the marks of the entries, not yet written; last: the last number of the journal;
-- has_grown: one of the entries was new.
CREATE FUNCTION @append_v1(p_now int8, j @waiting, p_entries jsonb, p_foreign bool,
  OUT job @waiting, OUT last int4, OUT has_grown bool) LANGUAGE plpgsql AS $$
DECLARE v_entry jsonb; v_key text; v_marks int4;
BEGIN
  last := ${lastEntry("j.seq")};
  has_grown := false;
  FOR v_entry IN SELECT * FROM jsonb_array_elements(p_entries) LOOP
    j.durable := j.durable | ${hasJournal};
    v_key := v_entry->>'key';
    CONTINUE WHEN ${hasKey("j.seq", "v_key")};
    last := last + 1;
    has_grown := true;
    INSERT INTO @entry
    VALUES (j.seq, p_now, last, p_foreign, v_key, v_entry->>'body', (v_entry->>'unread')::int8);
    IF v_entry ? 'reads' THEN
      UPDATE @entry e SET unread = NULL
      FROM (SELECT DISTINCT r::int4 AS number FROM jsonb_array_elements_text(v_entry->'reads') r) r
      WHERE e.seq = j.seq AND e.number = r.number AND e.unread IS NOT NULL;
    END IF;
    v_marks := coalesce((v_entry->>'marks')::int4, 0);
    j.durable := j.durable | v_marks;
    -- The undos of the run are not to be stopped by what ended it.
    IF v_marks & ${isEnding} <> 0 THEN
      j.deadline_at := NULL;
      j.cancel_asked := 0;
      j.timer_at := @timer_v1(j);
    END IF;
  END LOOP;
  job := j;
END $$;

-- Writes the marks of job j into its row, which stays where it is.
CREATE FUNCTION @mark_v1(j @waiting) RETURNS void LANGUAGE plpgsql AS $$
BEGIN
  IF j.state = ${running} THEN
    ${writeMarks("leased")}
  ELSIF j.state < ${completed} THEN
    ${writeMarks("waiting")}
  ELSE
    ${writeMarks("history", "w.ended_at = j.ended_at")}
  END IF;
END $$;

-- Whether one of these keys of others is refused by the journal: it has it, or an earlier round had it.
CREATE FUNCTION @is_repeated_v1(p_seq int8, p_keys jsonb) RETURNS bool LANGUAGE plpgsql STABLE AS $$
DECLARE v_key text;
BEGIN
  FOR v_key IN SELECT * FROM jsonb_array_elements_text(p_keys) LOOP
    IF ${hasKey("p_seq", "v_key")}
      OR ${hasKey("p_seq", oldKey("v_key"))} THEN
      RETURN true;
    END IF;
  END LOOP;
  RETURN false;
END $$;

-- Whether the entry of an append is one too many, or too large. p_append: {entry, unreadMax?: {count, size}}.
CREATE FUNCTION @is_full_v1(p_seq int8, p_append jsonb) RETURNS bool LANGUAGE sql STABLE AS $$
  SELECT p_append ? 'unreadMax' AND (
    SELECT count(*) + (p_append->'entry' ? 'unread')::int4 > (p_append->'unreadMax'->>'count')::int8
      OR coalesce(sum(unread), 0) + coalesce((p_append->'entry'->>'unread')::int8, 0)
        > (p_append->'unreadMax'->>'size')::int8
    FROM @entry WHERE seq = p_seq AND unread IS NOT NULL)
$$;

-- A new round of job j: its unread entries stay, with new numbers, and the newest keys of others. Answers its field
-- durable.
CREATE FUNCTION @begin_round_v1(j @waiting) RETURNS int4 LANGUAGE plpgsql AS $$
DECLARE v_number int4; v_next int4 := 0;
BEGIN
  INSERT INTO @entry
  SELECT j.seq, at, least((SELECT min(number) FROM @entry WHERE seq = j.seq), 0)
    - (row_number() OVER (ORDER BY number))::int4, true, ${oldKey("key")}, ''
  FROM @entry WHERE seq = j.seq AND number > 0 AND is_foreign ORDER BY number
    ON CONFLICT (seq, key) DO NOTHING;
  DELETE FROM @entry
  WHERE seq = j.seq AND (CASE WHEN number > 0 THEN unread IS NULL ELSE number > (
    SELECT number FROM @entry WHERE seq = j.seq AND number < 1
    ORDER BY number OFFSET ${storeLimits.journalKeysKeptMax - 1} LIMIT 1) END);
  -- In order, because no two may have one number in between.
  FOR v_number IN SELECT number FROM @entry WHERE seq = j.seq AND number > 0 ORDER BY number LOOP
    v_next := v_next + 1;
    UPDATE @entry SET number = v_next WHERE seq = j.seq AND number = v_number AND v_number <> v_next;
  END LOOP;
  DELETE FROM @slip WHERE seq = j.seq;
  RETURN (j.durable / ${roundStep} + 1) * ${roundStep} + (j.durable & ${hasJournal});
END $$;

-- Deletes the journals of these jobs.
CREATE FUNCTION @delete_journal_v1(p_seq int8) RETURNS void LANGUAGE sql AS $$
  DELETE FROM @entry WHERE seq = p_seq;
  DELETE FROM @slip WHERE seq = p_seq
$$;

-- Rule R1: a running job waits for an append or a time. p_next: a Suspend.
CREATE FUNCTION @suspend_v1(p_now int8, j @waiting, p_next jsonb) RETURNS @waiting LANGUAGE plpgsql IMMUTABLE AS $$
BEGIN
  ${clearSql("place")}
  j.state := ${suspended};
  j.ttl_at := @due_v1(p_now, p_next->'wake');
  j.counts_attempt := (p_next->>'countsAttempt')::int2;
  j.attempt := coalesce((p_next->>'attempt')::int4, j.attempt);
  j.keeps_lane := CASE WHEN j.lane_key IS NOT NULL AND (p_next->>'keepsLane')::bool THEN 1 ELSE 0 END;
  RETURN j;
END $$;
`;
