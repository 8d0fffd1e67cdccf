/**
 * Rule R4 in reverse (store/rules/flow/block.ts): a finished member waits for others again, or the needs of a blocked
 * one are counted anew. Its parents are locked before they are read. So a parent that ends meanwhile either has arrived
 * already, or arrives later at the job as it is left here.
 */
import { stateCodes } from "../../../model/job/job-state.ts";
import { clearSql } from "../functions/columns.ts";
import { bitAt } from "./arrive.sql.ts";
import { passedOf, targetOf } from "./member.sql.ts";
import { stateSql } from "../jobs/place.sql.ts";
import { sql } from "../../../store/sql.ts";

const { blocked, completed, skipped } = stateCodes;

export const blockSql = sql`
-- p_next: a Block. Answers the row and whether deferred work is left for it.
CREATE FUNCTION @block_v1(p_now int8, INOUT j @waiting, p_next jsonb, OUT defers bool) LANGUAGE plpgsql AS $$
DECLARE
  w int8[] := string_to_array(j.waits, ',')::int8[]; v_edge text; v_ended int2; v_freed bool;
  p text[] := string_to_array(j.freed, ','); v_anew bool := p_next->'waits' <> 'null';
BEGIN
  IF v_anew THEN
    w[1] := (p_next->'waits'->>'need')::int8;
    w[2] := (p_next->'waits'->>'slack')::int8;
  END IF;
  w[3] := 0;
  FOR v_edge IN SELECT * FROM jsonb_array_elements_text(p_next->'parents') LOOP
    v_ended := @arrived_from_v1(p_now, substr(v_edge, 3), j.id);
    CONTINUE WHEN v_ended IS NULL;
    w[1] := w[1] - ${bitAt("v_edge", 1, "v_ended")};
    w[2] := w[2] - ${bitAt("v_edge", 2, "v_ended")};
  END LOOP;
  IF j.state >= ${completed} THEN
    ${clearSql("place", "replay")}
    -- The job would end at once with a deadline that has passed.
    IF j.deadline_at <= p_now THEN j.deadline_at := NULL; END IF;
  END IF;
  j.waits := array_to_string(w, ',');
  v_freed := j.freed IS NOT NULL AND w[1] <= 0 AND w[2] >= 0;
  IF v_freed THEN
    j.due_at := CASE left(p[1], 1) WHEN '@' THEN 0 ELSE p_now END + substr(p[1], 2)::int8;
    j.rank := p[2]::int8 + p[3]::int8 * j.due_at;
    j.ttl_at := j.due_at + nullif(p[4], '')::int8;
    j.state := ${stateSql("j.due_at", "p_now")};
  ELSE
    j.state := ${blocked};
    j.ttl_at := NULL;
  END IF;
  j.attempt := coalesce((p_next->>'attempt')::int4, j.attempt);
  j.counts_attempt := 1;
  -- A flow that goes on from where it was may be decided already.
  defers := w[2] < 0 OR (j.freed IS NULL AND w[1] <= 0) OR (v_freed AND w[4] = 1);
END $$;

-- The state in which a parent has ended, if its end has arrived at this job; null if it has yet to arrive. A parent
-- that is gone counts as one that never ran.
CREATE FUNCTION @arrived_from_v1(p_now int8, p_parent text, p_id text) RETURNS int2 LANGUAGE plpgsql AS $$
DECLARE j @waiting := @lock_job_v1(p_now, p_parent); v_at int8;
BEGIN
  IF j.id IS NULL THEN RETURN ${skipped}; END IF;
  IF j.state < ${completed} OR j.waits IS NULL THEN RETURN NULL; END IF;
  SELECT min(e.o) INTO v_at FROM jsonb_array_elements_text(j.edges::jsonb) WITH ORDINALITY e(edge, o)
    WHERE ${targetOf("coalesce(j.flow, j.id)", "e.edge")}
      = p_id;
  -- If the parent has no edge to this job any more, its end counts as arrived.
  RETURN CASE WHEN coalesce(v_at, 0) <= ${passedOf("j.")} THEN j.state END;
END $$;
`;
