/**
 * Rule R10 (store/rules/emit.ts): all events of a call are one record of the feed, which is written at its end, packed
 * as store/packing/packed-events.ts reads it. Counts are appended as deltas, so that two calls never wait for one
 * counter row. Every 1024th call folds them.
 */
import { eventCodes } from "../../../model/events/event-kind.ts";
import { stateCodes } from "../../../model/job/job-state.ts";
import { notedMark } from "../../../store/packing/packed-events.ts";
import { storeLimits } from "../../../store/contract-limits.ts";
import { unreportedStart } from "../../../store/rules/emit.ts";
import { fieldEnd, itemEnd } from "../functions/packed-values.ts";
import { sql } from "../../../store/sql.ts";

const { scheduled, running, completed } = stateCodes;

export const foldEvery = 1024;

/** The events of a set of jobs: one group of ids for each (rev, route, attempt, ...) that occurs. */
export const groupedEvents = (kind: string, state: string, extra: string): string =>
  sql`
    concat_ws(${fieldEnd}, ${kind}, rev, route, ${state}, attempt,
      ${extra}, ids)`;

const { noteCharsMax } = storeLimits;

/** The note of a settle's event: whether its start was not emitted, and its attempt log if that is short. */
export const noteOf = (startedAt: string, log: string): string => sql`
  CASE WHEN ${startedAt} IS NULL THEN '${unreportedStart}' ELSE '' END
    || CASE WHEN octet_length(${log}) <= ${noteCharsMax}
      OR length(${log}) <= ${noteCharsMax} THEN ${log} ELSE '' END`;

/** A column of many rows as a list. If all values are the same, the list has one item. */
export const brief = (value: string): string => sql`
  CASE WHEN min(${value}) = max(${value})
    THEN ARRAY[min(${value})] ELSE array_agg(${value}) END`;

interface SharedStep {
  readonly kind: string;
  readonly from: string;
  readonly to: string;
  readonly extra?: string;
  /** How many of the jobs that took the step are counted in the state `to`; all of them by default. */
  readonly counted?: (jobs: string) => string;
  /** Each id in v_ids is followed by its note, and there is an itemEnd between two of them. */
  readonly isNoted?: boolean;
  /** Given if the jobs are alike, except that the first ones have another extra value. */
  readonly differs?: Difference;
}

interface Difference {
  /** The number of jobs at the start of v_ids that have this extra value. */
  readonly first: string;
  readonly extra: string;
}

/**
 * The events of a set of jobs that all took the same step, and the deltas of their counts. Variables: v_count; v_ids, a
 * text; l_route, l_rev and l_attempt, brief lists; v_events for the answer. Usually all jobs have the same route, rev
 * and attempt, and then nothing is grouped.
 */
export const emitSet = (step: SharedStep): string => {
  const { from, to, extra = "''", counted = (jobs: string) => jobs, isNoted = false, differs } = step;
  const kind = isNoted ? `${step.kind} || '${notedMark}'` : step.kind;
  const [ids, between] = isNoted ? [`replace(v_ids, ${itemEnd}, ${fieldEnd})`, itemEnd] : ["v_ids", fieldEnd];
  const isFirst = differs === undefined ? "false" : `o <= ${differs.first}`;
  const value = differs === undefined ? extra : `CASE WHEN is_first THEN ${differs.extra} ELSE ${extra} END`;
  const alike = (own: string, jobs: string): string => sql`
    concat_ws(${fieldEnd}, ${kind}, l_rev[1], l_route[1], ${to}, l_attempt[1],
      ${own}, ${jobs})`;
  return sql`
    IF array_length(l_route, 1) = 1 AND array_length(l_rev, 1) = 1 AND array_length(l_attempt, 1) = 1 THEN
      ${differs === undefined ? sql`v_events := ${alike(extra, ids)};` : eventsOfTwo(extra, differs, alike)}
      INSERT INTO @state_count VALUES (l_route[1], ${from}, -v_count),
        (l_route[1], ${to}, ${counted("v_count")});
    ELSE
      WITH grouped AS (
        SELECT coalesce(g.route, l_route[1]) AS route, coalesce(g.rev, l_rev[1]) AS rev,
          coalesce(g.attempt, l_attempt[1]) AS attempt, ${isFirst} AS is_first, count(*) AS jobs,
          string_agg(g.id, ${fieldEnd}) AS ids
        FROM unnest(l_route, l_rev, l_attempt, string_to_array(v_ids, ${between}))
          WITH ORDINALITY g(route, rev, attempt, id, o)
        GROUP BY 1, 2, 3, 4),
      counted AS (
        INSERT INTO @state_count SELECT route, ${from}, -sum(jobs) FROM grouped GROUP BY route
          UNION ALL SELECT route, ${to}, ${counted("sum(jobs)")} FROM grouped GROUP BY route)
      SELECT string_agg(
        ${groupedEvents(kind, to, value)}, ${itemEnd})
      INTO v_events FROM grouped;
    END IF;`;
};

/** The events of jobs that are alike, except that the first ones have another extra value. */
const eventsOfTwo = (
  extra: string,
  { first, extra: own }: Difference,
  alike: (own: string, jobs: string) => string,
): string => {
  const part = (places: string): string =>
    `array_to_string((string_to_array(v_ids, ${fieldEnd}))[${places}], ${fieldEnd})`;
  return sql`
    IF ${first} = 0 THEN v_events := ${alike(extra, "v_ids")};
    ELSIF ${first} = v_count THEN v_events := ${alike(own, "v_ids")};
    ELSE v_events := ${alike(own, part(`1:${first}`))} || ${itemEnd}
      || ${alike(extra, part(`${first} + 1:`))};
    END IF;`;
};

export const emitSql = sql`
-- One event as the feed packs it. A deleted job has no state.
CREATE FUNCTION @event_v1(p_kind int4, j @waiting) RETURNS text LANGUAGE sql IMMUTABLE AS $$
  SELECT concat_ws(${fieldEnd}, p_kind, j.rev, j.route,
    CASE WHEN p_kind = ${eventCodes.deleted} THEN '' ELSE j.state::text END, j.attempt,
    coalesce(
      CASE WHEN p_kind = ${eventCodes.deleted} THEN NULL
        WHEN p_kind = ${eventCodes.started} THEN 'n' || j.started_at
        WHEN p_kind IN (${eventCodes.progress}, ${eventCodes.step}) THEN 's' || j.progress
        WHEN j.state = ${scheduled} THEN 'n' || j.due_at
        WHEN j.state >= ${completed} THEN 's' || j.reason
        WHEN j.state = ${running} AND (j.cancel_asked = 1 OR p_kind = ${eventCodes.signalled})
          THEN 's' || j.owner END, ''),
    j.id)
$$;

-- The same event with the note of its settle, if there is any.
CREATE FUNCTION @noted_v1(p_event text, p_note text) RETURNS text LANGUAGE sql IMMUTABLE AS $$
  SELECT CASE WHEN p_note = '' THEN p_event
    ELSE regexp_replace(p_event, ${fieldEnd}, '${notedMark}' || ${fieldEnd}) || ${fieldEnd} || p_note END
$$;

-- Joins the events of two parts of a call; either may be null.
CREATE FUNCTION @append_events_v1(p_one text, p_other text) RETURNS text LANGUAGE sql IMMUTABLE AS $$
  SELECT CASE
    WHEN p_one IS NULL OR p_one = '' THEN p_other
    WHEN p_other IS NULL OR p_other = '' THEN p_one
    ELSE p_one || ${itemEnd} || p_other END
$$;

-- Writes the call's feed record, if it changed any job. Inside the caller's transaction no shared row is changed.
CREATE FUNCTION @emit_v1(p_now int8, p_events text, p_inside bool) RETURNS void LANGUAGE plpgsql AS $$
DECLARE v_id int8;
BEGIN
  IF p_events IS NULL OR p_events = '' THEN RETURN; END IF;
  INSERT INTO @feed (at, body) VALUES (p_now, p_events) RETURNING id INTO v_id;
  IF v_id % ${foldEvery} = 0 AND NOT p_inside THEN PERFORM @fold_v1(); END IF;
END $$;

-- Sums up the deltas and removes duplicate rows: one row of each route, of each of its gates, and one floor remain.
-- Rows that other calls append meanwhile stay as they are. If another fold is running, this one returns at once.
CREATE FUNCTION @fold_v1() RETURNS void LANGUAGE plpgsql AS $$
BEGIN
  IF NOT pg_try_advisory_xact_lock(hashtextextended('@fold', 0)) THEN RETURN; END IF;
  WITH folded AS (DELETE FROM @state_count RETURNING route, state, count)
  INSERT INTO @state_count
  SELECT route, state, sum(count) FROM folded GROUP BY route, state HAVING sum(count) <> 0;
  DELETE FROM @doc_floor WHERE version < (SELECT max(version) FROM @doc_floor);
  DELETE FROM @route r USING @route o
    WHERE o.number = r.number AND o.ctid < r.ctid
      AND (o.queue, o.name, o.requires, o.gates, coalesce(o.lanes, ''))
        = (r.queue, r.name, r.requires, r.gates, coalesce(r.lanes, ''));
  DELETE FROM @gate_use u USING @gate_use o
    WHERE o.route = u.route AND o.ctid < u.ctid AND (o.key, o.weight) = (u.key, u.weight);
  DELETE FROM @lane_scope s USING @lane_scope o
    WHERE o.queue = s.queue AND o.ctid < s.ctid AND o.scope = s.scope;
END $$;
`;
