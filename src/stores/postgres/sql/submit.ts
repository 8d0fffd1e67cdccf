/**
 * submit_v1: the first step of a job's life. Plain jobs (store/plain.ts) go in by sets; other units job by job (submit-unit.ts). p_steps says in which
 * order: n > 0 takes the next n plain jobs, 0 the next unit.
 *
 * Each field that a plain job may give is one parameter with a list, null where no job gives it. Lists are read by position: array variables are
 * unpacked once, and an unnest of thirteen lists costs 2 us per job more.
 */
import { eventCodes } from "../../../model/event-kind.ts";
import { stateCodes } from "../../../model/job-state.ts";
import { columnOf, fieldNames } from "../../../store/job-fields.ts";
import type { JobField, JobFieldName } from "../../../store/job-fields.ts";
import { columnList, initialSql, typeOf, valuesSql } from "../columns.ts";
import type { Expressions } from "../columns.ts";
import { fieldEnd, itemEnd, nullItem } from "../text.ts";
import { stateSql } from "./rules/place.ts";
import { timerSql } from "./rules/advance.ts";
import { groupedEvents } from "./rules/tell.ts";

const { scheduled, ready } = stateCodes;

/** A parameter with a list of texts, taken apart. */
export const texts = (parameter: string): string => `string_to_array(${parameter}, ${itemEnd}, ${nullItem})`;

/** What a submit gives of every job under the field's own name; the rare fields take the general road. */
const isListed = ({ home, isRare }: JobField, name: string): boolean =>
  home === "spec" && isRare !== true && name !== "seq" && name !== "createdAt";
export const listedFields: readonly JobFieldName[] = fieldNames(isListed);
const isText = (name: JobFieldName): boolean => typeOf(name) === "text";

const parameters = listedFields.map((name) => `p_${columnOf(name)} ${isText(name) ? "text" : "int8[]"}`);
const unpacked = listedFields
  .filter(isText)
  .map((name) => `v_${columnOf(name)} text[] := ${texts(`p_${columnOf(name)}`)};`);
const listed: Expressions = Object.fromEntries(
  listedFields.map((name) => {
    const column = columnOf(name);
    return [name, isText(name) ? `v_${column}[i]` : `coalesce(p_${column}[i], ${initialSql(name)})`];
  }),
);

/** The clocks of a new job, made one after the other (rule R1). */
const clocks = `CROSS JOIN LATERAL (SELECT coalesce(p_due_at[i], now + coalesce(p_due_in[i], 0)) AS due_at,
        coalesce(p_deadline_at[i], now + p_deadline_in[i]) AS deadline_at) d
      CROSS JOIN LATERAL (SELECT d.due_at, d.deadline_at, ${stateSql("d.due_at", "now")} AS state, d.due_at + p_ttl[i] AS ttl_at) c`;
const placed: Expressions = {
  seq: "v_seqs[i]",
  createdAt: "now",
  route: "p_routes[coalesce(p_route_at[i], 1)]",
  state: "c.state",
  dueAt: "c.due_at",
  deadlineAt: "c.deadline_at",
  ttlAt: "c.ttl_at",
  rank: "coalesce(p_rank_base[i], 0) + coalesce(p_rank_slope[i], 1) * c.due_at",
  timerAt: timerSql((column) =>
    column === "lease_ends_at" || column === "attempt_ends_at" ? "NULL" : `c.${column}`,
  ),
};

/** The channel of a schema, whose name comes quoted. */
const channel = (s: string): string => `${s.slice(1, -1)}_hint`;

export const submitSql = (s: string): string => `
-- p_routes, p_queues, p_names, p_caps: the routes of all jobs of the call; p_route_at: which one each plain job has, null for the first.
-- p_large_at, p_tag_at: the position of the plain job that has this large input or tag.
-- p_by: the sender of the call's hint, where the hint rides in the call. A hint inside the transaction saves a round trip before others hear of the
-- job, but holds the server's lock of notifications through the commit; so one call at a time may, and told says whether this one did.
-- Answers {now, answers of units, their events, ready routes and the earliest timer of plain jobs, told}.
CREATE FUNCTION ${s}.submit_v1(p_now int8, p_commit text, p_inside bool, p_by text, p_steps int4[], p_routes int8[], p_queues text, p_names text, p_caps text,
  p_route_at int4[], ${parameters.join(", ")}, p_due_in int8[], p_due_at int8[], p_rank_base int8[], p_rank_slope int8[],
  p_deadline_in int8[], p_deadline_at int8[], p_ttl int8[], p_large_at int4[], p_large text, p_tag_at int4[], p_tag text, p_units text) RETURNS text LANGUAGE plpgsql
  SET plan_cache_mode = force_generic_plan AS $$
#variable_conflict use_column
DECLARE
  now int8 := ${s}.begin_v1(p_now, p_commit); ${unpacked.join(" ")}
  v_units jsonb := p_units; v_step int4; v_from int4 := 1; v_to int4; v_unit int4 := 0; v_seqs int8[]; v_plain text; v_all text; v_ready int8[]; v_timer int8;
  v_answer jsonb; v_answers jsonb := '[]'; v_events text; v_ready_all int8[]; v_timer_first int8; v_told bool := false;
BEGIN
  PERFORM ${s}.keep_routes_v1(p_routes, ${texts("p_queues")}, ${texts("p_names")}, ${texts("p_caps")});
  IF p_units IS NOT NULL THEN PERFORM ${s}.lock_keys_v1(v_units); END IF;
  FOREACH v_step IN ARRAY p_steps LOOP
    IF v_step = 0 THEN
      v_answer := ${s}.submit_whole_v1(now, v_units->v_unit);
      v_unit := v_unit + 1;
      v_events := ${s}.and_v1(v_events, v_answer->>'events');
      v_answers := v_answers || jsonb_build_array(v_answer - 'events');
      CONTINUE;
    END IF;
    v_to := v_from + v_step - 1;
    v_seqs := v_seqs || ARRAY(SELECT nextval('${s}.job_seq') FROM generate_series(v_from, v_to));
    WITH made AS (
      INSERT INTO ${s}.waiting (${columnList})
      SELECT ${valuesSql((name) => placed[name] ?? listed[name] ?? initialSql(name))}
      FROM generate_series(v_from, v_to) i ${clocks}
      RETURNING id, route, state, due_at, timer_at),
    grouped AS (
      SELECT route, state, CASE WHEN state = ${scheduled} THEN due_at END AS due_at, min(timer_at) AS timer_at, count(*) AS jobs,
        ${initialSql("rev")} AS rev, ${initialSql("attempt")} AS attempt, string_agg(id, ${fieldEnd}) AS ids
      FROM made GROUP BY route, state, CASE WHEN state = ${scheduled} THEN due_at END),
    counted AS (INSERT INTO ${s}.tally SELECT route, state, sum(jobs) FROM grouped GROUP BY route, state)
    SELECT string_agg(${groupedEvents(`${eventCodes.submitted}`, "state", "coalesce('n' || due_at, '')")}, ${itemEnd}),
      array_agg(DISTINCT route) FILTER (WHERE state = ${ready}), min(timer_at) INTO v_plain, v_ready, v_timer FROM grouped;
    v_all := ${s}.and_v1(v_all, v_plain);
    v_ready_all := v_ready_all || v_ready;
    v_timer_first := least(v_timer_first, v_timer);
    v_from := v_to + 1;
  END LOOP;
  IF p_large_at IS NOT NULL THEN
    INSERT INTO ${s}.payload SELECT v_seqs[l.at], l.input FROM unnest(p_large_at, ${texts("p_large")}) l(at, input);
  END IF;
  IF p_tag_at IS NOT NULL THEN
    INSERT INTO ${s}.tag SELECT t.tag, v_seqs[t.at], v_id[t.at] FROM unnest(p_tag_at, ${texts("p_tag")}) t(at, tag) ON CONFLICT DO NOTHING;
  END IF;
  PERFORM ${s}.tell_v1(now, ${s}.and_v1(v_all, v_events), p_inside);
  IF p_by IS NOT NULL AND pg_try_advisory_xact_lock(hashtextextended('${s}.hint', 0)) THEN
    PERFORM pg_notify('${channel(s)}', jsonb_strip_nulls(jsonb_build_object('by', p_by, 'r', to_jsonb(v_ready_all), 'd', v_timer_first - now))::text);
    v_told := true;
  END IF;
  RETURN jsonb_build_object('now', now, 'answers', v_answers, 'events', v_events, 'ready', v_ready_all, 'timerAt', v_timer_first, 'isTold', v_told);
END $$;
`;
