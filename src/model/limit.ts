/**
 * Limits as people set them, and what of that a gate keeps. The code defines a limit, an operator may edit it: the edit
 * holds until the code's own definition changes. Both stand in the gate's body, unread by any rule, beside the counters
 * of its throttles; what a rule reads (cap and rate) always follows from the two.
 *
 * A queue's gate keeps its settings in the same way; nothing of it is defined in code.
 */
import type { TokenRate } from "./gate.ts";
import { durationMs } from "./duration.ts";
import type { Duration } from "./duration.ts";
import { notYetSupported } from "./error.ts";
import { learnedByThrottle, learnedByUse, learnedConcurrency, readLearn } from "./learning.ts";
import type { Learn, Learned } from "./learning.ts";
import { checkOptions, checkWhole, invalidOption } from "./option.ts";
import type { QueuePolicy } from "./queue-policy.ts";
import type { Throttle } from "./throttle.ts";

export interface RateOptions {
  /** So many permits pass per `per`, evenly spread once the burst is used up. */
  max: number;
  per: Duration;
  /** How many permits may pass at once after a quiet time; `max` by default. */
  burst?: number;
}

/** How many permits pass in a time, as it is kept and shown. */
export interface Rate {
  readonly max: number;
  readonly perMs: number;
  readonly burst: number;
}

export interface LimitSettings {
  /** Permits held at once; null for any number. */
  readonly concurrency: number | null;
  /** Permits per time; null for any number. */
  readonly rate: Rate | null;
  /** How it learns, below its concurrency, how much upstream bears; left out where it does not. Only code sets it. */
  readonly learn?: Learn;
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
const unlimited: LimitSettings = { concurrency: null, rate: null };
const emptyBody: LimitBody = { defined: null, edited: {}, throttle: null };
const settingKeys = ["concurrency", "rate"];

/** The settings of a definition: what is not given is not limited. */
export function readDefinition(options: unknown, what: string): LimitSettings {
  refuseKeys(options, what);
  const { learn, ...given } = checkOptions(options, what, [...settingKeys, "learn"]);
  const settings = { ...unlimited, ...readSettings(given, what) };
  if (learn === undefined) return settings;
  return { ...settings, learn: readLearn(learn, settings.concurrency, `${what}: learn`) };
}

/** The settings that an edit gives; null takes a bound away. */
export function readEdit(options: unknown, what: string): Partial<LimitSettings> {
  refuseKeys(options, what);
  const edit = readSettings(options, what, true);
  if (Object.keys(edit).length === 0) throw invalidOption(`${what}: give concurrency or rate.`);
  return edit;
}

function refuseKeys(options: unknown, what: string): void {
  if (typeof options === "object" && options !== null && "perKey" in options)
    throw notYetSupported(`${what}: the option perKey`);
}

function readSettings(options: unknown, what: string, mayBeNull = false): Partial<LimitSettings> {
  const { concurrency, rate } = checkOptions(options, what, settingKeys);
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
  const given = checkOptions(options, what, ["max", "per", "burst"]);
  const max = checkWhole(given["max"], `${what}.max`, 1, permitsMax);
  const perMs = durationMs(given["per"], `${what}.per`);
  if (perMs === 0) throw invalidOption(`${what}.per must be longer than 0.`);
  const burst = checkWhole(given["burst"] ?? max, `${what}.burst`, 1, permitsMax);
  const rate = { max, perMs, burst };
  if (max > perMs * 1000) throw invalidOption(`${what}: more than one per microsecond cannot be kept apart.`);
  if (tokenRateOf(rate).burstUs > burstUsMax)
    throw invalidOption(`${what}: so large a burst takes more than thirty years to come back.`);
  return rate;
}

/** Rounded up, so that never more pass than were asked for. */
export function tokenRateOf({ max, perMs, burst }: Rate): TokenRate {
  const stepUs = Math.ceil((perMs * 1000) / max);
  return { stepUs, burstUs: burst * stepUs };
}

/** The largest weight that such a gate lets pass, also at the floor of a limit that learns; Infinity for any. */
export function weightMaxOf({ concurrency, rate, learn }: LimitSettings): number {
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
export function boundsOf({ concurrency, rate }: LimitSettings): {
  readonly cap: number | null;
  readonly rate: TokenRate | null;
} {
  return { cap: concurrency, rate: rate === null ? null : tokenRateOf(rate) };
}

/** The body once the code has said what the limit is; null where the code said so before: then edits stay. */
export function afterDefinition(body: LimitBody, defined: LimitSettings): LimitBody | null {
  return isSame(body.defined, defined) ? null : { ...body, defined, edited: {} };
}

export function isSame(one: LimitSettings | null, other: LimitSettings): boolean {
  if (one === null || one.concurrency !== other.concurrency) return false;
  const [learns, alike] = [one.learn, other.learn];
  if (learns?.from !== alike?.from || learns?.step !== alike?.step || learns?.everyMs !== alike?.everyMs)
    return false;
  if (one.rate === null || other.rate === null) return one.rate === other.rate;
  const { max, perMs, burst } = other.rate;
  return one.rate.max === max && one.rate.perMs === perMs && one.rate.burst === burst;
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
