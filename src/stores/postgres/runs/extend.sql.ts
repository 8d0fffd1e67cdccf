/** Leases of running attempts are extended under their fence, and the start of an attempt is reported. */
import { eventCodes } from "../../../model/events/event-kind.ts";
import { leasedFields } from "../../../store/job-fields.ts";
import { fencesPerEpoch } from "../../../store/rules/lease.ts";
import { selectSql } from "../functions/columns.ts";
import { itemEnd } from "../functions/packed-values.ts";
import { byKeys } from "../functions/call.sql.ts";
import { lastEntry } from "../journal/entry.sql.ts";
import { sql } from "../../../store/sql.ts";

export const leaveEnd = -1;

export const extendSql = sql`
-- Why a lease could not be written. unknown: the row is there, but another transaction holds it.
CREATE FUNCTION @lost_v1(p_id text, p_seq int8, p_fence int8) RETURNS text LANGUAGE sql STABLE AS $$
  SELECT CASE WHEN EXISTS (SELECT 1 FROM @leased WHERE id = p_id AND seq = p_seq AND fence = p_fence) THEN 'unknown'
    WHEN @refusal_v1(p_id, p_seq, p_fence) = 'gone' THEN 'gone' ELSE 'stale' END
$$;

-- Extends leases. p_started: null leaves the start. p_ends: ${leaveEnd} leaves the attempt's end, null clears it.
-- answers: for each lease ok, cancel-asked, unknown, stale or gone. others: leases of the owner that were not named.
-- timer_at: the earliest attempt end that was set. has_emitted: starts were reported that had not been emitted before.
-- p_seens: the last numbers of the journals that the owner knows; null for none. grown: the places of those leases
-- whose journal holds more.
-- A row that another transaction holds is passed over: the other leases must not end because one job is being settled
-- in a caller's long transaction. An append of the run itself holds no lock that this one meets.
CREATE FUNCTION @extend_v1(p_now int8, p_commit text, p_owner text, p_lease int8, p_ids text[], p_seqs int8[],
  p_fences int8[], p_started int8[], p_ends int8[], p_others bool, p_seens int4[],
  OUT now int8, OUT answers text[], OUT timer_at int8, OUT others jsonb, OUT has_emitted bool, OUT grown int4[])
  LANGUAGE plpgsql
  ${byKeys} AS $$
#variable_conflict use_column
DECLARE v_events text;
BEGIN
  now := @begin_v1(p_now, p_commit);
  WITH asked AS (
    SELECT * FROM unnest(p_ids, p_seqs, p_fences, p_started, p_ends)
      WITH ORDINALITY a(id, seq, fence, started, ends, o)),
  free AS MATERIALIZED (
    SELECT l.id, l.started_at IS NULL AS is_unstarted FROM @leased l WHERE l.id = ANY (p_ids)
    ORDER BY l.id FOR NO KEY UPDATE SKIP LOCKED),
  extended AS (
    UPDATE @leased l SET lease_ends_at = greatest(l.lease_ends_at, now + p_lease),
      started_at = coalesce(now - a.started, l.started_at),
      attempt_ends_at = CASE WHEN a.ends = ${leaveEnd} THEN l.attempt_ends_at ELSE now + a.ends END,
      timer_at = least(greatest(l.lease_ends_at, now + p_lease),
          CASE WHEN a.ends = ${leaveEnd} THEN l.attempt_ends_at ELSE now + a.ends END, l.deadline_at)
    FROM asked a JOIN free f ON f.id = a.id WHERE l.id = ANY (p_ids) AND l.id = a.id AND l.seq = a.seq
      AND l.fence = a.fence
    RETURNING a.o, l.cancel_asked, CASE WHEN a.ends >= 0 THEN l.attempt_ends_at END AS ends_at,
      CASE WHEN f.is_unstarted AND a.started IS NOT NULL THEN @event_v1(${eventCodes.started}, ROW(l.*)::@waiting)
        END AS event)
  SELECT array_agg(CASE WHEN e.o IS NULL THEN NULL WHEN e.cancel_asked = 1 THEN 'cancel-asked' ELSE 'ok' END
      ORDER BY a.o), min(e.ends_at),
      string_agg(e.event, ${itemEnd} ORDER BY a.o)
    INTO answers, timer_at, v_events FROM asked a LEFT JOIN extended e ON e.o = a.o;
  PERFORM @emit_v1(now, v_events, false);
  has_emitted := v_events IS NOT NULL;
  FOR v_i IN 1..coalesce(array_length(answers, 1), 0) LOOP
    IF answers[v_i] IS NULL THEN answers[v_i] := @lost_v1(p_ids[v_i], p_seqs[v_i], p_fences[v_i]); END IF;
  END LOOP;
  IF p_seens IS NOT NULL THEN
    SELECT array_agg(a.o) INTO grown
    FROM unnest(p_seqs, p_seens, answers) WITH ORDINALITY a(seq, seen, answer, o)
    WHERE a.answer IN ('ok', 'cancel-asked') AND
      ${lastEntry("a.seq")} > a.seen;
  END IF;
  IF p_others THEN
    -- Leases of an earlier run of the server are left out: the end of such a job may have been acknowledged and lost,
    -- and the job would run twice under one fence.
    SELECT jsonb_agg(jsonb_build_array(
      ${selectSql("l", leasedFields)}) ORDER BY l.seq)
    INTO others FROM @leased l JOIN @alive e ON l.fence > e.epoch * ${fencesPerEpoch}
    WHERE l.owner = p_owner AND NOT EXISTS (
      SELECT 1 FROM unnest(p_ids, p_fences) a(id, fence) WHERE a.id = l.id AND a.fence = l.fence);
  END IF;
END $$;
`;
