/**
 * Limits as users set them, and what a gate keeps of them. The code defines a limit; an operator may edit it, and the
 * edit holds until the code's definition changes. Both are in the gate's body, with the counters of its throttles. No
 * rule reads the body: cap and rate, also for each key, are computed from it.
 *
 * A queue's gate and that of one key keep their settings in the same way; nothing of a key is defined in code. Absent
 * fields in the edit of a key are as the limit says for each key. An edit of a queue also holds when the code's
 * definition changes.
 */
import type { GateBounds, TokenRate } from "./gate.ts";
import { durationMs } from "../duration.ts";
import type { Duration } from "../duration.ts";
import { learnedByThrottle, learnedByUse, learnedConcurrency, readLearn } from "./learning.ts";
import type { Learn, Learned } from "./learning.ts";
import { checkOptions, checkWhole, invalidOption } from "../option.ts";
import { policyInForce } from "../fleet/queue-policy.ts";
import type { DefinedQueue, QueuePolicy, QueuePolicyEdit } from "../fleet/queue-policy.ts";
import type { Throttle } from "./throttle.ts";

export interface RateOptions {
  /** This many permits pass per `per`, evenly spread after the burst is used up. */
  max: number;
  per: Duration;
  /** How many permits may pass at once after a quiet time; `max` by default, 1 with a sliding window. */
  burst?: number;
  /** "sliding": never more than `max` in any span of `per`, whatever the burst; a burst then slows what follows it. */
  window?: "sliding";
}

/** A rate as it is kept and shown. */
export interface Rate {
  readonly max: number;
  readonly perMs: number;
  readonly burst: number;
  /** No span of `perMs` has more than `max`; absent for a token bucket, which adds its burst. */
  readonly window?: "sliding";
}

export interface BoundSettings {
  /** Permits held at once; null for any number. */
  readonly concurrency: number | null;
  /** Permits per time; null for any number. */
  readonly rate: Rate | null;
}

export interface LimitSettings extends BoundSettings {
  /** How it learns how much upstream bears, up to its concurrency; absent if it does not learn. Only code sets it. */
  readonly learn?: Learn;
  /** The bounds of each key of the limit; null or absent for none. */
  readonly perKey?: BoundSettings | null;
}

export interface LimitBody {
  /** The last definition in code; null for a gate that no code defines. */
  readonly defined: LimitSettings | null;
  /** What an operator has set since; absent fields are as defined. */
  readonly edited: Partial<LimitSettings>;
  readonly throttle: Throttle | null;
  /** For a limit that learns; absent before it has learned anything. */
  readonly learned?: Learned;
  /** For a queue's gate: the operator's other settings of the queue; null for one that is taken away. */
  readonly queue?: QueuePolicyEdit;
  /** For a queue's gate: what its definition in code says besides `defined`. */
  readonly queueDefined?: DefinedQueue;
  /** For a queue's gate: an operator has paused or resumed it, so the code's `paused` counts no more. */
  readonly isPauseEdited?: true;
  /** For a queue's gate: the budget that has closed it, and until when. */
  readonly spent?: { readonly budget: string; readonly until: number };
}

const permitsMax = 1_000_000_000;
/** Thirty years: token times stay whole numbers that JavaScript, SQL and Lua count exactly. */
const burstUsMax = 1e15;
const unlimited: BoundSettings = { concurrency: null, rate: null };
const emptyBody: LimitBody = { defined: null, edited: {}, throttle: null };
const boundKeys = ["concurrency", "rate"];

/** The settings of a definition. Absent bounds do not limit. */
export function readDefinition(options: unknown, what: string): LimitSettings {
  const { perKey, learn, ...bounds } = checkOptions(options, what, [...boundKeys, "perKey", "learn"]);
  const settings = { ...unlimited, ...readBounds(bounds, what) };
  return {
    ...settings,
    ...(perKey === undefined ? {} : { perKey: { ...unlimited, ...readSome(perKey, `${what}: perKey`) } }),
    ...(learn === undefined ? {} : { learn: readLearn(learn, settings.concurrency, `${what}: learn`) }),
  };
}

/** The bounds of an edit; null removes one. */
export function readEdit(options: unknown, what: string): Partial<BoundSettings> {
  return readSome(options, what, true);
}

/** An edit of a limit: its bounds, and those of each of its keys. */
export interface LimitChange extends Partial<BoundSettings> {
  /** Absent fields do not change; null removes all bounds of keys. */
  readonly perKey?: Partial<BoundSettings> | null;
}

export function readLimitEdit(options: unknown, what: string): LimitChange {
  const { perKey, ...bounds } = checkOptions(options, what, [...boundKeys, "perKey"]);
  if (perKey === undefined) return readEdit(options, what);
  const ofKeys = perKey === null ? null : readSome(perKey, `${what}: perKey`, true);
  return { ...readBounds(bounds, what, true), perKey: ofKeys };
}

/** The body after an operator's edit. */
export function afterEdit(body: LimitBody, { perKey, ...bounds }: LimitChange): LimitBody {
  const edited: Partial<LimitSettings> = { ...body.edited, ...bounds };
  if (perKey === undefined) return { ...body, edited };
  const ofKeys = perKey === null ? null : { ...unlimited, ...settingsOf(body).perKey, ...perKey };
  return { ...body, edited: { ...edited, perKey: ofKeys } };
}

/**
 * Whether jobs that use a limit by key must also pass the limit's own gate. If not, its keys are independent and may
 * lie in different partitions. Only the definition in code decides it, because a job carries its gates for good.
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
 * Rounded up, so that never more than `max` pass. In a span P fewer than burst + P / step pass: with a step of P / (max
 * - burst + 1) that is at most `max`.
 */
export function tokenRateOf({ max, perMs, burst, window }: Rate): TokenRate {
  const stepUs = Math.ceil((perMs * 1000) / (window === "sliding" ? max - burst + 1 : max));
  return { stepUs, burstUs: burst * stepUs };
}

/** The largest weight that such a gate ever lets pass, also if a learning limit is at its floor; Infinity for any. */
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

/** The concurrency that the limit has learned; null if it does not learn. */
export function learnedOf(body: LimitBody): number | null {
  const { learn, concurrency } = settingsOf(body);
  if (learn === undefined) return null;
  return learnedConcurrency({ learn, cap: concurrency, learned: body.learned ?? null });
}

/** The body after a throttle whose cooldown ends at `until`. */
export function withThrottleLearned(body: LimitBody, until: number): LimitBody {
  const { learn, concurrency: cap } = settingsOf(body);
  if (learn === undefined) return body;
  return { ...body, learned: learnedByThrottle({ learn, cap, learned: body.learned ?? null }, until) };
}

/** The body after this many permits were in use; null if nothing is learned from it. */
export function withUseLearned(body: LimitBody, used: number, now: number): LimitBody | null {
  const { learn, concurrency: cap } = settingsOf(body);
  if (learn === undefined) return null;
  const learned = learnedByUse({ learn, cap, learned: body.learned ?? null }, used, now);
  return learned === null ? null : { ...body, learned };
}

/** What rule R7 reads of a gate, from its settings and what it has learned. */
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

/** The body after the code's definition; null if the definition has not changed, so that edits stay. */
export function afterDefinition(body: LimitBody, defined: LimitSettings): LimitBody | null {
  return isSame(body.defined, defined) ? null : { ...body, defined, edited: {} };
}

/** The bounds that an operator has set, after an edit. One that is taken away stays as null if the code defines it. */
export function afterQueueEdit(
  { defined, edited }: LimitBody,
  bounds: Partial<BoundSettings>,
): Partial<LimitSettings> {
  const next = { ...edited, ...bounds };
  for (const key of ["concurrency", "rate"] as const)
    if (next[key] === null && (defined?.[key] ?? null) === null) delete next[key];
  return next;
}

/** The policy of a queue that is in force. */
export function queuePolicyOf({ queue, queueDefined }: LimitBody): QueuePolicy {
  return policyInForce(queue, queueDefined);
}

/** The body after the code has defined its queue; null if the definition has not changed. Edits stay. */
export function afterQueueDefinition(
  body: LimitBody,
  bounds: LimitSettings,
  queueDefined: DefinedQueue,
): LimitBody | null {
  const isKnown = JSON.stringify(body.queueDefined) === JSON.stringify(queueDefined);
  return isKnown && isSame(body.defined, bounds) ? null : { ...body, defined: bounds, queueDefined };
}

/** Whether a new definition of a queue pauses it (true) or lets it go on (false); null for neither. */
export function pauseByDefinition(
  { queueDefined, isPauseEdited }: LimitBody,
  next: DefinedQueue,
): boolean | null {
  const before = queueDefined?.paused ?? false;
  const after = next.paused ?? false;
  return isPauseEdited === true || before === after ? null : after;
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

export function writeBody({ defined, edited, throttle, ...rare }: LimitBody): string {
  return JSON.stringify({ defined, edited, throttle, ...pickRare(rare) } satisfies LimitBody);
}

/** An unreadable text counts as empty: the code then defines the limit again. */
export function readBody(text: string | null): LimitBody {
  if (text === null) return emptyBody;
  try {
    const { defined, edited, throttle, ...rare } = JSON.parse(text) as Partial<LimitBody>;
    return {
      ...{ defined: defined ?? null, edited: edited ?? {}, throttle: throttle ?? null },
      ...pickRare(rare),
    };
  } catch {
    return emptyBody;
  }
}

function pickRare({
  learned,
  queue,
  queueDefined,
  isPauseEdited,
  spent,
}: Partial<LimitBody>): Pick<LimitBody, "learned" | "queue" | "queueDefined" | "isPauseEdited" | "spent"> {
  return {
    ...(learned && { learned }),
    ...(queue && { queue }),
    ...(queueDefined && { queueDefined }),
    ...(isPauseEdited && { isPauseEdited }),
    ...(spent && { spent }),
  };
}
