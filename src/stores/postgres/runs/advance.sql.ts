/**
 * The end of every rule over one job (store/rules/advance.ts), on the general path. A rule is a function from a row to
 * a row, under its name in store/rules. The row has the type of \`waiting\`, which all three job tables share. The
 * caller has checked the guards under the row's lock.
 */
import { arrows, jobStates, stateCodes } from "../../../model/job/job-state.ts";
import { columnList, jobTables, ofAllTables } from "../functions/columns.ts";
import type { JobTable } from "../functions/columns.ts";
import { isUnreadable } from "../upkeep/unreadable.sql.ts";
import { sql } from "../../../store/sql.ts";

const { scheduled, running, completed } = stateCodes;

/** Every arrow of the model as from * 16 + to; a job may also stay in its state. */
const allowed = jobStates
  .map((from) => [from, ...arrows[from]].map((to) => stateCodes[from] * 16 + stateCodes[to]).join(", "))
  .join(",\n");

/** The earliest clock of a waiting job; `of` is put before each column, `deadlineOf` before the deadline. */
export const waitingTimer = (of: string, deadlineOf = of): string =>
  sql`least(CASE ${of}state WHEN ${scheduled} THEN ${of}due_at END, ${deadlineOf}deadline_at, ${of}ttl_at)`;

/** The largest input, in bytes, that is kept in the job's row; a larger one is kept in payload. */
export const inlineBytesMax = 1024;

const lookIn = (table: JobTable): string => sql`
  SELECT * INTO j FROM @${table} WHERE id = p_id FOR UPDATE;
  IF FOUND AND
    ${isUnreadable(table, "j")} THEN
    PERFORM @keep_unreadable_v1(p_now, NULL, ARRAY[p_id]);
    RETURN NULL;
  END IF;
  IF FOUND THEN RETURN j; END IF;`;
const insertInto = (table: JobTable): string => sql`
  INSERT INTO @${table} (
    ${columnList})
  SELECT (j).*;`;

export const advanceSql = sql`
-- The earliest clock of a job in its state.
CREATE FUNCTION @timer_v1(j @waiting) RETURNS int8 LANGUAGE sql IMMUTABLE AS $$
  SELECT CASE WHEN j.state = ${running} THEN least(j.lease_ends_at, j.attempt_ends_at, j.deadline_at)
    WHEN j.state < ${completed} THEN ${waitingTimer("j.")} END
$$;

-- The row one step on: its arrow is checked, its rev grows, its timer follows from its clocks.
CREATE FUNCTION @advance_v1(p_from int2, j @waiting) RETURNS @waiting LANGUAGE plpgsql IMMUTABLE AS $$
BEGIN
  IF NOT (p_from * 16 + j.state = ANY ('{
    ${allowed}}'::int4[])) THEN
    RAISE EXCEPTION 'millrace: a job cannot move from state % to %', p_from, j.state USING ERRCODE = 'MR002';
  END IF;
  j.rev := j.rev + 1;
  j.timer_at := @timer_v1(j);
  RETURN j;
END $$;

-- Finds a job in any table and locks its row. Answers null if there is no job, or if it cannot be read; then it is
-- moved to unreadable. If the row moves meanwhile, it is looked for again.
CREATE FUNCTION @lock_job_v1(p_now int8, p_id text) RETURNS @waiting LANGUAGE plpgsql AS $$
DECLARE j @waiting;
BEGIN
  FOR i IN 1..50 LOOP
    ${jobTables.map((table) => lookIn(table)).join("\n")}
    PERFORM 1 FROM (
      ${ofAllTables("1", "id = p_id")}) k;
    IF NOT FOUND THEN RETURN NULL; END IF;
  END LOOP;
  RAISE EXCEPTION 'millrace: the job % moves too fast', p_id USING ERRCODE = '40001';
END $$;

-- Adds the tags of a job, each once.
CREATE FUNCTION @add_tags_v1(j @waiting) RETURNS void LANGUAGE sql AS $$
  INSERT INTO @tag SELECT t, j.seq, j.id FROM unnest(@tags_of_v1(j.tags)) t ON CONFLICT DO NOTHING
$$;

-- Deletes the rows of these tags of a job.
CREATE FUNCTION @drop_tags_v1(p_seq int8, p_tags text) RETURNS void LANGUAGE sql AS $$
  DELETE FROM @tag WHERE seq = p_seq AND tag = ANY (@tags_of_v1(p_tags))
$$;

-- Deletes everything that belongs to a job without a row.
CREATE FUNCTION @delete_attached_v1(p_seq int8, p_tags text, p_durable int4) RETURNS void LANGUAGE plpgsql AS $$
BEGIN
  IF p_durable <> 0 THEN PERFORM @delete_journal_v1(p_seq); END IF;
  IF p_tags IS NOT NULL THEN PERFORM @drop_tags_v1(p_seq, p_tags); END IF;
  DELETE FROM @journal WHERE seq = p_seq;
  DELETE FROM @payload WHERE seq = p_seq;
END $$;

-- Writes the result j of a rule in place of the row p_from: the row into the table of its state, or nothing if it is
-- not kept; its input and tags if they have changed; the counts of its route. Answers its event.
CREATE FUNCTION @write_v1(p_from @waiting, j @waiting, p_kind int4, p_kept bool) RETURNS text LANGUAGE plpgsql AS $$
BEGIN
  IF p_from.lane_key IS NOT NULL OR j.lane_key IS NOT NULL THEN
    PERFORM @move_lane_v1(p_from, j, p_kept);
  END IF;
  IF p_from.state = ${running} THEN DELETE FROM @leased WHERE id = j.id;
  ELSIF p_from.state < ${completed} THEN DELETE FROM @waiting WHERE id = j.id;
  ELSE DELETE FROM @history WHERE id = j.id AND ended_at = p_from.ended_at; END IF;
  IF NOT p_kept THEN
    PERFORM @delete_attached_v1(j.seq, p_from.tags, j.durable);
    INSERT INTO @state_count VALUES (p_from.route, p_from.state, -1);
    RETURN @event_v1(p_kind, j);
  END IF;
  IF j.input IS DISTINCT FROM p_from.input THEN
    IF octet_length(j.input) <= ${inlineBytesMax} THEN
      DELETE FROM @payload WHERE seq = j.seq;
    ELSE
      INSERT INTO @payload VALUES (j.seq, j.input) ON CONFLICT (seq) DO UPDATE SET input = excluded.input;
      j.input := NULL;
    END IF;
  END IF;
  IF j.tags IS DISTINCT FROM p_from.tags THEN
    PERFORM @drop_tags_v1(j.seq, p_from.tags);
    PERFORM @add_tags_v1(j);
  END IF;
  IF j.state = ${running} THEN
    ${insertInto("leased")}
  ELSIF j.state < ${completed} THEN
    ${insertInto("waiting")}
  ELSE
    ${insertInto("history")}
  END IF;
  IF p_from.state <> j.state OR p_from.route <> j.route THEN
    INSERT INTO @state_count VALUES (p_from.route, p_from.state, -1), (j.route, j.state, 1);
  END IF;
  RETURN @event_v1(p_kind, j);
END $$;
`;
