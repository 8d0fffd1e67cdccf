/**
 * Rule R4 (grow and link in store/rules/flow/arrive.ts): adds members to a flow that exists already, or an edge to one
 * of its members.
 */
import { stateCodes } from "../../../model/job/job-state.ts";
import { edgeCount, isMember, passedOf } from "./member.sql.ts";
import { sql } from "../../../store/sql.ts";

const { blocked, running, completed } = stateCodes;

export const growSql = sql`
-- p_by: {id, need, slack, members}. Answers whether the flow can still grow.
CREATE FUNCTION @grow_v1(p_now int8, p_by jsonb) RETURNS bool LANGUAGE plpgsql AS $$
DECLARE j @waiting := @lock_job_v1(p_now, p_by->>'id'); w int8[] := string_to_array(j.waits, ',')::int8[];
BEGIN
  IF w IS NULL OR j.state <> ${blocked} OR j.cancel_asked = 1 THEN RETURN false; END IF;
  w[1] := w[1] + (p_by->>'need')::int8;
  w[2] := w[2] + (p_by->>'slack')::int8;
  IF array_length(w, 1) > 4 THEN w[5] := w[5] + (p_by->>'members')::int8; END IF;
  PERFORM @set_waits_v1(j, array_to_string(w, ','));
  RETURN true;
END $$;

-- p_link: {from, edge}. If the end of the member has gone along all its edges, it goes along this one at once, or
-- inside the caller's transaction defers it. is_there: whether there is such a member.
CREATE FUNCTION @link_v1(p_now int8, p_link jsonb, p_inside bool, OUT is_there bool, OUT events text, OUT defers bool)
  LANGUAGE plpgsql AS $$
#variable_conflict use_column
DECLARE j @waiting := @lock_job_v1(p_now, p_link->>'from'); v_edges text;
BEGIN
  defers := false;
  is_there := j.id IS NOT NULL AND ${isMember("j.")};
  IF NOT is_there THEN RETURN; END IF;
  v_edges := (coalesce(j.edges, '[]')::jsonb || jsonb_build_array(p_link->'edge'))::text;
  IF j.state = ${running} THEN UPDATE @leased SET edges = v_edges WHERE id = j.id;
  ELSIF j.state < ${completed} THEN UPDATE @waiting SET edges = v_edges WHERE id = j.id;
  ELSE UPDATE @history SET edges = v_edges WHERE id = j.id AND ended_at = j.ended_at; END IF;
  IF j.state < ${completed} OR ${passedOf("j.")} < ${edgeCount("j.")} THEN
    RETURN;
  END IF;
  IF p_inside THEN
    PERFORM @defer_work_v1(p_now, ARRAY[j.id]);
    defers := true;
  ELSE
    SELECT p.events, p.defers INTO events, defers FROM @pass_on_v1(p_now, j.id, 1) p;
  END IF;
END $$;
`;
