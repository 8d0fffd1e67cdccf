/**
 * The parts of a row that rule R4 reads before anything arrives (store/rules/flow/member.ts), as fragments over its
 * columns; and lock_targets_v1, which locks the targets of several members of a call in one order.
 */
import type { JobFieldName } from "../../../store/job-fields.ts";
import { stateCodes } from "../../../model/job/job-state.ts";
import { sql } from "../../../store/sql.ts";

const { blocked } = stateCodes;

/** Whether a row is a member of a flow; `of` is put before each column. */
export const isMember = (of = ""): string => sql`(${of}flow IS NOT NULL AND ${of}waits IS NOT NULL)`;

/** Whether a row is a flow: after the four numbers of every job with waits it has the counts of its members. */
export const isFlow = (of = ""): string => sql`coalesce(split_part(${of}waits, ',', 5), '') <> ''`;

/** Whether a new job is blocked: it waits for others, or it is a flow, which no worker runs. */
export const isBornBlocked = (waits: string, freed: string): string =>
  sql`(${waits} IS NOT NULL AND (${freed} IS NULL OR split_part(${waits}, ',', 1)::int8 > 0))`;

export const passedOf = (of = ""): string => sql`split_part(${of}waits, ',', 3)::int4`;

export const edgeCount = (of = ""): string => sql`coalesce(jsonb_array_length(${of}edges::jsonb), 0)`;

/**
 * The waits of a running member, which is not a flow, with another number of edges passed. It takes a tenth of the time
 * of a regular expression.
 */
export const withPassedOfFour = (passed: string): string => sql`
  concat_ws(',', split_part(waits, ',', 1), split_part(waits, ',', 2),
    ${passed}, split_part(waits, ',', 4))`;

/** The waits of any row with another number of edges passed. */
export const withPassed = (passed: string, of = ""): string =>
  sql`regexp_replace(${of}waits, '^([^,]*,[^,]*,)[^,]*', '\\1' || ${passed})`;

/** The id of the job to which an edge leads. */
export const targetOf = (flow: string, edge: string): string => sql`
  CASE WHEN length(${edge}) = 2 THEN ${flow}
    ELSE ${flow} || '.' || substr(${edge}, 3) END`;

/** The fields that make a job a member of a flow, or a flow. */
export const flowFields = ["flow", "edges", "freed", "waits"] as const satisfies readonly JobFieldName[];

const members = (["waiting", "leased"] as const)
  .map((table) => sql`SELECT id, flow, edges FROM @${table} WHERE id = ANY (p_ids) AND ${isMember()}`)
  .join("\nUNION ALL ");

export const memberSql = sql`
-- Two calls that change several members, or jobs to which these lead, must not wait for each other. So live jobs are
-- locked by id, running ones first. The targets of a finished member are locked when its end arrives there. p_ids: the
-- jobs that the call changes; p_changes: the changes, for the parents that they name; null for none.
CREATE FUNCTION @lock_targets_v1(p_ids text[], p_changes jsonb) RETURNS void LANGUAGE plpgsql AS $$
DECLARE v_targets text[]; v_parents text[];
BEGIN
  SELECT array_agg(DISTINCT ${targetOf("m.flow", "e.edge")})
  INTO v_targets FROM (
    ${members}) m
    CROSS JOIN LATERAL jsonb_array_elements_text(m.edges::jsonb) e(edge);
  IF v_targets IS NULL THEN RETURN; END IF;
  IF p_changes IS NOT NULL THEN
    SELECT array_agg(DISTINCT substr(p #>> '{}', 3)) INTO v_parents
    FROM jsonb_path_query(p_changes, '$[*].cases[*].next.parents[*]') p;
  END IF;
  PERFORM 1 FROM @leased WHERE id = ANY (p_ids || v_parents) ORDER BY id FOR UPDATE;
  PERFORM 1 FROM @waiting
  WHERE id = ANY (p_ids || v_parents || v_targets) AND (state = ${blocked} OR id = ANY (p_ids || v_parents))
  ORDER BY id FOR UPDATE;
END $$;
`;
