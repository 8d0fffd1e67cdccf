/**
 * Gates: what a claim must pass (rule R7). A limit is a gate that jobs name: it is part of their route; so is a budget.
 * A queue's gate (pause, drain, rate) belongs to every route of the queue, whenever it was set.
 *
 * How much of a gate is held is not counted: it follows from the running jobs of its routes, whose number every store
 * keeps exact in each step. So a permit begins and ends with a lease, however the lease ends.
 */

/** A gate that a job has to pass, and how much of it the job takes while it runs. */
export interface GateUse {
  readonly key: string;
  readonly weight: number;
}

/** Tokens by time: each permit moves the token time on by `stepUs`, and it may be ahead of now by `burstUs`. */
export interface TokenRate {
  readonly stepUs: number;
  readonly burstUs: number;
}

/** What R7 reads of a gate. */
export interface GateState {
  /** Permits held at once; null for any number. */
  readonly cap: number | null;
  readonly rate: TokenRate | null;
  /** The token time, in microseconds. */
  readonly tatUs: number;
  /** No job passes before this time; null for open. */
  readonly closedUntil: number | null;
  /** Permits held by running jobs. */
  readonly held: number;
}

/** A gate that is closed until then never opens by itself: the last instant of a JavaScript date. */
export const foreverMs = 8_640_000_000_000_000;

const queuePrefix = "q:";
const limitPrefix = "l:";
const budgetPrefix = "b:";

export const queueGateKey = (queue: string): string => `${queuePrefix}${queue}`;
export const limitGateKey = (name: string): string => `${limitPrefix}${name}`;
/** The gate of a budget (model/budgets/): it bounds nothing, and is closed while the budget is spent. */
export const budgetGateKey = (name: string): string => `${budgetPrefix}${name}`;
export const isQueueGate = (key: string): boolean => key.startsWith(queuePrefix);
export const isBudgetGate = (key: string): boolean => key.startsWith(budgetPrefix);
/** The queue, the limit or the budget that a gate belongs to. */
export const gateName = (key: string): string => key.slice(queuePrefix.length);

/** The gates of a route, with that of its queue. */
export function gatesToPass(route: {
  readonly queue: string;
  readonly gates: readonly GateUse[];
}): readonly GateUse[] {
  return [{ key: queueGateKey(route.queue), weight: 1 }, ...route.gates];
}

/** The bounds of R7. */
export type GateBounds = Pick<GateState, "cap" | "rate">;

/**
 * A partition's part of a queue's bounds over `of` partitions. The parts add up to the bounds if each has at least one
 * permit; `sharesMax` says up to how many partitions that holds.
 */
export function shareOf({ cap, rate }: GateBounds, number: number, of: number): GateBounds {
  return {
    cap: cap === null ? null : Math.floor(cap / of) + (number < cap % of ? 1 : 0),
    // The same burst time, with a slower rate.
    rate: rate === null ? null : { stepUs: rate.stepUs * of, burstUs: rate.burstUs },
  };
}

/** Among how many partitions a queue's bounds can be shared. */
export function sharesMax({ cap, rate }: GateBounds): number {
  return Math.min(cap ?? Infinity, rate === null ? Infinity : Math.floor(rate.burstUs / rate.stepUs));
}

/** How many permits pass now; Infinity for any number. */
export function permitsLeft({ cap, rate, tatUs, closedUntil, held }: GateState, now: number): number {
  if (closedUntil !== null && closedUntil > now) return 0;
  const byCap = cap === null ? Infinity : Math.max(0, cap - held);
  if (rate === null) return byCap;
  const nowUs = now * 1000;
  const byRate = Math.floor((nowUs + rate.burstUs - Math.max(tatUs, nowUs)) / rate.stepUs);
  return Math.min(byCap, Math.max(0, byRate));
}

/** The token time after this many permits have passed now. */
export function tatAfter({ rate, tatUs }: GateState, permits: number, now: number): number {
  return rate === null ? tatUs : Math.max(tatUs, now * 1000) + permits * rate.stepUs;
}

/** When the gate's own clock lets this many permits pass; null if the clock does not hold them, or it never will. */
export function opensAt(
  { rate, tatUs, closedUntil }: GateState,
  permits: number,
  now: number,
): number | null {
  if (closedUntil === foreverMs) return null;
  const tokensAt = rate === null ? 0 : Math.ceil((tatUs + permits * rate.stepUs - rate.burstUs) / 1000);
  const at = Math.max(closedUntil ?? 0, tokensAt);
  return at > now ? at : null;
}
