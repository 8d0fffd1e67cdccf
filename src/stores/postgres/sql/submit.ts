/**
 * submit_v1: the first step of a job's life. Plain jobs (minted id, no unique key) cannot be refused and go in by sets; units with a given id,
 * a key or documents go job by job. p_steps says in which order: n > 0 takes the next n plain jobs, 0 the next unit.
 *
 * Lists are read by position: array variables are unpacked once, and an unnest of thirteen lists costs 2 us per job more.
 *
 * A unit that may be refused late runs twice: once on trial, with seqs from another sequence, and taken back; so seqs and route numbers
 * have no gaps from refusals.
 */
import { fieldEnd, itemEnd, nullItem } from "../text.ts";
import { groupedEvents } from "./job.ts";

const texts = (parameter: string): string => `string_to_array(${parameter}, ${itemEnd}, ${nullItem})`;

export const submitSql = (s: string): string => `
CREATE FUNCTION ${s}.submit_v1(p_now int8, p_commit text, p_inside bool, p_steps int4[], p_queues text, p_names text, p_routes int4[],
  p_ids text, p_inputs text, p_policies text, p_metas text, p_tags text,
  p_due_in int8[], p_due_at int8[], p_rank_base int8[], p_rank_slope int8[], p_deadline_in int8[], p_deadline_at int8[], p_ttl int8[],
  p_big_ids text, p_big_inputs text, p_tag_ids text, p_tag_names text, p_units text,
  OUT now int8, OUT answers jsonb, OUT events text, OUT ready int4[], OUT timer_at int8) LANGUAGE plpgsql
  SET enable_hashjoin = off SET enable_mergejoin = off SET jit = off SET plan_cache_mode = force_generic_plan AS $$
#variable_conflict use_column
DECLARE
  v_queues text[] := ${texts("p_queues")}; v_names text[] := ${texts("p_names")}; v_numbers int4[];
  v_ids text[] := ${texts("p_ids")}; v_inputs text[] := ${texts("p_inputs")}; v_policies text[] := ${texts("p_policies")};
  v_metas text[] := ${texts("p_metas")}; v_tags text[] := ${texts("p_tags")};
  v_units jsonb := p_units;
  v_step int4; v_from int4 := 1; v_to int4; v_unit int4 := 0; v_events text; v_plain text; v_ready int4[]; v_timer int8; v_answer jsonb;
BEGIN
  now := ${s}.begin_v1(p_now, p_commit);
  answers := '[]';
  IF p_queues IS NOT NULL THEN
    SELECT array_agg(r.number ORDER BY u.o) INTO v_numbers
      FROM unnest(v_queues, v_names) WITH ORDINALITY u(queue, name, o) LEFT JOIN ${s}.route r ON r.queue = u.queue AND r.name = u.name;
  END IF;
  IF p_units IS NOT NULL THEN PERFORM ${s}.lock_keys_v1(v_units); END IF;
  FOREACH v_step IN ARRAY p_steps LOOP
    IF v_step = 0 THEN
      v_answer := ${s}.submit_whole_v1(now, v_units->v_unit);
      v_unit := v_unit + 1;
      events := ${s}.and_v1(events, v_answer->>'events');
      answers := answers || jsonb_build_array(v_answer - 'events');
      CONTINUE;
    END IF;
    v_to := v_from + v_step - 1;
    IF array_position(v_numbers, NULL) IS NOT NULL THEN
      FOR v_unused IN 1..array_length(v_numbers, 1) LOOP
        IF v_numbers[v_unused] IS NULL AND v_unused = ANY (p_routes[v_from:v_to]) THEN
          v_numbers[v_unused] := ${s}.route_number_v1(v_queues[v_unused], v_names[v_unused]);
        END IF;
      END LOOP;
    END IF;
    WITH made AS (
      INSERT INTO ${s}.waiting (seq, created_at, due_at, rank, timer_at, deadline_at, ttl_at, fence, route, attempt, rev, state, counts_attempt,
        holds, cancel_asked, id, policy, meta, tags, input)
      SELECT nextval('${s}.job_seq'), now, c.due_at, coalesce(p_rank_base[i], 0) + coalesce(p_rank_slope[i], 1) * c.due_at,
        CASE WHEN c.due_at <= now THEN least(c.deadline_at, c.due_at + p_ttl[i]) ELSE least(c.due_at, c.deadline_at, c.due_at + p_ttl[i]) END,
        c.deadline_at, c.due_at + p_ttl[i], 0, v_numbers[p_routes[i]], 0, 1, CASE WHEN c.due_at <= now THEN 2 ELSE 1 END, 1,
        0, false, v_ids[i], v_policies[i], v_metas[i], v_tags[i], v_inputs[i]
      FROM generate_series(v_from, v_to) i CROSS JOIN LATERAL (SELECT coalesce(p_due_at[i], now + coalesce(p_due_in[i], 0)) AS due_at,
          coalesce(p_deadline_at[i], now + p_deadline_in[i]) AS deadline_at) c
      RETURNING id, route, state, waiting.due_at, waiting.timer_at),
    grouped AS (
      SELECT route, state, CASE WHEN state = 1 THEN due_at END AS due_at, min(made.timer_at) AS timer_at, count(*) AS jobs,
        1 AS rev, 0 AS attempt, string_agg(id, ${fieldEnd}) AS ids
      FROM made GROUP BY route, state, CASE WHEN state = 1 THEN due_at END),
    counted AS (INSERT INTO ${s}.tally SELECT route, state, sum(jobs) FROM grouped GROUP BY route, state)
    SELECT string_agg(${groupedEvents("0", "state", "coalesce('n' || grouped.due_at, '')")}, ${itemEnd}),
      array_agg(DISTINCT route) FILTER (WHERE state = 2), min(grouped.timer_at) INTO v_plain, v_ready, v_timer FROM grouped;
    v_events := ${s}.and_v1(v_events, v_plain);
    ready := ready || v_ready;
    timer_at := least(timer_at, v_timer);
    v_from := v_to + 1;
  END LOOP;
  IF p_big_ids IS NOT NULL THEN
    INSERT INTO ${s}.payload SELECT w.seq, b.input FROM unnest(${texts("p_big_ids")}, ${texts("p_big_inputs")}) b(id, input)
      JOIN ${s}.waiting w ON w.id = b.id;
  END IF;
  IF p_tag_ids IS NOT NULL THEN
    INSERT INTO ${s}.tag SELECT t.tag, w.seq, w.id FROM unnest(${texts("p_tag_ids")}, ${texts("p_tag_names")}) t(id, tag)
      JOIN ${s}.waiting w ON w.id = t.id ON CONFLICT DO NOTHING;
  END IF;
  PERFORM ${s}.tell_v1(now, ${s}.and_v1(v_events, events), p_inside);
END $$;
`;
