/**
 * A limit that learns how much its upstream bears: additive increase, multiplicative decrease between a floor and the
 * concurrency that is set.
 *
 *   begins at the floor
 *   throttled (a new cooldown)                      half of it, not below the floor
 *   in full use, and no change or cooldown          one step more, not above what is set
 *   for `everyMs`
 *
 * Always true: floor <= learned <= what is set. If less than the floor is set, that is the floor.
 */
import { durationMs } from "../duration.ts";
import type { Duration } from "../duration.ts";
import { checkOptions, checkWhole, invalidOption } from "../option.ts";

export interface LearnOptions {
  /** Where it begins, and what it never falls below; 1 by default. */
  from?: number;
  /** By how much it rises at once; 1 by default. */
  step?: number;
  /** It rises at most once in this time; 10 s by default. */
  every?: Duration;
}

/** How a limit learns, as it is kept and shown. */
export interface Learn {
  readonly from: number;
  readonly step: number;
  readonly everyMs: number;
}

/** What a limit has learned. */
export interface Learned {
  readonly concurrency: number;
  /** When it changed last, or when the last cooldown ends: it rises `everyMs` later at the earliest. */
  readonly since: number;
}

const everyMinMs = 100;

/** @param concurrency what is set: the most that can be learned. */
export function readLearn(options: unknown, concurrency: number | null, what: string): Learn {
  const given = checkOptions(options, what, ["from", "step", "every"]);
  if (concurrency === null) throw invalidOption(`${what} needs a concurrency: the most that may be learned.`);
  const everyMs = durationMs(given["every"] ?? 10_000, `${what}.every`);
  if (everyMs < everyMinMs) throw invalidOption(`${what}.every must be at least ${everyMinMs} ms.`);
  return {
    from: checkWhole(given["from"] ?? 1, `${what}.from`, 1, concurrency),
    step: checkWhole(given["step"] ?? 1, `${what}.step`, 1, concurrency),
    everyMs,
  };
}

interface Known {
  readonly learn: Learn;
  /** What is set now; null for any number. */
  readonly cap: number | null;
  /** Null before anything was learned. */
  readonly learned: Learned | null;
}

/** How many permits may be held at once, by what was learned. */
export function learnedConcurrency({ learn, cap, learned }: Known): number {
  return Math.min(cap ?? Infinity, Math.max(learn.from, learned?.concurrency ?? learn.from));
}

/** @param until when the cooldown ends that begins with this throttle. */
export function learnedByThrottle(known: Known, until: number): Learned {
  const { learn, cap } = known;
  const half = Math.floor(learnedConcurrency(known) / 2);
  return {
    concurrency: learnedConcurrency({ learn, cap, learned: { concurrency: half, since: until } }),
    since: until,
  };
}

/**
 * A job or a permit of the limit is about to end.
 * @param used the permits that are held.
 * @returns null if nothing is learned from it.
 */
export function learnedByUse(known: Known, used: number, now: number): Learned | null {
  const { learn, cap, learned } = known;
  const present = learnedConcurrency(known);
  if (used < present || present >= (cap ?? Infinity)) return null;
  // A limit that was never changed begins to count with the first full use.
  if (learned === null) return { concurrency: present, since: now };
  if (now - learned.since < learn.everyMs) return null;
  return { concurrency: Math.min(cap ?? Infinity, present + learn.step), since: now };
}
