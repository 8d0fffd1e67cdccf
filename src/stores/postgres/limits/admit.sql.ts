/**
 * Rule R7, admit (model/limits/gate.ts), as fragments over the row of a gate: how much of it is held, how many permits
 * pass now, and when its own clock lets so many pass.
 *
 * Two claims with two snapshots would each give the last permit away. So a claim locks the gates of its routes before
 * it looks (advisory locks, sorted, until its commit), and what it looks at then holds what everybody before it has
 * leased. A gate without a cap and a rate only has to keep still: its lock is shared. Who puts a gate takes the lock
 * alone, so a pause that has answered holds; where the gate is new, nobody could lock it, and the put takes the lock of
 * all gates, which every claim shares.
 */
import { foreverMs, queueGateKey } from "../../../model/limits/gate.ts";
import { stateCodes } from "../../../model/job/job-state.ts";
import { sql } from "../../../store/sql.ts";

/** Shared by every claim; alone with whoever adds a gate. */
export const allGates = "hashtextextended('@gate', 0)";
export const gateLock = (key: string): string => sql`hashtextextended('@gate' || ${key}, 0)`;

/** The rows of gate_use that belong to a route. */
export const usesOf = (number: string, queue: string, gates: string): string => sql`
  SELECT '${queueGateKey("")}' || ${queue} AS key, ${number} AS route, 1 AS weight
  UNION ALL SELECT u->>'key', ${number}, (u->>'weight')::int8
  FROM jsonb_path_query(${gates}, '$[*]') u
  WHERE u->>'key' IS NOT NULL AND jsonb_typeof(u->'weight') = 'number'`;

/** Whether a queue's gate with this key, or one of these, refuses new jobs. */
export const isDraining = (key: string): string => sql`
  EXISTS (SELECT 1 FROM @gate WHERE key = ${key} AND is_draining)`;

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

/** The token time of gate g, which has a rate, once this many permits have passed now. */
export const tatAfter = (permits: string, now: string): string =>
  sql`greatest(g.tat_us, ${now} * 1000) + ${permits} * g.step_us`;

/** When the clock of gate g lets this many permits pass; null if the clock does not hold them back, or for never. */
export const opensAt = (permits: string, now: string): string => sql`
  CASE WHEN g.closed_until IS DISTINCT FROM ${foreverMs} THEN (
    SELECT at FROM (
      SELECT greatest(g.closed_until, ceil((g.tat_us + ${permits} * g.step_us - g.burst_us) / 1000))::int8 AS at) o
    WHERE at > ${now}) END`;
