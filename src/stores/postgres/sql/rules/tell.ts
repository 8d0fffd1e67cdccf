/**
 * Rule R10 (store/rules/tell.ts): what a call has to tell at its end is one record of the feed, packed as store/packed-events.ts reads it. Counts are
 * appended as deltas, so that two calls never wait for one counter row; every 1024th call folds them.
 */
import { eventCodes } from "../../../../model/event-kind.ts";
import { stateCodes } from "../../../../model/job-state.ts";
import { fieldEnd, itemEnd } from "../../text.ts";

const { scheduled, running, completed } = stateCodes;

export const foldEvery = 1024;

/** Groups of a set-based call: one group of ids for each (rev, route, attempt, ...) that occurs. */
export const groupedEvents = (kind: string, state: string, extra: string): string =>
  `concat_ws(${fieldEnd}, ${kind}, rev, route, ${state}, attempt, ${extra}, ids)`;

export const tellSql = (s: string): string => `
-- One event as the feed packs it. A removed job has no state.
CREATE FUNCTION ${s}.event_v1(p_kind int4, j ${s}.waiting) RETURNS text LANGUAGE sql IMMUTABLE AS $$
  SELECT concat_ws(${fieldEnd}, p_kind, j.rev, j.route, CASE WHEN p_kind = ${eventCodes.removed} THEN '' ELSE j.state::text END, j.attempt,
    coalesce(CASE WHEN p_kind = ${eventCodes.removed} THEN NULL
      WHEN j.state = ${scheduled} THEN 'n' || j.due_at
      WHEN j.state >= ${completed} THEN 's' || j.reason
      WHEN j.state = ${running} AND j.cancel_asked = 1 AND p_kind <> ${eventCodes.claimed} THEN 's' || j.owner END, ''), j.id)
$$;

-- Joins what several parts of a call have to tell; either may be null.
CREATE FUNCTION ${s}.and_v1(p_one text, p_other text) RETURNS text LANGUAGE sql IMMUTABLE AS $$
  SELECT CASE WHEN p_one IS NULL OR p_one = '' THEN p_other WHEN p_other IS NULL OR p_other = '' THEN p_one ELSE p_one || ${itemEnd} || p_other END
$$;

-- Writes the call's feed record, if it changed any job. Inside the caller's transaction nothing shared is touched.
CREATE FUNCTION ${s}.tell_v1(p_now int8, p_events text, p_inside bool) RETURNS void LANGUAGE plpgsql AS $$
DECLARE v_id int8;
BEGIN
  IF p_events IS NULL OR p_events = '' THEN RETURN; END IF;
  INSERT INTO ${s}.feed (at, body) VALUES (p_now, p_events) RETURNING id INTO v_id;
  IF v_id % ${foldEvery} = 0 AND NOT p_inside THEN PERFORM ${s}.fold_v1(); END IF;
END $$;

-- Sums up the deltas, and leaves one row of each route. What others append meanwhile stays as it is; two folds at once are pointless, so the
-- second leaves.
CREATE FUNCTION ${s}.fold_v1() RETURNS void LANGUAGE plpgsql AS $$
BEGIN
  IF NOT pg_try_advisory_xact_lock(hashtextextended('${s}.fold', 0)) THEN RETURN; END IF;
  WITH folded AS (DELETE FROM ${s}.tally RETURNING route, state, count)
  INSERT INTO ${s}.tally SELECT route, state, sum(count) FROM folded GROUP BY route, state HAVING sum(count) <> 0;
  DELETE FROM ${s}.route r USING ${s}.route o WHERE o.number = r.number AND o.ctid < r.ctid AND (o.queue, o.name, o.caps) = (r.queue, r.name, r.caps);
END $$;
`;
