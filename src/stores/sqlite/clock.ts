/**
 * Rule R1: what time it is, when a job is due, and which of its clocks rings first. Durations come in relative, and the store
 * adds its own now: never behind the last time it wrote down, whatever the machine's clock does.
 */
import type { Due } from "../../model/change.ts";
import { stateCodes } from "../../model/job-state.ts";
import type { Statements } from "./connection.ts";

/** No input. Answer: the time of the newest feed record. The prune never takes that record. */
const lastTold = "SELECT at FROM millrace_feed ORDER BY number DESC LIMIT 1";

export function storeNow(statements: Statements, machineNow: number): number {
  const row = statements(lastTold).get() as [at: number] | undefined;
  return row === undefined ? machineNow : Math.max(machineNow, row[0]);
}

export function dueAtOf(due: Due, now: number): number {
  return "inMs" in due ? now + due.inMs : due.at;
}

/** Due at once means ready, else scheduled. */
export function waitingCode(dueAt: number, now: number): number {
  return dueAt <= now ? stateCodes.ready : stateCodes.scheduled;
}

export interface Clocks {
  readonly dueAt: number;
  readonly deadlineAt: number | null;
  readonly ttlAt: number | null;
  readonly leaseEndsAt?: number | null;
  readonly attemptEndsAt?: number | null;
}

/** The earliest clock of the present state. */
export function timerAtOf(state: number, clocks: Clocks): number | null {
  const deadlineAt = clocks.deadlineAt ?? Infinity;
  const earliest =
    state === stateCodes.running
      ? Math.min(clocks.leaseEndsAt ?? Infinity, clocks.attemptEndsAt ?? Infinity, deadlineAt)
      : Math.min(
          state === stateCodes.scheduled ? clocks.dueAt : Infinity,
          deadlineAt,
          clocks.ttlAt ?? Infinity,
        );
  return earliest === Infinity ? null : earliest;
}

const never = "9007199254740991";

/** The same formula in SQL, for claim, extend and the audit. */
export const timerAtSql = `nullif(CASE state
  WHEN ${stateCodes.running} THEN min(lease_ends_at, ifnull(attempt_ends_at, ${never}), ifnull(deadline_at, ${never}))
  WHEN ${stateCodes.scheduled} THEN min(due_at, ifnull(deadline_at, ${never}), ifnull(ttl_at, ${never}))
  ELSE min(ifnull(deadline_at, ${never}), ifnull(ttl_at, ${never})) END, ${never})`;
