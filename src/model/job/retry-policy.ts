/**
 * When a failed attempt is tried again: how often, after how long, and for which errors.
 *
 * All arithmetic is pure; the random source for jitter is passed in. The delay is always inside the policy's bounds: [d
 * / 2, d] with half jitter (the default), [0, d] with full jitter, exactly d without jitter. Half is the default
 * because its sum is bounded from below: the default policy always outlives an outage of four minutes. Full jitter may
 * use up ten attempts within seconds.
 */
import { durationMs } from "../duration.ts";
import type { Duration } from "../duration.ts";
import { MillraceError } from "../error.ts";
import { checkName } from "../name.ts";
import { checkOptions, checkWhole } from "../option.ts";

/** Which part of the planned delay is random: all of it, its second half, or nothing. */
type Jitter = "full" | "half" | "none";

/** A backoff as it is stored with a job: validated, times in milliseconds. */
export type Backoff =
  | { readonly kind: "fixed"; readonly delayMs: number; readonly jitter: Jitter }
  | { readonly kind: "linear"; readonly fromMs: number; readonly toMs: number; readonly jitter: Jitter }
  | {
      readonly kind: "exponential";
      readonly fromMs: number;
      readonly toMs: number;
      readonly factor: number;
      readonly jitter: Jitter;
    }
  | { readonly kind: "list"; readonly delaysMs: readonly number[]; readonly jitter: Jitter }
  | { readonly kind: "custom"; readonly name: string };

/** A backoff as users write it. */
export type BackoffOptions =
  | Duration
  | { kind: "fixed"; delay: Duration; jitter?: Jitter }
  | { kind: "linear"; from: Duration; to?: Duration; jitter?: Jitter }
  | { kind: "exponential"; from?: Duration; to?: Duration; factor?: number; jitter?: Jitter }
  | { kind: "list"; delays: readonly Duration[]; jitter?: Jitter }
  | { kind: "custom"; name: string };

/** Only errors whose name or code is listed are tried again; `never` wins over both. */
export interface RetryIf {
  readonly names?: readonly string[];
  readonly codes?: readonly string[];
  readonly never?: readonly string[];
}

/** How failures are retried, as users write it. */
export interface RetryOptions {
  /** How many attempts in all: 10 of a job by default, 3 of a step. */
  attempts?: number;
  backoff?: BackoffOptions;
  retryIf?: RetryIf;
}

export const attemptsMax = 1000;
export const defaultAttempts = 10;
/** Ten minutes. */
const defaultToMs = 600_000;
const defaultPlanned = {
  kind: "exponential",
  fromMs: 1000,
  toMs: defaultToMs,
  factor: 2,
  jitter: "half",
} as const;
export const defaultBackoff: Backoff = defaultPlanned;
const insteadOf = "the default backoff was taken instead.";

/** A backoff function that the application registers by name, so that the name can be stored with the job. */
export type CustomBackoff = (
  failures: number,
  error: { readonly name: string; readonly code?: string },
) => number;

export interface BackoffSources {
  readonly random: () => number;
  readonly custom?: Readonly<Record<string, CustomBackoff>>;
  /** Called with a sentence if the policy could not be followed and the default backoff was used. */
  readonly warn?: (problem: string) => void;
}

/** @param failures how many attempts of this round have failed, this one included; at least 1. */
export function backoffDelayMs(
  backoff: Backoff,
  failures: number,
  error: { readonly name: string; readonly code?: string },
  sources: BackoffSources,
): number {
  if (backoff.kind === "custom") return customDelayMs(backoff.name, failures, error, sources);
  let delayMs = plannedDelayMs(backoff, failures);
  if (!Number.isFinite(delayMs)) {
    // A kind of a newer version is unknown here. The default is better than no delay.
    sources.warn?.(`The backoff kind ${JSON.stringify(backoff.kind)} is not known here; ${insteadOf}`);
    delayMs = plannedDelayMs(defaultPlanned, failures);
  }
  return jittered(delayMs, backoff.jitter, sources.random);
}

function jittered(delayMs: number, jitter: Jitter, random: () => number): number {
  if (jitter === "none") return delayMs;
  const leastMs = jitter === "half" ? Math.ceil(delayMs / 2) : 0;
  return leastMs + Math.floor(random() * (delayMs - leastMs + 1));
}

/** The delay before jitter, which is also its upper bound. */
export function plannedDelayMs(backoff: Exclude<Backoff, { kind: "custom" }>, failures: number): number {
  switch (backoff.kind) {
    case "fixed":
      return backoff.delayMs;
    case "linear":
      return Math.min(backoff.fromMs * failures, backoff.toMs);
    case "exponential":
      // The power may overflow to Infinity, and zero times Infinity is not a number.
      return backoff.fromMs === 0
        ? 0
        : Math.round(Math.min(backoff.fromMs * backoff.factor ** (failures - 1), backoff.toMs));
    case "list":
      return backoff.delaysMs[Math.min(failures, backoff.delaysMs.length) - 1] as number;
  }
}

/** A missing or failing function must not lose the job: the default is used, with a warning. */
function customDelayMs(
  name: string,
  failures: number,
  error: { readonly name: string; readonly code?: string },
  sources: BackoffSources,
): number {
  const { custom = {}, random, warn } = sources;
  const shown = JSON.stringify(name);
  try {
    if (isKnownBackoff(custom, name)) return durationMs(custom[name]?.(failures, error), "it");
    warn?.(`The backoff ${shown} is not among the backoffs given to open here; ${insteadOf}`);
  } catch (problem) {
    const said = problem instanceof Error ? problem.message : String(problem);
    warn?.(`The backoff ${shown} gave no duration (${said}); ${insteadOf}`);
  }
  return backoffDelayMs(defaultBackoff, failures, error, { random });
}

/** Only own properties count: inherited ones, such as "toString", are no backoffs. */
export function isKnownBackoff(custom: Readonly<Record<string, CustomBackoff>>, name: string): boolean {
  return Object.hasOwn(custom, name);
}

export function isRetryable(
  retryIf: RetryIf | undefined,
  error: { readonly name: string; readonly code?: string },
): boolean {
  if (retryIf === undefined) return true;
  const isListed = (list: readonly string[] | undefined): boolean =>
    list !== undefined &&
    (list.includes(error.name) || (error.code !== undefined && list.includes(error.code)));
  if (isListed(retryIf.never)) return false;
  if (retryIf.names === undefined && retryIf.codes === undefined) return true;
  return (
    (retryIf.names?.includes(error.name) ?? false) ||
    (error.code !== undefined && (retryIf.codes?.includes(error.code) ?? false))
  );
}

export function readBackoff(options: unknown, what: string): Backoff {
  if (typeof options === "number" || typeof options === "string") {
    return { kind: "fixed", delayMs: durationMs(options, what), jitter: "none" };
  }
  const given = checkOptions(options, what, [
    "kind",
    "delay",
    "from",
    "to",
    "factor",
    "delays",
    "jitter",
    "name",
  ]);
  const jitter = readJitter(given["jitter"], `${what}.jitter`);
  const only = (...keys: readonly string[]): void => void checkOptions(options, what, ["kind", ...keys]);
  switch (given["kind"]) {
    case "fixed":
      only("delay", "jitter");
      return { kind: "fixed", delayMs: durationMs(given["delay"], `${what}.delay`), jitter };
    case "linear": {
      only("from", "to", "jitter");
      const fromMs = durationMs(given["from"], `${what}.from`);
      return { kind: "linear", fromMs, toMs: readUpper(given["to"], fromMs, `${what}.to`), jitter };
    }
    case "exponential": {
      only("from", "to", "factor", "jitter");
      const fromMs = durationMs(given["from"] ?? 1000, `${what}.from`);
      const factor = given["factor"] ?? 2;
      if (typeof factor !== "number" || !(factor >= 1 && factor <= 100)) {
        throw new MillraceError("invalid-option", `${what}.factor must be a number from 1 to 100.`);
      }
      return {
        kind: "exponential",
        fromMs,
        toMs: readUpper(given["to"], fromMs, `${what}.to`),
        factor,
        jitter,
      };
    }
    case "list": {
      only("delays", "jitter");
      const delays = given["delays"];
      if (!Array.isArray(delays) || delays.length === 0 || delays.length > attemptsMax) {
        throw new MillraceError(
          "invalid-option",
          `${what}.delays must be a list of 1 to ${attemptsMax} durations.`,
        );
      }
      return {
        kind: "list",
        delaysMs: delays.map((delay, index) => durationMs(delay, `${what}.delays[${index}]`)),
        jitter,
      };
    }
    case "custom":
      only("name");
      return { kind: "custom", name: checkName(given["name"], `${what}.name`) };
    default:
      throw new MillraceError(
        "invalid-option",
        `${what}.kind must be fixed, linear, exponential, list or custom.`,
      );
  }
}

/** The options that were given, in a fixed order. */
export function readRetry(
  options: unknown,
  what: string,
): { readonly attempts?: number; readonly backoff?: Backoff; readonly retryIf?: RetryIf } {
  const { attempts, backoff, retryIf } = checkOptions(options, what, ["attempts", "backoff", "retryIf"]);
  return {
    ...(attempts === undefined ? {} : { attempts: readAttempts(attempts, `${what}.attempts`) }),
    ...(backoff === undefined ? {} : { backoff: readBackoff(backoff, `${what}.backoff`) }),
    ...(retryIf === undefined ? {} : { retryIf: readRetryIf(retryIf, `${what}.retryIf`) }),
  };
}

export function readAttempts(value: unknown, what: string): number {
  return checkWhole(value, what, 1, attemptsMax);
}

export function readRetryIf(options: unknown, what: string): RetryIf {
  const given = checkOptions(options, what, ["names", "codes", "never"]);
  const lists: Record<string, readonly string[]> = {};
  for (const [key, list] of Object.entries(given)) {
    if (list === undefined) continue;
    if (!Array.isArray(list) || list.length > 100)
      throw new MillraceError("invalid-option", `${what}.${key} must be a list of names.`);
    lists[key] = list.map((name, index) => checkName(name, `${what}.${key}[${index}]`));
  }
  return lists;
}

function readJitter(value: unknown, what: string): Jitter {
  if (value === undefined) return "half";
  if (value === "full" || value === "half" || value === "none") return value;
  throw new MillraceError("invalid-option", `${what} must be "full", "half" or "none".`);
}

function readUpper(value: unknown, fromMs: number, what: string): number {
  const toMs = value === undefined ? Math.max(fromMs, defaultToMs) : durationMs(value, what);
  if (toMs < fromMs) throw new MillraceError("invalid-option", `${what} must not be shorter than from.`);
  return toMs;
}
