/**
 * Records that cannot be read. Whoever meets one (a read, a claim, a change, the audit) has it set aside: it leaves its
 * table, its indexes and its counts in one step and is kept in aside, for an operator to look at and to remove.
 *
 * A row is bad whose state is none of its table's, whose tags are no list of texts, whose waits are no numbers, whose
 * input is gone, one of whose numbers is beyond what a program can count, and in leased or history a row without a
 * lease or an end.
 */
import { stateCodes } from "../../../model/job/job-state.ts";
import { columnOf, fieldNames } from "../../../store/job-fields.ts";
import type { JobFieldName } from "../../../store/job-fields.ts";
import { jobTables, ofAllTables, typeOf, wholeInput } from "../functions/columns.ts";
import type { JobTable } from "../functions/columns.ts";

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
 * A list of texts without rare escapes. Reading the list for a look at every row of an audit took 40 us a job, because
 * who expects an error begins a subtransaction.
 */
const text = String.raw`"(?:[^"\\[:cntrl:]]|\\["\\/bfnrt])*"`;
const isNoList = (list: string): string =>
  `CASE WHEN ${list} IS NULL OR ${list} ~ '^\\[${text}(?:, ?${text})*\\]$' THEN false ELSE @tags_of_v1(${list}) IS NULL END`;

/** As model/flow/flow-waits.ts writes them: four numbers, or the ten of a flow. */
const waitsPattern = "^-?[0-9]{1,15}(,-?[0-9]{1,15}){3}((,-?[0-9]{1,15}){6})?$";
const listsOfRow = ["tags", "lane_gates", "edges"];

/** What rules and reads stumble over: a state of another table, tags, gates, edges or counts that cannot be read. */
export const isUnsound = (table: JobTable, row: string): string =>
  `(${row}.state NOT IN (${codesOf(table)}) OR ${listsOfRow.map((list) => isNoList(`${row}.${list}`)).join(" OR ")}
    OR coalesce(${row}.waits !~ '${waitsPattern}', false))`;

/** The next number of each must fit as well. */
const limits: Readonly<Record<string, number>> = { int8: Number.MAX_SAFE_INTEGER, int4: 2 ** 31 - 2 };
const isBeyond = fieldNames((_, name) => limits[typeOf(name as JobFieldName)] !== undefined)
  .map((name) => [columnOf(name), limits[typeOf(name)] as number] as const)
  .map(([column, max]) => `j.${column} NOT BETWEEN ${-max} AND ${max}`)
  .join(" OR ");

/** In words; null for a sound row. */
const whyBad = (table: JobTable): string => `CASE
    WHEN j.state NOT IN (${codesOf(table)}) THEN 'state ' || j.state || ' in ${table}'
    WHEN ${isUnsound(table, "j")} THEN 'tags, gates or edges that are no list of texts, or waits that are no numbers'
    WHEN ${wholeInput("j")} IS NULL THEN 'no input'
    ${needed[table].map((name) => `WHEN j.${columnOf(name)} IS NULL THEN 'no ${name}'`).join("\n    ")}
    WHEN ${isBeyond} THEN 'a number out of range' END`;

const textCharactersMax = 4000;

const setAside = (table: JobTable): string => `
  WITH bad AS (
    DELETE FROM @${table} j WHERE (p_ids IS NULL OR j.id = ANY (p_ids)) AND (p_last IS NULL OR (j.seq > p_after AND j.seq <= p_last)) AND ${whyBad(table)} IS NOT NULL
    RETURNING j.*, ${whyBad(table)} AS why, ${wholeInput("j")} AS whole),
  kept AS (
    INSERT INTO @aside SELECT '${table}:' || seq, id, why, v_now,
      left((to_jsonb(bad) - '{why,whole}'::text[] || jsonb_build_object('input', whole))::text, ${textCharactersMax}) FROM bad
    ON CONFLICT (ref) DO UPDATE SET id = excluded.id, why = excluded.why, at = excluded.at, text = excluded.text),
  freed AS (DELETE FROM @uniq u USING bad b WHERE u.key = b.unique_key AND u.seq = b.seq),
  returned AS (DELETE FROM @permit p USING bad b WHERE p.seq = b.seq AND b.lane_key IS NOT NULL RETURNING p.key),
  forgotten AS (SELECT route, @forget_v1(seq, tags) FROM bad)
  SELECT (SELECT count(*) FROM forgotten), (SELECT array_agg(DISTINCT route) FROM bad), (SELECT array_agg(lane_key) FROM bad), (SELECT array_agg(route) FROM bad), (SELECT array_agg(key) FROM returned)
    INTO v_count, v_routes, v_lanes, v_lane_routes, v_gates;
  PERFORM @touch_lanes_v1(v_lanes, v_lane_routes, NULL) WHERE v_lanes IS NOT NULL;
  PERFORM @touch_gates_v1(v_gates) WHERE v_gates IS NOT NULL;
  set_aside := set_aside + v_count;
  -- What a row without a known state was counted as can only be told by counting.
  IF v_count > 0 THEN PERFORM @recount_v1(v_routes); END IF;`;

export const asideSql = `
-- A list of texts as a row holds it; null where it is none.
CREATE FUNCTION @tags_of_v1(p_tags text) RETURNS text[] LANGUAGE plpgsql IMMUTABLE AS $$
BEGIN
  RETURN ARRAY(SELECT jsonb_array_elements_text(p_tags::jsonb));
EXCEPTION WHEN data_exception THEN
  RETURN NULL;
END $$;

-- Corrects the counts of these routes, or of all; answers how many were wrong. A recount in one snapshot with the
-- tallies: they are exact at every commit, so any difference is a wrong one. The correction is one more delta.
CREATE FUNCTION @recount_v1(p_routes int8[]) RETURNS int8 LANGUAGE plpgsql SET plan_cache_mode = force_custom_plan AS $$
DECLARE v_repaired int8;
BEGIN
  WITH real AS (
    SELECT route, state, count(*) AS jobs FROM (${ofAllTables("route, state")}) j
    WHERE p_routes IS NULL OR route = ANY (p_routes) GROUP BY route, state),
  told AS (SELECT route, state, sum(count) AS jobs FROM @tally WHERE p_routes IS NULL OR route = ANY (p_routes) GROUP BY route, state)
  INSERT INTO @tally SELECT route, state, coalesce(r.jobs, 0) - coalesce(t.jobs, 0) FROM real r FULL JOIN told t USING (route, state)
    WHERE coalesce(r.jobs, 0) <> coalesce(t.jobs, 0);
  GET DIAGNOSTICS v_repaired = ROW_COUNT;
  RETURN v_repaired;
END $$;

-- Looks at the rows of p_ids, or at those behind p_after up to p_last. Answers how many were bad.
CREATE FUNCTION @set_aside_v1(p_now int8, p_commit text, p_ids text[], p_after int8 DEFAULT NULL, p_last int8 DEFAULT NULL, OUT set_aside int8) LANGUAGE plpgsql SET plan_cache_mode = force_custom_plan AS $$
#variable_conflict use_column
DECLARE v_now int8 := @begin_v1(p_now, p_commit); v_count int8; v_routes int8[]; v_lanes text[]; v_lane_routes int8[]; v_gates text[];
BEGIN
  set_aside := 0;${jobTables.map((table) => setAside(table)).join("")}
END $$;

-- A row of route whose content is not what its number stands for: its jobs' next submit adds it as it should be.
CREATE FUNCTION @set_route_aside_v1(p_now int8, p_commit text, p_number int8, p_queue text, p_name text, p_caps text, p_gates jsonb, p_lanes text) RETURNS void LANGUAGE sql AS $$
  WITH bad AS (DELETE FROM @route r WHERE r.number = p_number AND r.queue = p_queue AND r.name = p_name AND r.caps = p_caps AND r.gates = p_gates AND r.lanes IS NOT DISTINCT FROM p_lanes RETURNING r.*)
  INSERT INTO @aside SELECT 'route:' || number || ':' || md5(bad::text), NULL, 'a route whose number is another''s', @begin_v1(p_now, p_commit),
    left(to_jsonb(bad)::text, ${textCharactersMax}) FROM bad LIMIT 1 ON CONFLICT DO NOTHING
$$;

CREATE FUNCTION @read_aside_v1(p_after text, p_max int4) RETURNS SETOF @aside LANGUAGE sql STABLE AS $$
  SELECT * FROM @aside WHERE p_after IS NULL OR ref > p_after ORDER BY ref LIMIT p_max
$$;

CREATE FUNCTION @remove_aside_v1(p_now int8, p_commit text, p_refs text[]) RETURNS int8 LANGUAGE sql AS $$
  WITH gone AS (DELETE FROM @aside WHERE ref = ANY (p_refs) RETURNING 1) SELECT count(*) FROM gone
$$;
`;
