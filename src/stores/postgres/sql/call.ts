/** What every call shares: its time, its durability, and the earliest clock of any live job. */
import { stateCodes } from "../../../model/job-state.ts";
import { isInClock } from "../schema.ts";

/** The time of a call: by the test's clock where one is given. Written out where a function call would be felt. */
export const timeNow = "coalesce(p_now, floor(extract(epoch FROM clock_timestamp()) * 1000)::int8)";

/** The earliest clock of any live job; null without one. */
export const nextClock = (s: string): string => `least(
    (SELECT due_at FROM ${s}.waiting WHERE state = ${stateCodes.scheduled} ORDER BY due_at, seq LIMIT 1),
    (SELECT timer_at FROM ${s}.waiting WHERE ${isInClock} ORDER BY timer_at, seq LIMIT 1),
    (SELECT timer_at FROM ${s}.leased ORDER BY timer_at, seq LIMIT 1))`;

export const callSql = (s: string): string => `
-- p_now: the time by the test's clock; null for the database's. p_commit: synchronous_commit of this transaction; null
-- leaves it.
CREATE FUNCTION ${s}.begin_v1(p_now int8, p_commit text) RETURNS int8 LANGUAGE plpgsql AS $$
BEGIN
  IF p_commit IS NOT NULL THEN PERFORM set_config('synchronous_commit', p_commit, true); END IF;
  RETURN ${timeNow};
END $$;

CREATE FUNCTION ${s}.next_clock_v1() RETURNS int8 LANGUAGE sql STABLE AS $$
  SELECT ${nextClock(s)}
$$;
`;
