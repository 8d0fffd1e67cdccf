/**
 * Records that cannot be read. A read, a claim, a change or the audit that finds one has it moved to the table
 * unreadable: it leaves its table, its indexes and its counts in one step. Operators can look at it there and delete
 * it.
 *
 * A row is unreadable if its state is not one of its table, its tags are no list of texts, its waits are no numbers,
 * its input is gone, or one of its numbers is too large to count with; in leased or history also if it has no lease or
 * no end.
 */
import { stateCodes } from "../../../model/job/job-state.ts";
import { columnOf, fieldNames } from "../../../store/job-fields.ts";
import type { JobFieldName } from "../../../store/job-fields.ts";
import { jobTables, ofAllTables, typeOf, wholeInput } from "../functions/columns.ts";
import type { JobTable } from "../functions/columns.ts";
import { sql } from "../../../store/sql.ts";

const { running, completed } = stateCodes;
const isStateOf: Record<JobTable, (code: number) => boolean> = {
  waiting: (code) => code < completed && code !== running,
  leased: (code) => code === running,
  history: (code) => code >= completed,
};
const needed: Record<JobTable, readonly JobFieldName[]> = {
  waiting: [],
  leased: ["owner", "claimedAt", "leaseEndsAt"],
  history: ["endedAt"],
};
const codesOf = (table: JobTable): string => Object.values(stateCodes).filter(isStateOf[table]).join(", ");

/**
 * A list of texts without rare escapes. The audit reads every row, and reading each list as JSON took 40 us per job,
 * because a block that expects an error begins a subtransaction.
 */
const text = String.raw`"(?:[^"\\[:cntrl:]]|\\["\\/bfnrt])*"`;
const isNoList = (list: string): string => sql`
  CASE
    WHEN ${list} IS NULL OR ${list}
      ~ '^\\[${text}(?:, ?${text})*\\]$'
    THEN false ELSE @tags_of_v1(${list}) IS NULL END`;

/** As model/flow/waits.ts writes them: four numbers, or the ten of a flow. */
const waitsPattern = "^-?[0-9]{1,15}(,-?[0-9]{1,15}){3}((,-?[0-9]{1,15}){6})?$";
const listsOfRow = ["tags", "lane_gates", "edges"];

/** Values at which rules and reads fail: a state of another table; tags, gates, edges or counts that cannot be read. */
export const isUnreadable = (table: JobTable, row: string): string => sql`
  (${row}.state NOT IN (${codesOf(table)})
    OR ${listsOfRow.map((list) => isNoList(`${row}.${list}`)).join("\nOR ")}
    OR coalesce(${row}.waits !~ '${waitsPattern}', false))`;

/** The number after it must fit as well, hence the 2. */
const limits: Readonly<Record<string, number>> = { int8: Number.MAX_SAFE_INTEGER, int4: 2 ** 31 - 2 };
const isBeyond = fieldNames((_, name) => limits[typeOf(name as JobFieldName)] !== undefined)
  .map((name) => [columnOf(name), limits[typeOf(name)] as number] as const)
  .map(([column, max]) => `j.${column} NOT BETWEEN ${-max} AND ${max}`)
  .join("\nOR ");

/** The reason in words; null for a sound row. */
const whyUnreadable = (table: JobTable): string => sql`
  CASE
    WHEN j.state NOT IN (${codesOf(table)}) THEN 'state ' || j.state || ' in ${table}'
    WHEN
      ${isUnreadable(table, "j")}
    THEN 'tags, gates or edges that are no list of texts, or waits that are no numbers'
    WHEN ${wholeInput("j")} IS NULL THEN 'no input'
    ${needed[table].map((name) => `WHEN j.${columnOf(name)} IS NULL THEN 'no ${name}'`).join("\n")}
    WHEN
      ${isBeyond}
    THEN 'a number out of range' END`;

const textCharactersMax = 4000;

const keepUnreadable = (table: JobTable): string => sql`
  WITH bad AS (
    DELETE FROM @${table} j
    WHERE (p_ids IS NULL OR j.id = ANY (p_ids)) AND (p_last IS NULL OR (j.seq > p_after AND j.seq <= p_last))
      AND
        ${whyUnreadable(table)} IS NOT NULL
    RETURNING j.*,
      ${whyUnreadable(table)} AS why,
      ${wholeInput("j")} AS whole),
  kept AS (
    INSERT INTO @unreadable
    SELECT '${table}:' || seq, id, why, v_now,
      left((to_jsonb(bad) - '{why,whole}'::text[] || jsonb_build_object('input', whole))::text, ${textCharactersMax})
    FROM bad
    ON CONFLICT (ref) DO UPDATE SET id = excluded.id, why = excluded.why, at = excluded.at, text = excluded.text),
  freed AS (DELETE FROM @uniq u USING bad b WHERE u.key = b.unique_key AND u.seq = b.seq),
  returned AS (DELETE FROM @permit p USING bad b WHERE p.seq = b.seq AND b.lane_key IS NOT NULL RETURNING p.key),
  deleted AS (SELECT route, @delete_attached_v1(seq, tags, durable) FROM bad)
  SELECT (SELECT count(*) FROM deleted), (SELECT array_agg(DISTINCT route) FROM bad),
    (SELECT array_agg(lane_key) FROM bad), (SELECT array_agg(route) FROM bad), (SELECT array_agg(key) FROM returned)
  INTO v_count, v_routes, v_lanes, v_lane_routes, v_gates;
  PERFORM @lanes_changed_v1(v_lanes, v_lane_routes, NULL) WHERE v_lanes IS NOT NULL;
  PERFORM @gates_changed_v1(v_gates) WHERE v_gates IS NOT NULL;
  kept := kept + v_count;
  -- The state under which a damaged row was counted is unknown, so its route is counted anew.
  IF v_count > 0 THEN PERFORM @recount_v1(v_routes); END IF;`;

export const unreadableSql = sql`
-- A list of texts as a row holds it; null if it is none.
CREATE FUNCTION @tags_of_v1(p_tags text) RETURNS text[] LANGUAGE plpgsql IMMUTABLE AS $$
BEGIN
  RETURN ARRAY(SELECT jsonb_array_elements_text(p_tags::jsonb));
EXCEPTION WHEN data_exception THEN
  RETURN NULL;
END $$;

-- Corrects the counts of these routes, or of all; answers how many were wrong. It counts in one snapshot with the
-- stored counts, which are exact at every commit, so any difference is an error. The correction is one more delta.
CREATE FUNCTION @recount_v1(p_routes int8[]) RETURNS int8 LANGUAGE plpgsql
  SET plan_cache_mode = force_custom_plan AS $$
DECLARE v_repaired int8;
BEGIN
  WITH real AS (
    SELECT route, state, count(*) AS jobs FROM (
      ${ofAllTables("route, state")}) j
    WHERE p_routes IS NULL OR route = ANY (p_routes) GROUP BY route, state),
  counted AS (
    SELECT route, state, sum(count) AS jobs FROM @state_count
    WHERE p_routes IS NULL OR route = ANY (p_routes) GROUP BY route, state)
  INSERT INTO @state_count
  SELECT route, state, coalesce(r.jobs, 0) - coalesce(t.jobs, 0) FROM real r FULL JOIN counted t USING (route, state)
  WHERE coalesce(r.jobs, 0) <> coalesce(t.jobs, 0);
  GET DIAGNOSTICS v_repaired = ROW_COUNT;
  RETURN v_repaired;
END $$;

-- Checks the rows of p_ids, or those after p_after up to p_last. kept: how many were unreadable.
CREATE FUNCTION @keep_unreadable_v1(p_now int8, p_commit text, p_ids text[],
  p_after int8 DEFAULT NULL, p_last int8 DEFAULT NULL, OUT kept int8) LANGUAGE plpgsql
  SET plan_cache_mode = force_custom_plan AS $$
#variable_conflict use_column
DECLARE
  v_now int8 := @begin_v1(p_now, p_commit);
  v_count int8; v_routes int8[]; v_lanes text[]; v_lane_routes int8[]; v_gates text[];
BEGIN
  kept := 0;
  ${jobTables.map((table) => keepUnreadable(table)).join("\n")}
END $$;

-- A row of route whose number does not follow from its content. The next submit of its jobs adds the right row.
CREATE FUNCTION @keep_unreadable_route_v1(p_now int8, p_commit text, p_number int8, p_queue text, p_name text,
  p_requires text, p_gates jsonb, p_lanes text) RETURNS void LANGUAGE sql AS $$
  WITH bad AS (
    DELETE FROM @route r
    WHERE r.number = p_number AND r.queue = p_queue AND r.name = p_name AND r.requires = p_requires
      AND r.gates = p_gates AND r.lanes IS NOT DISTINCT FROM p_lanes
    RETURNING r.*)
  INSERT INTO @unreadable
  SELECT 'route:' || number || ':' || md5(bad::text), NULL, 'a route whose number is another''s',
    @begin_v1(p_now, p_commit), left(to_jsonb(bad)::text, ${textCharactersMax})
  FROM bad LIMIT 1 ON CONFLICT DO NOTHING
$$;

-- A page of the unreadable records, in order of their refs after p_after.
CREATE FUNCTION @read_unreadable_v1(p_after text, p_max int4) RETURNS SETOF @unreadable LANGUAGE sql STABLE AS $$
  SELECT * FROM @unreadable WHERE p_after IS NULL OR ref > p_after ORDER BY ref LIMIT p_max
$$;

-- Deletes these records; answers how many of them there were.
CREATE FUNCTION @delete_unreadable_v1(p_now int8, p_commit text, p_refs text[]) RETURNS int8 LANGUAGE sql AS $$
  SELECT @begin_v1(p_now, p_commit);
  WITH gone AS (DELETE FROM @unreadable WHERE ref = ANY (p_refs) RETURNING 1) SELECT count(*) FROM gone
$$;
`;
