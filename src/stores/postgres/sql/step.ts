/**
 * What every call shares: its time, what it has to tell at its end (rule R10), the numbers of routes and the earliest clock.
 *
 *  an event in the feed   kind US rev US route US state US attempt US extra US id [US id ...]   (RS between such groups)
 *  extra                  empty for none, n<number>, s<text>
 *
 * Tallies are appended as deltas, so that two calls never wait for one counter row; every 1024th call folds them.
 */
import { fieldEnd, itemEnd } from "../text.ts";

export const foldEvery = 1024;

/** The time of a call: by the test's clock where one is given. Written out where a function call would be felt. */
export const timeNow = "coalesce(p_now, floor(extract(epoch FROM clock_timestamp()) * 1000)::int8)";

/** The earliest clock of any live job; null without one. */
export const nextClock = (s: string): string => `least(
    (SELECT w.due_at FROM ${s}.waiting w WHERE w.state = 1 ORDER BY w.due_at, w.seq LIMIT 1),
    (SELECT w.timer_at FROM ${s}.waiting w WHERE w.timer_at IS NOT NULL AND (w.state <> 1 OR w.timer_at < w.due_at) ORDER BY w.timer_at, w.seq LIMIT 1),
    (SELECT l.timer_at FROM ${s}.leased l ORDER BY l.timer_at, l.seq LIMIT 1))`;

export const stepSql = (s: string): string => `
-- p_now: the time by the test's clock; null for the database's. p_commit: synchronous_commit of this transaction; null leaves it.
CREATE FUNCTION ${s}.begin_v1(p_now int8, p_commit text) RETURNS int8 LANGUAGE plpgsql AS $$
BEGIN
  IF p_commit IS NOT NULL THEN PERFORM set_config('synchronous_commit', p_commit, true); END IF;
  RETURN ${timeNow};
END $$;

-- Writes the call's feed record, if it changed any job. Inside the caller's transaction nothing shared is touched.
CREATE FUNCTION ${s}.tell_v1(p_now int8, p_events text, p_inside bool) RETURNS void LANGUAGE plpgsql AS $$
DECLARE v_id int8;
BEGIN
  IF p_events IS NULL OR p_events = '' THEN RETURN; END IF;
  INSERT INTO ${s}.feed (at, body) VALUES (p_now, p_events) RETURNING id INTO v_id;
  IF v_id % ${foldEvery} = 0 AND NOT p_inside THEN PERFORM ${s}.fold_v1(); END IF;
END $$;

-- Sums up the deltas. What others append meanwhile stays as it is; two folds at once are pointless, so the second leaves.
CREATE FUNCTION ${s}.fold_v1() RETURNS void LANGUAGE plpgsql AS $$
BEGIN
  IF NOT pg_try_advisory_xact_lock(hashtextextended('${s}.fold', 0)) THEN RETURN; END IF;
  WITH folded AS (DELETE FROM ${s}.tally RETURNING route, state, count)
  INSERT INTO ${s}.tally SELECT route, state, sum(count) FROM folded GROUP BY route, state HAVING sum(count) <> 0;
END $$;

-- The number of a route; a new one gets the next number, under a lock so that numbers have no gaps.
CREATE FUNCTION ${s}.route_number_v1(p_queue text, p_name text) RETURNS int4 LANGUAGE plpgsql AS $$
DECLARE v_number int4;
BEGIN
  SELECT number INTO v_number FROM ${s}.route WHERE queue = p_queue AND name = p_name;
  IF FOUND THEN RETURN v_number; END IF;
  PERFORM pg_advisory_xact_lock(hashtextextended('${s}.route', 0));
  SELECT number INTO v_number FROM ${s}.route WHERE queue = p_queue AND name = p_name;
  IF FOUND THEN RETURN v_number; END IF;
  INSERT INTO ${s}.route SELECT coalesce(max(number), 0) + 1, p_queue, p_name FROM ${s}.route RETURNING number INTO v_number;
  RETURN v_number;
END $$;

CREATE FUNCTION ${s}.next_clock_v1() RETURNS int8 LANGUAGE sql STABLE AS $$
  SELECT ${nextClock(s)}
$$;

-- One event as the feed packs it. p_extra comes with its n or s; a removed job has no state.
CREATE FUNCTION ${s}.event_v1(p_kind int4, j ${s}.waiting, p_extra text) RETURNS text LANGUAGE sql IMMUTABLE AS $$
  SELECT concat_ws(${fieldEnd}, p_kind, j.rev, j.route, coalesce(j.state::text, ''), j.attempt, coalesce(p_extra, ''), j.id)
$$;

-- Joins what several parts of a call have to tell; either may be null.
CREATE FUNCTION ${s}.and_v1(p_one text, p_other text) RETURNS text LANGUAGE sql IMMUTABLE AS $$
  SELECT CASE WHEN p_one IS NULL OR p_one = '' THEN p_other WHEN p_other IS NULL OR p_other = '' THEN p_one ELSE p_one || ${itemEnd} || p_other END
$$;
`;
