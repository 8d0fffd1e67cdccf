/**
 * A limit as code defines it, and its use by a job: how many permits run at once or start in a time, over all
 * processes, in all and for each key. It needs no store; the first use by a process makes sure that the store knows it
 * (limits-in-use.ts).
 */
import { limitGateKey } from "../../model/limits/gate.ts";
import type { GateUse } from "../../model/limits/gate.ts";
import { MillraceError } from "../../model/error.ts";
import type { LearnOptions } from "../../model/limits/learning.ts";
import { isBoundedInAll, readDefinition, weightMaxOf } from "../../model/limits/limit.ts";
import type { LimitSettings, RateOptions } from "../../model/limits/limit.ts";
import { checkName } from "../../model/name.ts";
import { checkOptions, checkWhole, invalidOption } from "../../model/option.ts";
import { storeLimits } from "../../store/contract-limits.ts";
import { readKey } from "../submit/group.ts";
import type { OfInput } from "../submit/group.ts";

export interface LimitOptions {
  /** How many permits are held at once, over all processes. */
  concurrency?: number;
  /** How many permits start in a time, over all processes. */
  rate?: RateOptions;
  /** The same for each key by itself: `use({ key })` says which key a job takes from. */
  perKey?: { concurrency?: number; rate?: RateOptions };
  /**
   * Learns how much upstream bears, up to `concurrency`: half of it after each `Throttled`, a step more after a while
   * of full use without one.
   */
  learn?: LearnOptions;
}

export interface LimitUseOptions<In = unknown> {
  /** Which key of the limit the job takes from: a name, or a function that says it of the job's input. */
  key?: OfInput<In, string>;
  /** How many permits a job takes; 1 by default. */
  weight?: number;
}

export interface Limit {
  readonly name: string;
  readonly settings: LimitSettings;
  /**
   * The limit with a key or a weight, for the `limits` of a job. If the job's input comes from a schema, the compiler
   * does not know it here yet: write `{ limit, key: (input) => input.tenant }` in the list to have it checked.
   */
  // oxlint-disable-next-line no-explicit-any -- an input of unknown type must not stand in the way of its key
  use<In = any>(options?: LimitUseOptions<In>): LimitUse<In>;
}

/** @typeParam In the input of the jobs whose key can be computed. */
// oxlint-disable-next-line no-explicit-any -- a use by some job, whichever its input is
export interface LimitUse<In = any> {
  readonly limit: Limit;
  readonly weight: number;
  /** Null for a job that takes from no key. */
  readonly key: OfInput<In, string> | null;
}

/** A use by some job, whatever its input is. */
export type AnyLimitUse = LimitUse<never>;

/** Nothing but a name: it limits nothing, until `Throttled` makes it cool down. */
export function limit(name: string, options: LimitOptions = {}): Limit {
  checkName(name, "limit name");
  const what = `limit ${JSON.stringify(name)}`;
  const settings = readDefinition(options, what);
  const made: Limit = {
    name,
    settings,
    use<In>(use: LimitUseOptions<In> = {}): LimitUse<In> {
      const { weight = 1, key } = checkOptions(use, `${what}: use`, ["key", "weight"]);
      if (key === undefined) return { limit: made, weight: checkWeight(weight, settings, what), key: null };
      const { perKey } = settings;
      const checked = checkWeight(weight, settings, what);
      if (perKey !== undefined && perKey !== null) checkWeight(weight, perKey, `${what}: perKey`);
      return { limit: made, weight: checked, key: readKey<In>(key, `${what}: key`) };
    },
  };
  return Object.freeze(made);
}

export function isLimit(value: unknown): value is Limit {
  return typeof value === "object" && value !== null && "settings" in value && "use" in value;
}

/** Refused where such a gate never lets the weight pass. */
export function checkWeight(weight: unknown, settings: LimitSettings, what: string): number {
  const max = weightMaxOf(settings);
  if (typeof weight === "number" && weight > max)
    throw invalidOption(`${what}: a weight of ${weight} never passes: the most is ${max}.`);
  return checkWhole(weight, `${what}: weight`, 1, Math.min(max, Number.MAX_SAFE_INTEGER));
}

/** The `limits` of a job: sorted by name, so that equal lists are equal routes. */
export function readLimits(value: unknown, what: string): readonly AnyLimitUse[] {
  if (!Array.isArray(value) || value.length > storeLimits.gatesPerJobMax)
    throw invalidOption(`${what} must be a list of at most ${storeLimits.gatesPerJobMax} limits.`);
  const uses = value.map((each) => readUse(each, what));
  const names = uses.map(({ limit: { name } }) => name);
  const twice = names.find((name, at) => names.indexOf(name) !== at);
  if (twice !== undefined) throw invalidOption(`${what}: the limit ${JSON.stringify(twice)} is given twice.`);
  const keyless = uses.find(({ limit: { settings }, key }) => key === null && !isBoundedInAll(settings));
  if (keyless !== undefined) {
    const name = JSON.stringify(keyless.limit.name);
    throw invalidOption(`${what}: the limit ${name} bounds keys only: give limit.use({ key }).`);
  }
  return uses.toSorted((one, other) => (one.limit.name < other.limit.name ? -1 : 1));
}

function readUse(value: unknown, what: string): AnyLimitUse {
  if (isLimit(value)) return { limit: value, weight: 1, key: null };
  const { limit: used, ...use } = (value ?? {}) as Partial<LimitUse>;
  if (isLimit(used)) return used.use({ ...use, key: use.key ?? undefined });
  throw new MillraceError("invalid-option", `${what}: give limits made by limit(), or their use().`);
}

/** Those of the limits that are on the route of their jobs: the others bound nothing but keys. */
export function onRoute(uses: readonly AnyLimitUse[]): readonly AnyLimitUse[] {
  return uses.every(({ limit: { settings } }) => isBoundedInAll(settings))
    ? uses
    : uses.filter(({ limit: { settings } }) => isBoundedInAll(settings));
}

/** The gates on the route of a job with these limits. */
export function gatesOf(uses: readonly AnyLimitUse[]): readonly GateUse[] {
  return onRoute(uses).map(({ limit: { name }, weight }) => ({ key: limitGateKey(name), weight }));
}
