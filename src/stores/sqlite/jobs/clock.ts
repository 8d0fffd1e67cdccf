/**
 * What time it is, and when a job's clock rings, as SQL computes it (rule R1). Durations come in relative, and the
 * store adds its own now: never behind the last time it wrote down, whatever the machine's clock does.
 */
import { stateCodes } from "../../../model/job/job-state.ts";
import { readValue } from "../connection/connection.ts";
import type { Statements } from "../connection/connection.ts";

/** No input. Answer: the time of the newest feed record. The prune never takes that record. */
const lastEmitted = "SELECT at FROM millrace_feed ORDER BY number DESC LIMIT 1";

export function storeNow(statements: Statements, machineNow: number): number {
  return Math.max(machineNow, readValue<number>(statements, lastEmitted) ?? 0);
}

const never = Number.MAX_SAFE_INTEGER;

/** The earliest of these clocks, null where none is set. */
function earliest(...columns: readonly string[]): string {
  return `nullif(min(${columns.map((column) => `ifnull(${column}, ${never})`).join(", ")}), ${never})`;
}

/** `timerAtOf` of store/rules/timer.ts, for a job in the state it is in and for one that comes into a state. */
export const timerAt = {
  running: earliest("lease_ends_at", "attempt_ends_at", "deadline_at"),
  scheduled: earliest("due_at", "deadline_at", "ttl_at"),
  ready: earliest("deadline_at", "ttl_at"),
  /** `endsAt` is the end of the new lease. */
  leased: (endsAt: string): string => earliest(endsAt, "deadline_at"),
} as const;

export const presentTimerAt = `CASE state WHEN ${stateCodes.running} THEN ${timerAt.running}
  WHEN ${stateCodes.scheduled} THEN ${timerAt.scheduled} ELSE ${timerAt.ready} END`;
