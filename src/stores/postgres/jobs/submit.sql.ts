/**
 * submit_v1: the first step of a job's life. Plain jobs (store/path-predicates.ts) are inserted in sets, other units
 * job by job (submit-general.sql.ts). p_steps says in which order: n > 0 takes the next n plain jobs, 0 the next unit,
 * n < 0 the next -n plain jobs if the checks of the next unit hold.
 *
 * Each field that a plain job may give is one parameter with a list, null if no job gives it. Lists are read by
 * position, because array variables are unpacked once, and an unnest of thirteen lists costs 2 us more per job.
 */
import { eventCodes } from "../../../model/events/event-kind.ts";
import { queueGateKey } from "../../../model/limits/gate.ts";
import { stateCodes } from "../../../model/job/job-state.ts";
import { columnOf, fieldNames } from "../../../store/job-fields.ts";
import type { JobField, JobFieldName } from "../../../store/job-fields.ts";
import { columnList, initialSql, newRowSql, typeOf } from "../functions/columns.ts";
import type { Expressions } from "../functions/columns.ts";
import { declareRouteLists, keepRoutes } from "./routes.sql.ts";
import { declarePlace } from "./place-parameters.ts";
import { fieldEnd, itemEnd, texts } from "../functions/packed-values.ts";
import { waitingTimer } from "../runs/advance.sql.ts";
import { isIntakeClosed } from "../limits/admit.sql.ts";
import { flowFields, isBornBlocked } from "../flows/member.sql.ts";
import { stateSql } from "./place.sql.ts";
import { groupedEvents } from "../feed/emit.sql.ts";
import { ofCall, waitBriefly, callItem } from "../functions/each-item.sql.ts";
import { inLines, sql } from "../../../store/sql.ts";

const { blocked, scheduled, ready } = stateCodes;

/** Fields that a submit gives of every job under the field's own name; jobs with rare fields take the general path. */
const isListed = ({ home, isRare }: JobField, name: string): boolean =>
  home === "spec" && isRare !== true && name !== "seq" && name !== "createdAt";
export const listedFields: readonly JobFieldName[] = fieldNames(isListed);
/** Fields of jobs with lanes, which form sets of their own, so that plain jobs do not pay for them. */
export const laneFields = ["laneKey", "laneStep", "laneGates"] as const satisfies readonly JobFieldName[];
/** Fields of members and flows, which form such sets too; they may have lanes. */
const specialFields = [...laneFields, ...flowFields];
/** Members that are alike in their flow differ only in these fields: all others are sent once for all of them. */
const ownFields: readonly JobFieldName[] = ["id", "input"];
export const sharedFields: readonly JobFieldName[] = [...listedFields, ...specialFields].filter(
  (name) => !ownFields.includes(name),
);
const sentFields = [...ownFields, ...sharedFields];
const isText = (name: JobFieldName): boolean => typeOf(name) === "text";

const parameters = sentFields.map((name) => `p_${columnOf(name)} ${isText(name) ? "text" : "int8[]"}`);
const unpacked = sentFields
  .filter(isText)
  .map((name) => `v_${columnOf(name)} text[] := ${texts(`p_${columnOf(name)}`)};`);
const valuesOf = (names: readonly JobFieldName[], at = "i"): Expressions =>
  Object.fromEntries(
    names.map((name) => {
      const column = columnOf(name);
      return [
        name,
        isText(name) ? `v_${column}[${at}]` : sql`coalesce(p_${column}[${at}], ${initialSql(name)})`,
      ];
    }),
  );
const listed = valuesOf(listedFields);
const laned = valuesOf(laneFields);
const special = valuesOf(sharedFields, "k");
/** i: which job of the call; k: which item of the shared fields belongs to it. */
const eachJob = "generate_series(v_from, v_to) i";
const eachMember = "ROWS FROM (generate_series(v_from, v_to), unnest(p_like[v_from:v_to])) m(i, k)";

const seated = {
  createdAt: "now",
  route: "p_routes[coalesce(p_route_at[i], 1)]",
};
const rankOf = (dueAt: string): string =>
  sql`coalesce(p_rank_base[i], 0) + coalesce(p_rank_slope[i], 1) * ${dueAt}`;

/** Rule R1 for jobs that are due at once and have no other clock. */
const placedAtOnce: Expressions = { ...seated, state: `${ready}`, dueAt: "now", rank: rankOf("now") };

/** Rule R1 for any job; its clocks are computed one after the other. */
const placed: Expressions = {
  ...seated,
  state: "c.state",
  dueAt: "c.due_at",
  deadlineAt: "c.deadline_at",
  ttlAt: "c.ttl_at",
  rank: rankOf("c.due_at"),
  timerAt: waitingTimer("c."),
};
const dues = sql`
  CROSS JOIN LATERAL (
    SELECT coalesce(p_due_at[i], now + coalesce(p_due_in[i], 0)) AS due_at,
      coalesce(p_deadline_at[i], now + p_deadline_in[i]) AS deadline_at) d`;
const clocks = sql`
  ${dues}
  CROSS JOIN LATERAL (
    SELECT d.due_at, d.deadline_at, ${stateSql("d.due_at", "now")} AS state,
      d.due_at + p_ttl[i] AS ttl_at) c`;
/** Rule R4: a job that waits for others is blocked, and its time-to-live has not begun. */
const blockedClocks = sql`
  ${dues}
  CROSS JOIN LATERAL (
    SELECT ${isBornBlocked("v_waits[k]", "v_freed[k]")}
      AS is_blocked) b
  CROSS JOIN LATERAL (
    SELECT d.due_at, d.deadline_at,
      CASE WHEN b.is_blocked THEN ${blocked} ELSE ${stateSql("d.due_at", "now")} END AS state,
      CASE WHEN NOT b.is_blocked THEN d.due_at + p_ttl[i] END AS ttl_at) c`;

const seq = "coalesce(v_seqs[i], nextval('@job_seq'))";
const insert = (changes: Expressions, each = eachJob): string => sql`
  INSERT INTO @waiting (
    ${columnList})
  SELECT ${newRowSql({ ...listed, ...changes, seq })}
  FROM ${each}`;

/** Jobs of any route and due time; their events are grouped. */
const insertAnywhere = (values: Expressions, placing = clocks, each = eachJob): string => sql`
  WITH made AS (
    ${insert(values, each)}
      ${placing}
    RETURNING id, route, state, due_at, timer_at),
  grouped AS (
    SELECT route, state, CASE WHEN state = ${scheduled} THEN due_at END AS due_at, min(timer_at) AS timer_at,
      count(*) AS jobs, ${initialSql("rev")} AS rev, ${initialSql("attempt")} AS attempt,
      string_agg(id, ${fieldEnd}) AS ids
    FROM made GROUP BY route, state, CASE WHEN state = ${scheduled} THEN due_at END),
  counted AS (INSERT INTO @state_count SELECT route, state, sum(jobs) FROM grouped GROUP BY route, state)
  SELECT string_agg(
      ${groupedEvents(`${eventCodes.submitted}`, "state", "coalesce('n' || due_at, '')")}, ${itemEnd}),
    array_agg(DISTINCT route) FILTER (WHERE state = ${ready}), min(timer_at)
  INTO v_plain, v_ready, v_timer FROM grouped;`;

export const submitSql = sql`
-- p_routes to p_scopes: the routes of all jobs of the call; p_route_at: which of them each plain job has, null for the
-- first. p_large_at, p_tag_at: the position of the plain job that has this large input or tag. p_like: if there are
-- members of flows, which item of the lists of shared fields and of p_tag_at each job has; else null. Answers one text:
-- time; ready routes and the earliest timer of plain jobs; answers of units, and their events. If one of the queues has
-- a closed intake, nothing is done and the answer is empty, unless p_asks: then each unit looks at its queues' gates.
CREATE FUNCTION @submit_v1(p_now int8, p_commit text, p_inside bool, p_asks bool, p_steps int4[],
  ${declareRouteLists},
  p_route_at int4[],
  ${inLines(parameters)},
  ${inLines(declarePlace("int8[]"))},
  p_large_at int4[], p_large text, p_tag_at int4[], p_tag text, p_like int4[], p_units jsonb) RETURNS text
  LANGUAGE plpgsql SET plan_cache_mode = force_generic_plan AS $$
#variable_conflict use_column
DECLARE
  now int8 := @begin_v1(p_now, p_commit);
  v_queues text[] := ${texts("p_queues")};
  ${inLines(unpacked, " ")}
  v_step int4; v_from int4 := 1; v_to int4; v_unit int4 := 0; v_seqs int8[]; v_plain text; v_all text;
  v_ready int8[]; v_timer int8; v_answer jsonb; v_answers jsonb; v_events text; v_ready_all int8[];
  v_timer_first int8; v_failed text;
  -- If all jobs have one route and no clock, nothing has to be grouped.
  v_alike bool := array_length(p_routes, 1) = 1
    AND coalesce(p_due_in, p_due_at, p_deadline_in, p_deadline_at, p_ttl) IS NULL;
BEGIN
  IF NOT p_asks AND ${isIntakeClosed(`ANY (
      ARRAY(SELECT '${queueGateKey("")}' || q FROM unnest(v_queues) q))`)} THEN
    RETURN '';
  END IF;
  ${keepRoutes("v_queues")}
  IF p_units IS NOT NULL THEN
    IF NOT p_inside THEN ${waitBriefly} END IF;
    PERFORM @lock_keys_v1(p_units);
  END IF;
  FOREACH v_step IN ARRAY p_steps LOOP
    IF v_step = 0 THEN
      v_answer := ${callItem("submit_unit_v1", "p_units->v_unit")};
      v_unit := v_unit + 1;
      v_events := @append_events_v1(v_events, v_answer->>'events');
      v_answers := coalesce(v_answers, '[]') || jsonb_build_array(v_answer - '${ofCall}'::text[]);
      -- Deferred work is due at once.
      IF (v_answer->>'defers')::bool THEN v_timer_first := now; END IF;
      CONTINUE;
    END IF;
    IF v_step < 0 THEN
      v_step := -v_step;
      v_failed := @failed_check_v1(now, p_units->v_unit->'checks');
      v_unit := v_unit + 1;
      v_answers := coalesce(v_answers, '[]') || jsonb_build_array(CASE
        WHEN v_failed IS NULL THEN '{"kind": "ok"}'::jsonb
        ELSE jsonb_build_object('kind', 'refused', 'reason', 'doc-changed', 'id', v_failed) END);
      IF v_failed IS NOT NULL THEN
        v_from := v_from + v_step;
        v_seqs := v_seqs || array_fill(NULL::int8, ARRAY[v_step]);
        CONTINUE;
      END IF;
    END IF;
    v_to := v_from + v_step - 1;
    -- If large inputs or tags will be written under the seqs, they are drawn in advance.
    IF p_large_at IS NOT NULL OR p_tag_at IS NOT NULL THEN
      v_seqs := v_seqs || ARRAY(SELECT nextval('@job_seq') FROM generate_series(v_from, v_to));
    END IF;
    IF v_alike AND coalesce(p_lane_key, p_waits) IS NULL THEN
      ${insert(placedAtOnce)};
      v_plain := concat_ws(${fieldEnd}, ${eventCodes.submitted}, ${initialSql("rev")}, p_routes[1], ${ready},
        ${initialSql("attempt")}, '', array_to_string(v_id[v_from:v_to], ${fieldEnd}));
      INSERT INTO @state_count VALUES (p_routes[1], ${ready}, v_step);
      v_ready := p_routes;
    ELSIF p_waits IS NOT NULL THEN
      ${insertAnywhere({ ...placed, ...special }, blockedClocks, eachMember)}
    ELSIF p_lane_key IS NULL THEN
      ${insertAnywhere(placed)}
    ELSE
      ${insertAnywhere({ ...placed, ...laned })}
    END IF;
    IF p_lane_key IS NOT NULL THEN
      PERFORM @lanes_changed_v1(ARRAY(SELECT v_lane_key[coalesce(p_like[i], i)] FROM ${eachJob}),
        ARRAY(SELECT ${seated.route} FROM ${eachJob}), NULL);
    END IF;
    v_all := @append_events_v1(v_all, v_plain);
    v_ready_all := v_ready_all || v_ready;
    v_timer_first := least(v_timer_first, v_timer);
    v_from := v_to + 1;
  END LOOP;
  IF p_large_at IS NOT NULL THEN
    INSERT INTO @payload
    SELECT v_seqs[l.at], l.input FROM unnest(p_large_at, ${texts("p_large")}) l(at, input)
    WHERE v_seqs[l.at] IS NOT NULL;
  END IF;
  IF p_tag_at IS NOT NULL THEN
    IF p_like IS NULL THEN
      INSERT INTO @tag
      SELECT t.tag, v_seqs[t.at], v_id[t.at] FROM unnest(p_tag_at, ${texts("p_tag")}) t(at, tag)
      WHERE v_seqs[t.at] IS NOT NULL;
    ELSE
      INSERT INTO @tag
      SELECT t.tag, v_seqs[i], v_id[i] FROM unnest(p_like) WITH ORDINALITY l(at, i)
        JOIN unnest(p_tag_at, ${texts("p_tag")}) t(at, tag) ON t.at = l.at
      WHERE v_seqs[i] IS NOT NULL;
    END IF;
  END IF;
  PERFORM @emit_v1(now, @append_events_v1(v_all, v_events), p_inside);
  IF p_lane_key IS NOT NULL AND NOT p_inside THEN PERFORM @relieve_claims_v1(now, v_queues); END IF;
  RETURN concat_ws(${fieldEnd}, now, coalesce(v_ready_all, '{}'), coalesce(v_timer_first::text, ''),
    coalesce(v_answers::text, ''), v_events);
END $$;
`;
