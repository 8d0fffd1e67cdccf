/**
 * settle_v1: what a running attempt writes at its end, under its fence. Applied at most once and only with the current fence; a repeat with the
 * same fence answers already. Endings without effects move from leased to history by sets; retries, hand-backs and endings with effects go
 * one by one. p_steps says in which order: n > 0 takes the next n plain endings, 0 the next of p_singles.
 *
 * Rows are found by the index over the list of ids and hashed against what was asked, whatever the statistics say: they change by the second in
 * a table that fills and empties, and a nested loop from the wrong side took 60 ms for 250 jobs. The index also gives one order of locks.
 */
import { stateCodes } from "../../../model/job-state.ts";
import { fieldEnd, itemEnd, nullItem } from "../text.ts";
import { brief, groupedEvents } from "./job.ts";

const texts = (parameter: string): string => `string_to_array(${parameter}, ${itemEnd}, ${nullItem})`;
const { running } = stateCodes;

/** What history takes over from leased as it is. */
const copied =
  "created_at, due_at, rank, deadline_at, ttl_at, unique_hold, claimed_at, started_at, counts_attempt, cancel_asked, owner, digest, policy, meta, attempts, progress, input";
const carried = copied
  .split(", ")
  .map((column) => `l.${column}`)
  .join(", ");

/** The next run of plain endings: out of leased and, unless nothing of them is kept, into history. */
const end = (s: string, isKept: boolean): string => `
      WITH ended AS (
        DELETE FROM ${s}.leased l USING unnest(v_ids[v_from:v_to], p_seqs[v_from:v_to], p_fences[v_from:v_to]) WITH ORDINALITY a(id, seq, fence, o)
        WHERE l.id = ANY (v_ids[v_from:v_to]) AND l.id = a.id AND l.seq = a.seq AND l.fence = a.fence
        RETURNING l.seq, l.fence, l.route, l.attempt, l.rev + 1 AS rev, l.holds, l.id, l.tags, l.unique_key, a.o::int4 + v_from - 1 AS at,
          CASE WHEN v_alike THEN 1 ELSE a.o::int4 + v_from - 1 END AS k${isKept ? `, ${carried}` : ""})${
            isKept
              ? `,
      kept AS (
        INSERT INTO ${s}.history (seq, fence, settled_fence, ended_at, keep_until, route, attempt, rev, state, holds, id, unique_key, reason, tags, result,
          ${copied})
        SELECT seq, fence, fence, now, now + p_keeps[k], route, attempt, rev, p_states[k], 0, id, unique_key, v_reasons[k], tags, v_results[at],
          ${copied.replace("attempts", "coalesce(v_logs[at], attempts)")}
        FROM ended WHERE p_keeps[k] IS DISTINCT FROM 0)`
              : ""
          }
      SELECT count(*), string_agg(id, ${fieldEnd}),
        CASE WHEN NOT v_alike THEN array_agg(at) END, ${brief("route")}, ${brief("rev")}, ${brief("attempt")},
        array_agg(unique_key) FILTER (WHERE holds <> 0), array_agg(seq) FILTER (WHERE holds <> 0), array_agg(seq) FILTER (WHERE p_keeps[k] = 0),
        array_agg(seq) FILTER (WHERE p_keeps[k] = 0 AND tags IS NOT NULL), array_agg(tags) FILTER (WHERE p_keeps[k] = 0 AND tags IS NOT NULL)
      INTO v_count, v_ended, v_at, v_routes, v_revs, v_attempts, v_keys, v_freed, v_dropped, v_tagged, v_tags FROM ended;`;

export const settleSql = (s: string): string => `
-- Why a lease is not the current one. An id with another seq is another job, that came after this one was removed.
CREATE FUNCTION ${s}.refusal_v1(p_id text, p_seq int8, p_fence int8) RETURNS text LANGUAGE sql STABLE AS $$
  SELECT coalesce((SELECT CASE WHEN k.settled_fence = p_fence AND k.seq = p_seq THEN 'already' ELSE 'stale' END FROM (
    SELECT seq, settled_fence FROM ${s}.waiting WHERE id = p_id UNION ALL SELECT seq, settled_fence FROM ${s}.leased WHERE id = p_id
    UNION ALL SELECT seq, settled_fence FROM ${s}.history WHERE id = p_id) k LIMIT 1), 'gone')
$$;

-- One settle with all it carries; the answer has its events. p_trial: effects take their seqs from elsewhere, and all is taken back.
CREATE FUNCTION ${s}.settle_one_v1(p_now int8, p_settle jsonb, p_trial bool) RETURNS jsonb LANGUAGE plpgsql AS $$
DECLARE j ${s}.waiting; v_applied record; v_unit jsonb; 
  v_id text := p_settle->>'id'; v_seq int8 := (p_settle->>'seq')::int8; v_fence int8 := (p_settle->>'fence')::int8;
BEGIN
  SELECT * INTO j FROM ${s}.leased WHERE id = v_id FOR UPDATE;
  IF NOT FOUND OR j.fence <> v_fence OR j.seq <> v_seq THEN RETURN jsonb_build_object('kind', ${s}.refusal_v1(v_id, v_seq, v_fence)); END IF;
  -- A job whose cancel was asked for must not wait again.
  IF j.cancel_asked AND p_settle->'next'->>'to' IN ('scheduled', 'ready') THEN RETURN '{"kind": "cancel-asked"}'; END IF;
  SELECT * INTO v_applied FROM ${s}.apply_v1(p_now, j, 'leased', p_settle->'next', p_settle->>'attempts', true);
  IF p_settle->'effects' IS NULL THEN RETURN jsonb_build_object('kind', 'ok', 'events', v_applied.events); END IF;
  v_unit := ${s}.submit_unit_v1(p_now, p_settle->'effects', p_trial);
  IF v_unit->>'kind' <> 'ok' THEN RETURN jsonb_build_object('kind', v_unit->>'reason', 'id', v_unit->>'id'); END IF;
  RETURN jsonb_build_object('kind', 'ok', 'events', ${s}.and_v1(v_applied.events, v_unit->>'events'));
END $$;

-- All of a settle or nothing.
CREATE FUNCTION ${s}.settle_whole_v1(p_now int8, p_settle jsonb) RETURNS jsonb LANGUAGE plpgsql AS $$
DECLARE v_answer jsonb;
BEGIN
  IF NOT coalesce((p_settle->'effects'->>'late')::bool, false) THEN RETURN ${s}.settle_one_v1(p_now, p_settle, false); END IF;
  BEGIN
    v_answer := ${s}.settle_one_v1(p_now, p_settle, true);
    RAISE EXCEPTION 'millrace: taken back' USING ERRCODE = 'MR001';
  EXCEPTION WHEN SQLSTATE 'MR001' THEN
    IF v_answer->>'kind' <> 'ok' THEN RETURN v_answer; END IF;
  END;
  BEGIN
    v_answer := ${s}.settle_one_v1(p_now, p_settle, false);
    IF v_answer->>'kind' = 'ok' THEN RETURN v_answer; END IF;
    RAISE EXCEPTION 'millrace: taken back' USING ERRCODE = 'MR001';
  EXCEPTION WHEN SQLSTATE 'MR001' THEN
    RETURN v_answer;
  END;
END $$;

-- refused: position of a plain ending -> why it was not applied. Where all plain endings are alike, states, kinds, keeps and reasons have one item.
CREATE FUNCTION ${s}.settle_v1(p_now int8, p_commit text, p_inside bool, p_steps int4[], p_ids text, p_seqs int8[], p_fences int8[], p_states int2[], p_kinds int2[],
  p_keeps int8[], p_reasons text, p_results text, p_logs text, p_singles text,
  OUT now int8, OUT refused jsonb, OUT answers jsonb, OUT events text) LANGUAGE plpgsql
  SET enable_seqscan = off SET enable_nestloop = off SET enable_mergejoin = off SET jit = off SET plan_cache_mode = force_generic_plan AS $$
#variable_conflict use_column
DECLARE
  v_ids text[] := ${texts("p_ids")}; v_reasons text[] := ${texts("p_reasons")}; v_results text[] := ${texts("p_results")};
  v_logs text[] := ${texts("p_logs")}; v_singles jsonb := p_singles;
  v_step int4; v_from int4 := 1; v_to int4; v_single int4 := 0; v_answer jsonb; v_told text; v_all text; v_done text[];
  v_alike bool := array_length(p_states, 1) = 1; v_count int4; v_ended text; v_at int4[]; v_routes int4[]; v_revs int4[]; v_attempts int4[];
  v_keys text[]; v_freed int8[]; v_dropped int8[]; v_tagged int8[]; v_tags text[];
BEGIN
  now := ${s}.begin_v1(p_now, p_commit);
  answers := '[]';
  IF p_singles IS NOT NULL THEN PERFORM ${s}.lock_keys_v1(jsonb_path_query_array(v_singles, '$[*].effects')); END IF;
  FOREACH v_step IN ARRAY p_steps LOOP
    IF v_step = 0 THEN
      v_answer := ${s}.settle_whole_v1(now, v_singles->v_single);
      v_single := v_single + 1;
      events := ${s}.and_v1(events, v_answer->>'events');
      v_all := ${s}.and_v1(v_all, v_answer->>'events');
      answers := answers || jsonb_build_array(v_answer - 'events');
      CONTINUE;
    END IF;
    v_to := v_from + v_step - 1;
    IF v_alike AND p_keeps[1] = 0 THEN${end(s, false)}
    ELSE${end(s, true)}
    END IF;
    v_told := NULL;
    IF v_count > 0 THEN
      IF v_alike AND array_length(v_routes, 1) = 1 AND array_length(v_revs, 1) = 1 AND array_length(v_attempts, 1) = 1 THEN
        v_told := concat_ws(${fieldEnd}, p_kinds[1], v_revs[1], v_routes[1], p_states[1], v_attempts[1], coalesce('s' || v_reasons[1], ''), v_ended);
        INSERT INTO ${s}.tally VALUES (v_routes[1], ${running}, -v_count);
        IF p_keeps[1] IS DISTINCT FROM 0 THEN INSERT INTO ${s}.tally VALUES (v_routes[1], p_states[1], v_count); END IF;
      ELSE
        WITH grouped AS (
          SELECT coalesce(g.route, v_routes[1]) AS route, coalesce(g.rev, v_revs[1]) AS rev, coalesce(g.attempt, v_attempts[1]) AS attempt,
            p_states[k] AS state, p_kinds[k] AS kind, v_reasons[k] AS reason, coalesce(p_keeps[k], 1) = 0 AS is_dropped, count(*) AS jobs,
            string_agg(g.id, ${fieldEnd}) AS ids
          FROM unnest(v_routes, v_revs, v_attempts, v_at, string_to_array(v_ended, ${fieldEnd})) g(route, rev, attempt, at, id)
          CROSS JOIN LATERAL (SELECT CASE WHEN v_alike THEN 1 ELSE g.at END AS k) a
          GROUP BY 1, 2, 3, 4, 5, 6, 7),
        counted AS (
          INSERT INTO ${s}.tally SELECT route, ${running}, -sum(jobs) FROM grouped GROUP BY route
            UNION ALL SELECT route, state, sum(jobs) FROM grouped WHERE NOT is_dropped GROUP BY route, state)
        SELECT string_agg(${groupedEvents("kind", "state", "coalesce('s' || reason, '')")}, ${itemEnd}) INTO v_told FROM grouped;
      END IF;
    END IF;
    v_all := ${s}.and_v1(v_all, v_told);
    IF v_keys IS NOT NULL THEN
      DELETE FROM ${s}.uniq u USING unnest(v_keys, v_freed) f(key, seq) WHERE u.key = f.key AND u.seq = f.seq;
    END IF;
    -- forget_v1 by sets: one job at a time it cost more than a history. Only jobs with tags go one by one.
    IF v_dropped IS NOT NULL THEN
      DELETE FROM ${s}.trail WHERE seq = ANY (v_dropped);
      DELETE FROM ${s}.payload WHERE seq = ANY (v_dropped);
      IF v_tagged IS NOT NULL THEN PERFORM ${s}.forget_v1(d.seq, d.tags) FROM unnest(v_tagged, v_tags) d(seq, tags); END IF;
    END IF;
    IF v_count < v_step THEN
      v_done := coalesce(string_to_array(v_ended, ${fieldEnd}), '{}');
      SELECT coalesce(refused, '{}') || jsonb_object_agg(a.o + v_from - 2, ${s}.refusal_v1(a.id, a.seq, a.fence)) INTO refused
        FROM unnest(v_ids[v_from:v_to], p_seqs[v_from:v_to], p_fences[v_from:v_to]) WITH ORDINALITY a(id, seq, fence, o) WHERE a.id <> ALL (v_done);
    END IF;
    v_from := v_to + 1;
  END LOOP;
  PERFORM ${s}.tell_v1(now, v_all, p_inside);
END $$;
`;
