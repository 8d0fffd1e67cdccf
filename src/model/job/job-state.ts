/**
 * The states of a job and the transitions between them. No other code decides which transition is allowed.
 *
 *              ┌─► scheduled ──due──┐
 *  submit ─────┼─► blocked ─freed───┼─► ready ──claim──► running ─┬─► completed
 *              └────────────────────┘     ▲                       ├─► failed
 *                                         ├── scheduled ◄─ retry, reclaim, snooze, throttle
 *                                         └── suspended ◄─ waits; takes no slot
 *
 *  from        to
 *  submit      ready, scheduled, blocked
 *  blocked     ready, scheduled (freed with a delay), skipped, cancelled, expired, completed (a flow), failed (a flow)
 *  scheduled   ready, cancelled, expired
 *  ready       running, scheduled (rescheduled), failed (no handler after its grace), cancelled, expired
 *  running     completed, failed, cancelled, expired, skipped, scheduled, suspended, ready (hand-back)
 *  suspended   ready, scheduled (resumed with a delay), failed, cancelled, expired
 *  terminal    ready, scheduled, blocked: only by a replay
 *
 * A change that keeps the state (reschedule a scheduled job, edit a payload, request a cancel) is no transition.
 */

/** Stores keep these codes: they never change and are never reused for another state. */
export const stateCodes = {
  blocked: 0,
  scheduled: 1,
  ready: 2,
  running: 3,
  suspended: 4,
  completed: 5,
  failed: 6,
  cancelled: 7,
  expired: 8,
  skipped: 9,
} as const;

export type JobState = keyof typeof stateCodes;
export type TerminalState = "completed" | "failed" | "cancelled" | "expired" | "skipped";
export type LiveState = Exclude<JobState, TerminalState>;

export const jobStates = Object.keys(stateCodes) as readonly JobState[];
export const terminalStates = [
  "completed",
  "failed",
  "cancelled",
  "expired",
  "skipped",
] as const satisfies readonly TerminalState[];
export const liveStates = [
  "blocked",
  "scheduled",
  "ready",
  "running",
  "suspended",
] as const satisfies readonly LiveState[];
/** The live states in which no handler runs: a cancel, an edit or a delete may end or change such a job at once. */
export const waitingStates = [
  "blocked",
  "scheduled",
  "ready",
  "suspended",
] as const satisfies readonly LiveState[];

const stateByCode: readonly JobState[] = jobStates;

export function stateOfCode(code: number): JobState {
  const state = stateByCode[code];
  if (state === undefined) throw new RangeError(`no job state has the code ${code}`);
  return state;
}

export function isTerminal(state: JobState): state is TerminalState {
  return stateCodes[state] >= stateCodes.completed;
}

export function isJobState(value: unknown): value is JobState {
  return typeof value === "string" && Object.hasOwn(stateCodes, value);
}

/** Where a transition begins: the submit, a live state, or a finished job that an operator replays. */
export type Origin = "submit" | JobState;

const replayTargets: readonly JobState[] = ["ready", "scheduled", "blocked"];

export const arrows: Readonly<Record<Origin, readonly JobState[]>> = {
  submit: ["ready", "scheduled", "blocked"],
  blocked: ["ready", "scheduled", "completed", "failed", "skipped", "cancelled", "expired"],
  scheduled: ["ready", "cancelled", "expired"],
  ready: ["running", "scheduled", "failed", "cancelled", "expired"],
  running: ["completed", "failed", "cancelled", "expired", "skipped", "scheduled", "suspended", "ready"],
  suspended: ["ready", "scheduled", "failed", "cancelled", "expired"],
  completed: replayTargets,
  failed: replayTargets,
  cancelled: replayTargets,
  expired: replayTargets,
  skipped: replayTargets,
};

export function canMove(from: Origin, to: JobState): boolean {
  return arrows[from].includes(to);
}
