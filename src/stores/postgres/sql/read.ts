/** Looking at jobs: by id, in lists, their counts, their log lines. None of it writes. */
import { stateCodes } from "../../../model/job-state.ts";

/** In the order that read.ts in the store's folder unpacks. */
export const recordColumns =
  "id, seq, route, created_at, unique_key, policy, meta, tags, input, state, rev, fence, attempt, counts_attempt, rank, due_at, deadline_at, ttl_at, cancel_asked, owner, claimed_at, started_at, attempts, progress, lease_ends_at, attempt_ends_at, ended_at, reason, result, keep_until";

const recordTypes = `id text, seq int8, queue text, name text, created_at int8, unique_key text, policy text, meta text, tags text, input text, state int2,
  rev int4, fence int8, attempt int4, counts_attempt int2, rank int8, due_at int8, deadline_at int8, ttl_at int8, cancel_asked bool, owner text, claimed_at int8,
  started_at int8, attempts text, progress text, lease_ends_at int8, attempt_ends_at int8, ended_at int8, reason text, result text, keep_until int8`;

const record = (s: string, j: string): string =>
  recordColumns
    .split(", ")
    .map((column) =>
      column === "input"
        ? `coalesce(${j}.input, (SELECT p.input FROM ${s}.payload p WHERE p.seq = ${j}.seq))`
        : column === "route"
          ? "r.queue, r.name"
          : `${j}.${column}`,
    )
    .join(", ");

const byId = (s: string, id: string): string =>
  ["waiting", "leased", "history"]
    .map((table) => `SELECT ${recordColumns} FROM ${s}.${table} WHERE id = ${id}`)
    .join(" UNION ALL ");

/** Newest first below v_below, one table. */
const newest = (s: string, table: string, where: string): string =>
  `(SELECT ${recordColumns} FROM ${s}.${table} WHERE seq < v_below AND ${where} ORDER BY seq DESC LIMIT v_chunk)`;

const window = (s: string): string => `(SELECT * FROM (
      ${newest(s, "waiting", "p_waiting")}
      UNION ALL ${newest(s, "leased", "p_leased")}
      UNION ALL ${newest(s, "history", "p_finished = 2")}
      UNION ALL ${newest(s, "history", `state <> ${stateCodes.completed} AND p_finished = 1`)}) a
    ORDER BY seq DESC LIMIT v_chunk)`;

const tagged = (
  s: string,
): string => `(SELECT k.* FROM (SELECT id, seq FROM ${s}.tag WHERE tag = p_tag AND seq < v_below ORDER BY seq DESC LIMIT v_chunk) t
      CROSS JOIN LATERAL (${byId(s, "t.id")}) k ORDER BY t.seq DESC)`;

const filter = `(p_states IS NULL OR w.state = ANY (p_states)) AND (p_queue IS NULL OR r.queue = p_queue) AND (p_name IS NULL OR r.name = p_name)
      AND (p_reason IS NULL OR w.reason = p_reason) AND (p_after IS NULL OR w.created_at > p_after) AND (p_before IS NULL OR w.created_at < p_before)`;

/** One chunk: the rows of it that match, each with its place among all rows looked at; then where the chunk ended, unless enough was found. */
const findIn = (s: string, rows: string): string => `
      RETURN QUERY SELECT v_seen + w.place, ${record(s, "w")} FROM (SELECT v.*, row_number() OVER () AS place FROM ${rows} v) w
        JOIN ${s}.route r ON r.number = w.route WHERE ${filter} ORDER BY w.place LIMIT p_max - v_found;
      GET DIAGNOSTICS v_rows = ROW_COUNT;
      v_found := v_found + v_rows;
      EXIT WHEN v_found = p_max;
      SELECT count(*), min(v.seq) INTO v_rows, v_below FROM ${rows} v;`;

const nulls = recordTypes
  .split(/,\s*/)
  .slice(2)
  .map((column) => `NULL::${column.split(" ").at(-1)}`)
  .join(", ");

export const readSql = (s: string): string => `
CREATE FUNCTION ${s}.read_jobs_v1(p_ids text[]) RETURNS TABLE (${recordTypes}) LANGUAGE sql STABLE AS $$
  SELECT ${record(s, "k")} FROM unnest(p_ids) a(id) CROSS JOIN LATERAL (${byId(s, "a.id")}) k JOIN ${s}.route r ON r.number = k.route
$$;

-- p_finished: 0 none, 1 all but completed, 2 all. Looks at p_scan rows at most, in growing chunks. Unless p_max jobs were found, a last row
-- without a job tells how many rows were looked at and, if there may be more, below which seq.
CREATE FUNCTION ${s}.find_jobs_v1(p_below int8, p_scan int4, p_max int4, p_waiting bool, p_leased bool, p_finished int4, p_tag text, p_states int2[], p_queue text,
  p_name text, p_reason text, p_after int8, p_before int8) RETURNS TABLE (place int8, ${recordTypes}) LANGUAGE plpgsql STABLE AS $$
#variable_conflict use_column
DECLARE v_found int8 := 0; v_seen int8 := 0; v_rows int8; v_below int8 := p_below; v_chunk int4 := least(p_scan, greatest(2 * p_max, 100));
BEGIN
  LOOP
    IF p_tag IS NULL THEN${findIn(s, window(s))}
    ELSE${findIn(s, tagged(s))}
    END IF;
    v_seen := v_seen + v_rows;
    IF v_rows < v_chunk OR v_seen >= p_scan THEN
      RETURN QUERY SELECT v_seen, NULL::text, CASE WHEN v_rows = v_chunk THEN v_below END, ${nulls};
      RETURN;
    END IF;
    v_chunk := least(p_scan - v_seen, v_chunk::int8 * 4);
  END LOOP;
END $$;

CREATE FUNCTION ${s}.tally_jobs_v1() RETURNS TABLE (queue text, name text, state int2, jobs int8) LANGUAGE sql STABLE AS $$
  SELECT r.queue, r.name, t.state, sum(t.count)::int8 FROM ${s}.tally t JOIN ${s}.route r ON r.number = t.route
  GROUP BY r.number, t.state HAVING sum(t.count) <> 0 ORDER BY r.number, t.state
$$;

CREATE FUNCTION ${s}.read_trail_v1(p_id text, p_after int4, p_max int4) RETURNS TABLE (number int4, at int8, body text) LANGUAGE sql STABLE AS $$
  SELECT t.number, t.at, t.body FROM ${s}.trail t WHERE t.seq = (SELECT seq FROM ${s}.waiting WHERE id = p_id UNION ALL SELECT seq FROM ${s}.leased WHERE id = p_id
    UNION ALL SELECT seq FROM ${s}.history WHERE id = p_id LIMIT 1) AND t.number > p_after ORDER BY t.number LIMIT p_max
$$;
`;
