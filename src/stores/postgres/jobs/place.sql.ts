/**
 * Rule R1 (store/rules/place.ts): places a job among the waiting ones. A submit places a new job, a retry or a
 * hand-back a running one, a reschedule a waiting one. A job that is due at once is ready, else scheduled.
 */
import { stateCodes } from "../../../model/job/job-state.ts";
import { clearSql, initialJson } from "../functions/columns.ts";
import { isBornBlocked } from "../flows/member.sql.ts";
import { sql } from "../../../store/sql.ts";

const { blocked, scheduled, ready, completed } = stateCodes;

export const stateSql = (dueAt: string, now: string): string =>
  sql`CASE WHEN ${dueAt} <= ${now} THEN ${ready} ELSE ${scheduled} END`;

export const placeSql = sql`
-- p_due: {inMs} or {at}; null for none.
CREATE FUNCTION @due_v1(p_now int8, p_due jsonb) RETURNS int8 LANGUAGE sql IMMUTABLE AS $$
  SELECT coalesce((p_due->>'at')::int8, p_now + (p_due->>'inMs')::int8)
$$;

-- p_next: a Schedule or a HandBack; or a new job, which has those fields of a Schedule that place it.
CREATE FUNCTION @place_v1(p_now int8, j @waiting, p_next jsonb) RETURNS @waiting LANGUAGE plpgsql IMMUTABLE AS $$
DECLARE
  -- If a job that holds its group is replayed, it goes on holding the group until it is ready, as the first of its
  -- lane.
  v_keeps bool := j.lane_key IS NOT NULL
  AND ((p_next->>'keepsLane')::bool OR (j.state >= ${completed} AND j.keeps_lane = 1));
BEGIN
  ${clearSql("place")}
  j.counts_attempt := coalesce((p_next->>'countsAttempt')::int2, j.counts_attempt);
  IF p_next->>'to' = 'ready' THEN j.state := ${ready}; RETURN j; END IF;
  j.due_at := @due_v1(p_now, p_next->'due');
  j.ttl_at := j.due_at + (p_next->>'ttlMs')::int8;
  j.state := ${stateSql("j.due_at", "p_now")};
  -- A retry that keeps its lane also keeps its place there.
  IF v_keeps THEN
    j.keeps_lane := CASE WHEN j.state = ${scheduled} THEN 1 ELSE 0 END;
  ELSE
    j.rank := (p_next->>'rankBase')::int8 + (p_next->>'rankSlope')::int8 * j.due_at;
  END IF;
  j.attempt := coalesce((p_next->>'attempt')::int4, j.attempt);
  IF (p_next->>'clearsPassedDeadline')::bool AND j.deadline_at <= p_now THEN j.deadline_at := NULL; END IF;
  RETURN @edit_v1(j, p_next->'edit');
END $$;

-- A row for a new job, not yet written. p_job: {given: columns by name, due, rankBase, rankSlope, ttlMs, deadline}.
CREATE FUNCTION @place_new_v1(p_now int8, p_job jsonb) RETURNS @waiting LANGUAGE plpgsql AS $$
DECLARE j @waiting := jsonb_populate_record(NULL::@waiting, ${initialJson}::jsonb || (p_job->'given'));
BEGIN
  j.seq := nextval('@job_seq');
  j.created_at := p_now;
  j.deadline_at := @due_v1(p_now, p_job->'deadline');
  j := @place_v1(p_now, j, p_job);
  IF ${isBornBlocked("j.waits", "j.freed")} THEN
    j.state := ${blocked};
    j.ttl_at := NULL;
  END IF;
  j.timer_at := @timer_v1(j);
  RETURN j;
END $$;
`;
