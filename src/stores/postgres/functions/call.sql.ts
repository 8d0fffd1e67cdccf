/**
 * What every call shares: its time, its durability, and the earliest clock of any live job or document (null without
 * one).
 */
import { stateCodes } from "../../../model/job/job-state.ts";
import { sql } from "../../../store/sql.ts";
import { isInClock } from "../connection/schema.sql.ts";

export const setCommit = sql`
  IF p_commit IS NOT NULL THEN PERFORM set_config('synchronous_commit', p_commit, true); END IF;`;

/**
 * The time of a call: that of the test's clock if one is given. It is inlined where a function call would be too slow.
 */
export const timeNow = sql`coalesce(p_now, floor(extract(epoch FROM clock_timestamp()) * 1000)::int8)`;

/** For functions whose plan must not depend on what the tables held when it was made. */
export const byIndex = sql`
  SET enable_seqscan = off SET enable_bitmapscan = off SET jit = off
  SET plan_cache_mode = force_generic_plan`;

/** For functions that find rows by a list of keys and hash them against the request (runs/settle.sql.ts says why). */
export const byKeys = sql`
  SET enable_seqscan = off SET enable_nestloop = off SET enable_mergejoin = off SET jit = off
  SET plan_cache_mode = force_generic_plan`;

export const nextClock = sql`
  least(
    (SELECT due_at FROM @waiting WHERE state = ${stateCodes.scheduled} ORDER BY due_at, seq LIMIT 1),
    (SELECT timer_at FROM @waiting
      WHERE ${isInClock}
      ORDER BY timer_at, seq LIMIT 1),
    (SELECT timer_at FROM @leased ORDER BY timer_at, seq LIMIT 1),
    (SELECT due_at FROM @doc WHERE due_at IS NOT NULL ORDER BY due_at LIMIT 1))`;

export const callSql = sql`
-- Called first in a call: answers its time. p_commit: synchronous_commit of this transaction; null leaves it.
CREATE FUNCTION @begin_v1(p_now int8, p_commit text) RETURNS int8 LANGUAGE plpgsql AS $$
BEGIN
  ${setCommit}
  RETURN ${timeNow};
END $$;

-- The earliest clock of any live job or document; null without one.
CREATE FUNCTION @next_clock_v1() RETURNS int8 LANGUAGE sql STABLE AS $$
  SELECT ${nextClock}
$$;
`;
