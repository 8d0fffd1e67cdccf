/**
 * Gates: what a claim must pass (rule R7) beside being first. A limit is a gate that jobs name themselves: it is part
 * of their route. A queue's gate belongs to every route of the queue, whenever it was set: pause, drain, rate.
 *
 * How much of a gate is held is never counted apart: it follows from how many jobs run on its routes, which every store
 * keeps exact in each step. So a permit is given with a lease and ends with it, in every way in which a lease can end.
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
  /** Nothing passes before; null for open. */
  readonly closedUntil: number | null;
  /** Permits held by the jobs that run. */
  readonly held: number;
}

/** A gate that is closed until then opens only when somebody opens it: the last instant of a JavaScript date. */
export const foreverMs = 8_640_000_000_000_000;

const queuePrefix = "q:";
const limitPrefix = "l:";

export const queueGateKey = (queue: string): string => `${queuePrefix}${queue}`;
export const limitGateKey = (name: string): string => `${limitPrefix}${name}`;
export const isQueueGate = (key: string): boolean => key.startsWith(queuePrefix);
/** The queue or the limit that a gate belongs to. */
export const gateName = (key: string): string => key.slice(queuePrefix.length);

/** The gates of a route, that of its queue among them. */
export function gatesToPass(route: {
  readonly queue: string;
  readonly gates: readonly GateUse[];
}): readonly GateUse[] {
  return [{ key: queueGateKey(route.queue), weight: 1 }, ...route.gates];
}

/** What R7 bounds by. */
export type GateBounds = Pick<GateState, "cap" | "rate">;

/**
 * A partition's part of what bounds a queue over all `of` of them. The parts together are the whole, where each has at
 * least one permit: `sharesMax` says for how many that is so.
 */
export function shareOf({ cap, rate }: GateBounds, number: number, of: number): GateBounds {
  return {
    cap: cap === null ? null : Math.floor(cap / of) + (number < cap % of ? 1 : 0),
    // The same time of tokens, which come that much slower.
    rate: rate === null ? null : { stepUs: rate.stepUs * of, burstUs: rate.burstUs },
  };
}

/** Among how many partitions a queue's bounds can be shared. */
export function sharesMax({ cap, rate }: GateBounds): number {
  return Math.min(cap ?? Infinity, rate === null ? Infinity : Math.floor(rate.burstUs / rate.stepUs));
}

/** How many permits pass now; any number is Infinity. */
export function permitsLeft({ cap, rate, tatUs, closedUntil, held }: GateState, now: number): number {
  if (closedUntil !== null && closedUntil > now) return 0;
  const byCap = cap === null ? Infinity : Math.max(0, cap - held);
  if (rate === null) return byCap;
  const nowUs = now * 1000;
  const byRate = Math.floor((nowUs + rate.burstUs - Math.max(tatUs, nowUs)) / rate.stepUs);
  return Math.min(byCap, Math.max(0, byRate));
}

/** The token time once so many permits have passed now. */
export function tatAfter({ rate, tatUs }: GateState, permits: number, now: number): number {
  return rate === null ? tatUs : Math.max(tatUs, now * 1000) + permits * rate.stepUs;
}

/**
 * When the gate's own clock lets so many permits pass; null where it is not the clock that keeps them, or it never
 * does.
 */
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
