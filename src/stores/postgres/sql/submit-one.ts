/**
 * submit_one_v1: the most frequent submit of a quiet process, one plain job with a small input and no tags, on a short path: how long it takes is how
 * long a user waits. submit_v1 does the same for any number, and spends most of a single job's time on setting up its plans.
 *
 * p_by: who tells the others. A hint inside the transaction saves a round trip before they hear of the job, but holds the server's lock of
 * notifications through the commit; so only one call at a time may, and whoever finds the place taken tells after the answer as everybody else does.
 */
import { eventCodes } from "../../../model/event-kind.ts";
import { stateCodes } from "../../../model/job-state.ts";
import { fieldEnd } from "../text.ts";
import { foldEvery, timeNow } from "./step.ts";

const { scheduled, ready } = stateCodes;

/** The channel of a schema, whose name comes quoted. */
const channel = (s: string): string => `${s.slice(1, -1)}_hint`;

export const submitOneSql = (s: string): string => `
-- Answers: time, route, state, the clock that was set (0: none), whether the others were told.
CREATE FUNCTION ${s}.submit_one_v1(p_now int8, p_commit text, p_by text, p_queue text, p_name text, p_id text, p_input text, p_policy text, p_meta text,
  p_due_in int8, p_due_at int8, p_rank_base int8, p_rank_slope int8, p_deadline_in int8, p_deadline_at int8, p_ttl int8) RETURNS text LANGUAGE plpgsql AS $$
DECLARE
  v_now int8 := ${timeNow}; v_route int4; v_due int8 := coalesce(p_due_at, v_now + p_due_in);
  v_deadline int8 := coalesce(p_deadline_at, v_now + p_deadline_in); v_state int2 := CASE WHEN v_due <= v_now THEN ${ready} ELSE ${scheduled} END;
  v_timer int8 := least(v_deadline, v_due + p_ttl, CASE WHEN v_due > v_now THEN v_due END); v_feed int8; v_told bool := false;
BEGIN
  IF p_commit IS NOT NULL THEN PERFORM set_config('synchronous_commit', p_commit, true); END IF;
  SELECT number INTO v_route FROM ${s}.route WHERE queue = p_queue AND name = p_name;
  IF NOT FOUND THEN v_route := ${s}.route_number_v1(p_queue, p_name); END IF;
  INSERT INTO ${s}.waiting (seq, created_at, due_at, rank, fence, route, attempt, rev, state, counts_attempt, holds, cancel_asked, id, input, timer_at,
      deadline_at, ttl_at, policy, meta)
    VALUES (nextval('${s}.job_seq'), v_now, v_due, p_rank_base + p_rank_slope * v_due, 0, v_route, 0, 1, v_state, 1, 0, false, p_id, p_input, v_timer,
      v_deadline, v_due + p_ttl, p_policy, p_meta);
  INSERT INTO ${s}.tally VALUES (v_route, v_state, 1);
  INSERT INTO ${s}.feed (at, body) VALUES (v_now, concat_ws(${fieldEnd}, ${eventCodes.submitted}, 1, v_route, v_state, 0,
    CASE WHEN v_state = ${scheduled} THEN 'n' || v_due ELSE '' END, p_id)) RETURNING id INTO v_feed;
  IF v_feed % ${foldEvery} = 0 THEN PERFORM ${s}.fold_v1(); END IF;
  IF p_by IS NOT NULL AND pg_try_advisory_xact_lock(hashtextextended('${s}.hint', 0)) THEN
    PERFORM pg_notify('${channel(s)}', '{"by":"' || p_by || '"' || CASE WHEN v_state = ${ready} THEN ',"r":[' || v_route || ']' ELSE '' END ||
      coalesce(',"d":' || (v_timer - v_now), '') || '}');
    v_told := true;
  END IF;
  RETURN concat_ws(' ', v_now, v_route, v_state, coalesce(v_timer, 0), v_told::int4);
END $$;
`;
