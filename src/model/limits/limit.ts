/**
 * Limits as people set them, and what of that a gate keeps. The code defines a limit, an operator may edit it: the edit
 * holds until the code's own definition changes. Both stand in the gate's body, unread by any rule, beside the counters
 * of its throttles; what a rule reads (cap, rate, and both for each key) always follows from the two.
 *
 * A queue's gate and that of one key keep their settings in the same way; nothing of these is defined in code. What an
 * edit of a key leaves open is as the limit says of each key.
 */
import type { GateBounds, TokenRate } from "./gate.ts";
import { durationMs } from "../duration.ts";
import type { Duration } from "../duration.ts";
import { learnedByThrottle, learnedByUse, learnedConcurrency, readLearn } from "./learning.ts";
import type { Learn, Learned } from "./learning.ts";
import { checkOptions, checkWhole, invalidOption } from "../option.ts";
import type { QueuePolicy } from "../fleet/queue-policy.ts";
import type { Throttle } from "./throttle.ts";

export interface RateOptions {
  /** So many permits pass per `per`, evenly spread once the burst is used up. */
  max: number;
  per: Duration;
  /** How many permits may pass at once after a quiet time; `max` by default, 1 with a sliding window. */
  burst?: number;
  /** "sliding": never more than `max` in any span of `per`, whatever the burst; a burst then slows what follows it. */
  window?: "sliding";
}

/** How many permits pass in a time, as it is kept and shown. */
export interface Rate {
  readonly max: number;
  readonly perMs: number;
  readonly burst: number;
  /** No span of `perMs` has more than `max`; left out for a bucket of tokens, which adds its burst. */
  readonly window?: "sliding";
}

export interface BoundSettings {
  /** Permits held at once; null for any number. */
  readonly concurrency: number | null;
  /** Permits per time; null for any number. */
  readonly rate: Rate | null;
}

export interface LimitSettings extends BoundSettings {
  /** How it learns, below its concurrency, how much upstream bears; left out where it does not. Only code sets it. */
  readonly learn?: Learn;
  /** What bounds each key of the limit; null or left out for nothing. */
  readonly perKey?: BoundSettings | null;
}

export interface LimitBody {
  /** What the code said last; null for a gate that no code defines. */
  readonly defined: LimitSettings | null;
  /** What an operator set since; a field that is left out is as defined. */
  readonly edited: Partial<LimitSettings>;
  readonly throttle: Throttle | null;
  /** Of a limit that learns; left out before it has learned anything. */
  readonly learned?: Learned;
  /** Of a queue's gate: what an operator has set beside its bounds. */
  readonly queue?: QueuePolicy;
}

const permitsMax = 1_000_000_000;
/** Thirty years: token times stay whole numbers that JavaScript, SQL and Lua count exactly. */
const burstUsMax = 1e15;
const unlimited: BoundSettings = { concurrency: null, rate: null };
const emptyBody: LimitBody = { defined: null, edited: {}, throttle: null };
const boundKeys = ["concurrency", "rate"];

/** The settings of a definition: what is not given is not limited. */
export function readDefinition(options: unknown, what: string): LimitSettings {
  const { perKey, learn, ...bounds } = checkOptions(options, what, [...boundKeys, "perKey", "learn"]);
  const settings = { ...unlimited, ...readBounds(bounds, what) };
  return {
    ...settings,
    ...(perKey === undefined ? {} : { perKey: { ...unlimited, ...readSome(perKey, `${what}: perKey`) } }),
    ...(learn === undefined ? {} : { learn: readLearn(learn, settings.concurrency, `${what}: learn`) }),
  };
}

/** The bounds that an edit gives; null takes one away. */
export function readEdit(options: unknown, what: string): Partial<BoundSettings> {
  return readSome(options, what, true);
}

/** An edit of a limit: its bounds, and those of each of its keys. */
export interface LimitChange extends Partial<BoundSettings> {
  /** What is left out stays; null takes all bounds of keys away. */
  readonly perKey?: Partial<BoundSettings> | null;
}

export function readLimitEdit(options: unknown, what: string): LimitChange {
  const { perKey, ...bounds } = checkOptions(options, what, [...boundKeys, "perKey"]);
  if (perKey === undefined) return readEdit(options, what);
  const ofKeys = perKey === null ? null : readSome(perKey, `${what}: perKey`, true);
  return { ...readBounds(bounds, what, true), perKey: ofKeys };
}

/** The body once an operator has edited the limit. */
export function afterEdit(body: LimitBody, { perKey, ...bounds }: LimitChange): LimitBody {
  const edited: Partial<LimitSettings> = { ...body.edited, ...bounds };
  if (perKey === undefined) return { ...body, edited };
  const ofKeys = perKey === null ? null : { ...unlimited, ...settingsOf(body).perKey, ...perKey };
  return { ...body, edited: { ...edited, perKey: ofKeys } };
}

/**
 * Whether jobs that use a limit by key have to pass the limit's own gate too. Where they do not, its keys know nothing
 * of each other, so they may lie in different partitions of a store. Only the definition in code decides it: a job
 * carries its gates for good.
 */
export function isBoundedInAll({ concurrency, rate, perKey = null }: LimitSettings): boolean {
  return perKey === null || concurrency !== null || rate !== null;
}

function readSome(options: unknown, what: string, mayBeNull = false): Partial<BoundSettings> {
  const given = readBounds(options, what, mayBeNull);
  if (Object.keys(given).length === 0) throw invalidOption(`${what}: give concurrency or rate.`);
  return given;
}

function readBounds(options: unknown, what: string, mayBeNull = false): Partial<BoundSettings> {
  const { concurrency, rate } = checkOptions(options, what, boundKeys);
  const read = <Value>(value: unknown, check: (given: unknown) => Value): Value | null =>
    value === null && mayBeNull ? null : check(value);
  return {
    ...(concurrency === undefined
      ? {}
      : {
          concurrency: read(concurrency, (given) => checkWhole(given, `${what}: concurrency`, 1, permitsMax)),
        }),
    ...(rate === undefined ? {} : { rate: read(rate, (given) => readRate(given, `${what}: rate`)) }),
  };
}

function readRate(options: unknown, what: string): Rate {
  const given = checkOptions(options, what, ["max", "per", "burst", "window"]);
  const max = checkWhole(given["max"], `${what}.max`, 1, permitsMax);
  const perMs = durationMs(given["per"], `${what}.per`);
  if (perMs === 0) throw invalidOption(`${what}.per must be longer than 0.`);
  const { window } = given;
  if (window !== undefined && window !== "sliding")
    throw invalidOption(`${what}.window can only be "sliding".`);
  const isSliding = window === "sliding";
  const burst = checkWhole(given["burst"] ?? (isSliding ? 1 : max), `${what}.burst`, 1, permitsMax);
  if (isSliding && burst > max)
    throw invalidOption(
      `${what}: a burst of ${burst} is more than the ${max} that a sliding window lets pass.`,
    );
  const rate: Rate = { max, perMs, burst, ...(isSliding ? { window } : {}) };
  if (max > perMs * 1000) throw invalidOption(`${what}: more than one per microsecond cannot be kept apart.`);
  if (tokenRateOf(rate).burstUs > burstUsMax)
    throw invalidOption(`${what}: so large a burst takes more than thirty years to come back.`);
  return rate;
}

/**
 * Rounded up, so that never more pass than were asked for. In a span P fewer than burst + P / step pass: with a step of
 * P / (max - burst + 1) that is at most `max`.
 */
export function tokenRateOf({ max, perMs, burst, window }: Rate): TokenRate {
  const stepUs = Math.ceil((perMs * 1000) / (window === "sliding" ? max - burst + 1 : max));
  return { stepUs, burstUs: burst * stepUs };
}

/** The largest weight that such a gate lets pass, also at the floor of a limit that learns; Infinity for any. */
export function weightMaxOf({
  concurrency,
  rate,
  learn,
}: BoundSettings & Pick<LimitSettings, "learn">): number {
  return Math.min(concurrency ?? Infinity, rate?.burst ?? Infinity, learn?.from ?? Infinity);
}

export function settingsOf({ defined, edited }: LimitBody): LimitSettings {
  return { ...(defined ?? unlimited), ...edited };
}

/** What such a limit has learned to hold at once; null for one that does not learn. */
export function learnedOf(body: LimitBody): number | null {
  const { learn, concurrency } = settingsOf(body);
  if (learn === undefined) return null;
  return learnedConcurrency({ learn, cap: concurrency, learned: body.learned ?? null });
}

/** The body once the limit was throttled, by a cooldown that ends then. */
export function withThrottleLearned(body: LimitBody, until: number): LimitBody {
  const { learn, concurrency: cap } = settingsOf(body);
  if (learn === undefined) return body;
  return { ...body, learned: learnedByThrottle({ learn, cap, learned: body.learned ?? null }, until) };
}

/** The body once so many permits were used; null where nothing is learned from it. */
export function withUseLearned(body: LimitBody, used: number, now: number): LimitBody | null {
  const { learn, concurrency: cap } = settingsOf(body);
  if (learn === undefined) return null;
  const learned = learnedByUse({ learn, cap, learned: body.learned ?? null }, used, now);
  return learned === null ? null : { ...body, learned };
}

/** What rule R7 reads of a gate, by what was set and learned. */
export function boundsOfBody(body: LimitBody): ReturnType<typeof boundsOf> {
  const settings = settingsOf(body);
  return boundsOf({ ...settings, concurrency: learnedOf(body) ?? settings.concurrency });
}

/** What rule R7 reads of the settings. */
export function boundsOf({ concurrency, rate }: BoundSettings): GateBounds {
  return { cap: concurrency, rate: rate === null ? null : tokenRateOf(rate) };
}

/** What rule R7 reads for each key that has no bounds of its own. */
export function boundsPerKeyOf({ perKey = null }: LimitSettings): GateBounds | null {
  return perKey === null ? null : boundsOf(perKey);
}

/** The body once the code has said what the limit is; null where the code said so before: then edits stay. */
export function afterDefinition(body: LimitBody, defined: LimitSettings): LimitBody | null {
  return isSame(body.defined, defined) ? null : { ...body, defined, edited: {} };
}

export function isSame(one: LimitSettings | null, other: LimitSettings): boolean {
  if (one === null || !hasSameBounds(one, other)) return false;
  const [learns, alike] = [one.learn, other.learn];
  if (learns?.from !== alike?.from || learns?.step !== alike?.step || learns?.everyMs !== alike?.everyMs)
    return false;
  const [keys, others] = [one.perKey ?? null, other.perKey ?? null];
  return keys === null || others === null ? keys === others : hasSameBounds(keys, others);
}

function hasSameBounds(one: BoundSettings, other: BoundSettings): boolean {
  if (one.concurrency !== other.concurrency) return false;
  if (one.rate === null || other.rate === null) return one.rate === other.rate;
  const { max, perMs, burst, window } = other.rate;
  const { rate } = one;
  return rate.max === max && rate.perMs === perMs && rate.burst === burst && rate.window === window;
}

export function writeBody({ defined, edited, throttle, learned, queue }: LimitBody): string {
  return JSON.stringify({
    ...{ defined, edited, throttle },
    ...(learned && { learned }),
    ...(queue && { queue }),
  } satisfies LimitBody);
}

/** A text that cannot be read counts as saying nothing: the code then defines the limit anew. */
export function readBody(text: string | null): LimitBody {
  if (text === null) return emptyBody;
  try {
    const { defined, edited, throttle, learned, queue } = JSON.parse(text) as Partial<LimitBody>;
    return {
      ...{ defined: defined ?? null, edited: edited ?? {}, throttle: throttle ?? null },
      ...(learned && { learned }),
      ...(queue && { queue }),
    };
  } catch {
    return emptyBody;
  }
}
