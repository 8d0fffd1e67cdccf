/** Reads jobs: by id, in lists, their counts, their log lines. Nothing here writes. */
import { stateCodes } from "../../../model/job/job-state.ts";
import { columnOf, fieldNames } from "../../../store/job-fields.ts";
import type { JobFieldName } from "../../../store/job-fields.ts";
import { byIndex } from "../functions/call.sql.ts";
import { declareSql, ofAllTables, selectSql, typeOf } from "../functions/columns.ts";
import { inLines, sql } from "../../../store/sql.ts";

/**
 * The fields of a job that a read answers: all but the store's own fields, and the route, from which its queue and name
 * follow.
 */
export const recordFields: readonly JobFieldName[] = [...fieldNames(({ isOwn }) => isOwn !== true), "route"];
const recordColumns = inLines(recordFields.map(columnOf));

const byId = (id: string): string => ofAllTables(recordColumns, `j.id = ${id}`);

/** The rows of one table below v_below, the newest first. */
const newest = (table: string, where: string): string => sql`
  (SELECT ${recordColumns}
    FROM @${table} WHERE seq < v_below AND ${where} ORDER BY seq DESC LIMIT v_chunk)`;

const window = sql`
  (SELECT * FROM (
    ${newest("waiting", "p_waiting")}
    UNION ALL
    ${newest("leased", "p_leased")}
    UNION ALL
    ${newest("history", "p_completed")}
    UNION ALL
    ${newest("history", sql`state <> ${stateCodes.completed} AND p_uncompleted`)}
    UNION ALL
    ${newest("history", "keeps_lane = 1 AND p_keeping")}) a
    ORDER BY seq DESC LIMIT v_chunk)`;

const tagged = sql`
  (SELECT k.* FROM (
      SELECT id, seq FROM @tag WHERE tag = p_tag AND seq < v_below ORDER BY seq DESC LIMIT v_chunk) t
    CROSS JOIN LATERAL (
      ${byId("t.id")}) k
    ORDER BY t.seq DESC)`;

const filter = sql`
  (p_states IS NULL OR w.state = ANY (p_states)) AND (v_routes IS NULL OR w.route = ANY (v_routes))
  AND (p_reason IS NULL OR w.reason = p_reason) AND (p_after IS NULL OR w.created_at > p_after)
  AND (p_before IS NULL OR w.created_at < p_before) AND (NOT p_keeps OR w.keeps_lane = 1)`;

/**
 * Reads one chunk: its rows that match, each with its number among all rows read; then where the chunk ended, unless
 * enough jobs were found.
 */
const findIn = (rows: string): string => sql`
  RETURN QUERY SELECT v_seen + w.place,
    ${selectSql("w", recordFields)}
  FROM (
    SELECT v.*, row_number() OVER () AS place FROM
    ${rows} v) w
  WHERE ${filter}
  ORDER BY w.place LIMIT p_max - v_found;
  GET DIAGNOSTICS v_rows = ROW_COUNT;
  v_found := v_found + v_rows;
  EXIT WHEN v_found = p_max;
  SELECT count(*), min(v.seq) INTO v_rows, v_below FROM
  ${rows} v;`;

/** The row that stands for no job: its seq is where the search goes on. */
const noJob = inLines(
  recordFields.map((name) =>
    name === "seq" ? "CASE WHEN v_rows = v_chunk THEN v_below END" : `NULL::${typeOf(name)}`,
  ),
);

export const readSql = sql`
-- These jobs, in any order. It is not in LANGUAGE sql, because it would then be inlined into the caller's statement and
-- planned with each call: 2.1 ms for one job instead of 0.7.
CREATE FUNCTION @read_jobs_v1(p_ids text[]) RETURNS TABLE (
    ${declareSql(recordFields)})
  LANGUAGE plpgsql STABLE
  ${byIndex} AS $$
#variable_conflict use_column
BEGIN
  RETURN QUERY SELECT ${selectSql("k", recordFields)}
  FROM unnest(p_ids) a(id) CROSS JOIN LATERAL (
    ${byId("a.id")}) k;
END $$;

-- Jobs by filters, newest first. p_completed: all finished jobs; p_uncompleted: those that did not complete; p_keeping:
-- those that hold their groups. p_keeps: only jobs that hold their groups, finished or not. Reads at most p_scan rows,
-- in growing chunks. If fewer than p_max jobs were found, a last row without a job says how many rows were read and, if
-- there may be more, below which seq.
CREATE FUNCTION @find_jobs_v1(p_below int8, p_scan int4, p_max int4, p_waiting bool, p_leased bool,
  p_completed bool, p_uncompleted bool, p_keeping bool, p_keeps bool, p_tag text, p_states int2[], p_queue text,
  p_name text, p_requires text, p_reason text, p_after int8, p_before int8) RETURNS TABLE (place int8,
    ${declareSql(recordFields)})
  LANGUAGE plpgsql STABLE AS $$
#variable_conflict use_column
DECLARE
  v_found int8 := 0; v_seen int8 := 0; v_rows int8; v_below int8 := p_below;
  v_chunk int4 := least(p_scan, greatest(2 * p_max, 100));
  v_routes int8[] := CASE WHEN num_nonnulls(p_queue, p_name, p_requires) > 0 THEN ARRAY(
    SELECT number FROM @route
    WHERE (p_queue IS NULL OR queue = p_queue) AND (p_name IS NULL OR name = p_name)
      AND (p_requires IS NULL OR requires = p_requires)) END;
BEGIN
  LOOP
    IF p_tag IS NULL THEN
      ${findIn(window)}
    ELSE
      ${findIn(tagged)}
    END IF;
    v_seen := v_seen + v_rows;
    IF v_rows < v_chunk OR v_seen >= p_scan THEN
      RETURN QUERY SELECT v_seen,
        ${noJob};
      RETURN;
    END IF;
    v_chunk := least(p_scan - v_seen, v_chunk::int8 * 4);
  END LOOP;
END $$;

-- How many jobs of each route are in each state.
CREATE FUNCTION @count_jobs_v1() RETURNS TABLE (route int8, state int2, jobs int8) LANGUAGE sql STABLE AS $$
  SELECT route, state, sum(count)::int8 FROM @state_count
  GROUP BY route, state HAVING sum(count) <> 0 ORDER BY route, state
$$;

-- A page of a job's log lines, after the line p_after.
CREATE FUNCTION @read_logs_v1(p_id text, p_after int4, p_max int4)
  RETURNS TABLE (number int8, at int8, body text) LANGUAGE sql STABLE AS $$
  SELECT t.number, t.at, t.body FROM @journal t
  WHERE t.seq = (
      ${ofAllTables("seq", "j.id = p_id")} LIMIT 1) AND t.fence = 0 AND t.number > p_after
  ORDER BY t.number LIMIT p_max
$$;
`;
