/**
 * Rule R7, admit (model/limits/gate.ts), as fragments over the row of a gate: how many of its permits are held, how
 * many pass now, and when its own clock lets a number of them pass.
 *
 * Two claims with two snapshots would both give away the last permit. So a claim locks the gates of its routes before
 * it looks (advisory locks, sorted, until its commit). Its snapshot then has all leases of earlier claims. A gate
 * without a cap and a rate only must not change meanwhile, so its lock is shared. A put of a gate takes the lock
 * exclusively, so a pause holds once it has been answered. No call can have locked a new gate, so its put takes the
 * lock of all gates, which every claim shares.
 */
import { foreverMs, queueGateKey } from "../../../model/limits/gate.ts";
import { stateCodes } from "../../../model/job/job-state.ts";
import { sql } from "../../../store/sql.ts";

/** Shared by every claim; exclusive for a put that adds a gate. */
export const allGates = "hashtextextended('@gate', 0)";
export const gateLock = (key: string): string => sql`hashtextextended('@gate' || ${key}, 0)`;

/** The rows of gate_use that belong to a route. */
export const usesOf = (number: string, queue: string, gates: string): string => sql`
  SELECT '${queueGateKey("")}' || ${queue} AS key, ${number} AS route, 1 AS weight
  UNION ALL SELECT u->>'key', ${number}, (u->>'weight')::int8
  FROM jsonb_path_query(${gates}, '$[*]') u
  WHERE u->>'key' IS NOT NULL AND jsonb_typeof(u->'weight') = 'number'`;

/** Whether a queue's gate with this key, or one of these, refuses new jobs. */
export const isIntakeClosed = (key: string): string => sql`
  EXISTS (SELECT 1 FROM @gate WHERE is_intake_closed AND key = ${key})`;

/** The permits held by the jobs that run on the routes of gate g. */
export const held = sql`
  (SELECT coalesce(sum(t.count * u.weight), 0)::int8
    FROM (SELECT DISTINCT route, weight FROM @gate_use WHERE key = g.key) u
      JOIN @state_count t ON t.route = u.route AND t.state = ${stateCodes.running})`;

/** How many permits of gate g pass now; null for any number. */
export const permitsLeft = (now: string): string => sql`
  CASE WHEN g.closed_until > ${now} THEN 0 ELSE least(
    CASE WHEN g.cap IS NOT NULL THEN greatest(0, g.cap -
      ${held}) END,
    CASE WHEN g.step_us IS NOT NULL THEN
      greatest(0, floor(
        (${now} * 1000 + g.burst_us - greatest(g.tat_us, ${now} * 1000)) / g.step_us)) END) END`;

/** The token time of gate g, which has a rate, after this many permits have passed now. */
export const tatAfter = (permits: string, now: string): string =>
  sql`greatest(g.tat_us, ${now} * 1000) + ${permits} * g.step_us`;

/** When the clock of gate g lets this many permits pass; null if the clock does not hold them back, or for never. */
export const opensAt = (permits: string, now: string): string => sql`
  CASE WHEN g.closed_until IS DISTINCT FROM ${foreverMs} THEN (
    SELECT at FROM (
      SELECT greatest(g.closed_until, ceil((g.tat_us + ${permits} * g.step_us - g.burst_us) / 1000))::int8 AS at) o
    WHERE at > ${now}) END`;
