/**
 * How a job is to be run, frozen at submit: the options of the enqueue and the definition. Other values come from the
 * code's defaults, then the engine's, when they are needed. Stores keep the policy as one text and never read it.
 *
 * Most jobs of one definition have the same text, so reading it is a lookup.
 */
import { BoundedMap } from "../bounded-map.ts";
import type { TerminalState } from "./job-state.ts";
import type { Order } from "../routing/rank.ts";
import { defaultAttempts, defaultBackoff } from "./retry-policy.ts";
import type { Backoff, RetryIf } from "./retry-policy.ts";

export interface Retention {
  readonly completedMs?: number;
  readonly failedMs?: number;
  readonly otherMs?: number;
}

/** How many finished jobs a queue keeps, by outcome: the newest; null for any number. */
export interface KeptCounts {
  readonly completedCount?: number | null;
  readonly failedCount?: number | null;
  /** For each of the other outcomes. */
  readonly otherCount?: number | null;
}

/** What a queue or a store keeps: whichever bound is reached first. */
export type KeptHistory = Retention & KeptCounts;

export interface JobPolicy {
  readonly level?: number;
  readonly order?: Order;
  readonly attempts?: number;
  readonly backoff?: Backoff;
  readonly retryIf?: RetryIf;
  /** Null for none, whatever the defaults say. */
  readonly timeoutMs?: number | null;
  readonly ttlMs?: number;
  readonly retention?: Retention;
  /** False: the result is not kept, only that the job completed. A number: the milliseconds for which it is kept. */
  readonly keepsResult?: boolean | number;
  /** True: an input that a worker refuses is a failed attempt like any other, and does not end the job. */
  readonly retriesInvalidInput?: boolean;
  /** How often the job may be throttled. */
  readonly throttlesMax?: number;
  /** The limits on the job's route and its weights, by name. Keys of limits are in its lane. */
  readonly limits?: readonly (readonly [name: string, weight: number])[];
  /** The names of its budgets. */
  readonly budgets?: readonly string[];
  /** While it waits for a retry, no job of its group overtakes it. */
  readonly holdsGroup?: boolean;
  /** After it has failed for good, no job of its group runs until it is replayed or deleted. */
  readonly holdsGroupFailed?: boolean;
  /** Paths into input and result that are never shown. Kept with the job, so that every reader redacts them. */
  readonly redact?: readonly string[];
  /** True for a permit job (model/limits/permit.ts). */
  readonly isPermit?: boolean;
  /** For a durable job, the names of the signals that its runs take; absent for any other job. */
  readonly durable?: readonly string[];
}

/** A policy with every field set, from the job, the code's defaults and the engine's. */
export interface DecidedPolicy {
  /** False: the job's own text is unreadable, and these are only the defaults. */
  readonly isReadable: boolean;
  readonly level: number;
  readonly order: Order;
  readonly attempts: number;
  readonly backoff: Backoff;
  readonly retryIf: RetryIf | undefined;
  readonly timeoutMs: number | null;
  readonly ttlMs: number | null;
  readonly keepsResult: boolean | number;
  readonly retention: Retention;
  readonly retriesInvalidInput: boolean;
  /** Null for any number. */
  readonly throttlesMax: number | null;
  readonly limits: readonly (readonly [name: string, weight: number])[];
  readonly budgets: readonly string[];
  readonly holdsGroup: boolean;
  readonly holdsGroupFailed: boolean;
  readonly redact: readonly string[];
  readonly isPermit: boolean;
  /** Null for a job that is not durable. */
  readonly durable: readonly string[] | null;
}

const enginePolicy: DecidedPolicy = {
  isReadable: true,
  level: 0,
  order: "fifo",
  attempts: defaultAttempts,
  backoff: defaultBackoff,
  retryIf: undefined,
  timeoutMs: null,
  ttlMs: null,
  keepsResult: true,
  retention: {},
  retriesInvalidInput: false,
  throttlesMax: null,
  limits: [],
  budgets: [],
  holdsGroup: false,
  holdsGroupFailed: false,
  redact: [],
  isPermit: false,
  durable: null,
};

const dayMs = 86_400_000;
/** How long finished jobs are kept by default. */
export const defaultRetention = {
  completedMs: 7 * dayMs,
  failedMs: 30 * dayMs,
  otherMs: 7 * dayMs,
} as const satisfies Retention;

/** Null for an empty policy, the common case, which costs a store nothing. */
export function writePolicy(policy: JobPolicy): string | null {
  const text = JSON.stringify(policy);
  return text === "{}" ? null : text;
}

const decodedMax = 1000;

/** Makes the reader of policies for a process: from a stored text to the decided policy, cached by the text. */
export function createPolicyReader(codeDefaults: JobPolicy = {}): (text: string | null) => DecidedPolicy {
  // A default that is present but undefined must not hide the engine's default.
  const said: JobPolicy = Object.fromEntries(
    Object.entries(codeDefaults).filter(([, value]) => value !== undefined),
  );
  const decide = (policy: JobPolicy): DecidedPolicy => ({
    ...enginePolicy,
    ...said,
    ...policy,
    // The outcomes are merged one by one: a job may set how long it is kept after a failure and leave the other
    // outcomes.
    retention: { ...said.retention, ...policy.retention },
  });
  const empty = decide({});
  const decoded = new BoundedMap<string, DecidedPolicy>(decodedMax);
  return (text) => {
    if (text === null) return empty;
    const known = decoded.get(text);
    if (known !== undefined) return known;
    const own = readPolicyText(text);
    const policy = own === null ? { ...empty, isReadable: false } : decide(own);
    decoded.set(text, policy);
    return policy;
  };
}

/** An unreadable text counts as empty: the job is then shown and changed by the defaults. */
export function parsePolicy(text: string | null): JobPolicy {
  return readPolicyText(text) ?? {};
}

/** Null for an unreadable text. Fields of a newer version are ignored. */
function readPolicyText(text: string | null): JobPolicy | null {
  if (text === null) return {};
  try {
    const policy = JSON.parse(text) as Record<string, unknown> | null;
    if (typeof policy !== "object" || policy === null || Array.isArray(policy)) return null;
    const isWhole = Object.entries(policyChecks).every(([key, isRight]) => {
      return policy[key] === undefined || isRight(policy[key]);
    });
    return isWhole ? policy : null;
  } catch {
    return null;
  }
}

const isNumber = (value: unknown): boolean => typeof value === "number";
const isFlag = (value: unknown): boolean => typeof value === "boolean";
const isTexts = (value: unknown): boolean =>
  Array.isArray(value) && value.every((each) => typeof each === "string");
const isNumbers = (value: unknown): boolean => Array.isArray(value) && value.every(isNumber);
const isObject = (value: unknown): value is object => typeof value === "object" && value !== null;

const policyChecks: Readonly<Record<keyof JobPolicy, (value: unknown) => boolean>> = {
  level: isNumber,
  order: (value) => value === "fifo" || value === "lifo",
  attempts: isNumber,
  backoff: (value) =>
    isObject(value) &&
    "kind" in value &&
    typeof value.kind === "string" &&
    (value.kind !== "list" || ("delaysMs" in value && isNumbers(value.delaysMs))),
  retryIf: (value) => isObject(value) && Object.values(value).every(isTexts),
  timeoutMs: (value) => value === null || isNumber(value),
  ttlMs: isNumber,
  retention: (value) => isObject(value) && Object.values(value).every(isNumber),
  keepsResult: (value) => isFlag(value) || isNumber(value),
  retriesInvalidInput: isFlag,
  throttlesMax: isNumber,
  limits: (value) =>
    Array.isArray(value) &&
    value.every((each) => Array.isArray(each) && typeof each[0] === "string" && isNumber(each[1])),
  budgets: isTexts,
  holdsGroup: isFlag,
  holdsGroupFailed: isFlag,
  redact: isTexts,
  isPermit: isFlag,
  durable: isTexts,
};

/**
 * The outcomes that are not kept at all, as defaults for every job: its end then writes no history that would only be
 * pruned. The retention duty decides about the other outcomes, so that their times can change later.
 */
export function outcomesNotKept(retention: Retention): Retention {
  return Object.fromEntries(Object.entries(retention).filter(([, keptMs]) => keptMs === 0));
}

/** How long a job with this outcome is kept by its own policy; null leaves it to the queue's retention. */
export function keepMsOf(policy: DecidedPolicy, outcome: TerminalState): number | null {
  const { completedMs, failedMs, otherMs } = policy.retention;
  return (outcome === "completed" ? completedMs : outcome === "failed" ? failedMs : otherMs) ?? null;
}

/** How long the result of a completed job is kept, if that is shorter than the job itself is kept. */
export function keepResultMsOf(policy: DecidedPolicy): number | undefined {
  const { keepsResult } = policy;
  if (typeof keepsResult !== "number") return undefined;
  return keepsResult < (keepMsOf(policy, "completed") ?? Infinity) ? keepsResult : undefined;
}

/** A part of an ended job, and for how long it is kept. */
export interface Kept {
  readonly what: "the result" | "the completion" | "the failure" | "the cancel or expiry";
  readonly ms: number;
}

/** Which part of an ended job is deleted first. @param store for the outcomes that the job's policy does not set. */
export function shortestKept({ keepsResult, retention }: DecidedPolicy, store: Required<Retention>): Kept {
  const { completedMs, failedMs, otherMs } = { ...store, ...retention };
  const kept: readonly Kept[] = [
    { what: "the result", ms: keepsResult === true ? Infinity : Number(keepsResult) },
    { what: "the completion", ms: completedMs },
    { what: "the failure", ms: failedMs },
    { what: "the cancel or expiry", ms: otherMs },
  ];
  return kept.reduce((first, other) => (other.ms < first.ms ? other : first));
}
