/**
 * A limit as code defines it, and its use by a job: how many permits run at once or start in a time, over all processes.
 * It needs no store; the first use by a process makes sure that the store knows it (limits.ts).
 */
import { limitGateKey } from "../model/gate.ts";
import type { GateUse } from "../model/gate.ts";
import { MillraceError, notYetSupported } from "../model/error.ts";
import type { LearnOptions } from "../model/learning.ts";
import { readDefinition, weightMaxOf } from "../model/limit.ts";
import type { LimitSettings, RateOptions } from "../model/limit.ts";
import { checkName } from "../model/name.ts";
import { checkOptions, checkWhole, invalidOption } from "../model/option.ts";
import { storeLimits } from "../store/limits.ts";

export interface LimitOptions {
  /** How many permits are held at once, over all processes. */
  concurrency?: number;
  /** How many permits start in a time, over all processes. */
  rate?: RateOptions;
  /**
   * Learns how much upstream bears, up to `concurrency`: half of it after each `Throttled`, a step more after a while
   * of full use without one.
   */
  learn?: LearnOptions;
}

export interface LimitUseOptions {
  /** How many permits a job takes; 1 by default. */
  weight?: number;
}

export interface Limit {
  readonly name: string;
  readonly settings: LimitSettings;
  /** The limit with a weight, for the `limits` of a job. */
  use(options?: LimitUseOptions): LimitUse;
}

export interface LimitUse {
  readonly limit: Limit;
  readonly weight: number;
}

/** Nothing but a name: it limits nothing, until `Throttled` makes it cool down. */
export function limit(name: string, options: LimitOptions = {}): Limit {
  checkName(name, "limit name");
  const what = `limit ${JSON.stringify(name)}`;
  const settings = readDefinition(options, what);
  const made: Limit = {
    name,
    settings,
    use(use = {}) {
      if (typeof use === "object" && use !== null && "key" in use)
        throw notYetSupported(`${what}: the option key`);
      const { weight = 1 } = checkOptions(use, `${what}: use`, ["weight"]);
      return { limit: made, weight: checkWeight(weight, settings, what) };
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
export function readLimits(value: unknown, what: string): readonly LimitUse[] {
  if (!Array.isArray(value) || value.length > storeLimits.gatesPerJobMax)
    throw invalidOption(`${what} must be a list of at most ${storeLimits.gatesPerJobMax} limits.`);
  const uses = value.map((each) => readUse(each, what));
  const names = uses.map(({ limit: { name } }) => name);
  const twice = names.find((name, at) => names.indexOf(name) !== at);
  if (twice !== undefined) throw invalidOption(`${what}: the limit ${JSON.stringify(twice)} is given twice.`);
  return uses.toSorted((one, other) => (one.limit.name < other.limit.name ? -1 : 1));
}

function readUse(value: unknown, what: string): LimitUse {
  if (isLimit(value)) return { limit: value, weight: 1 };
  const { limit: used, weight } = (value ?? {}) as Partial<LimitUse>;
  if (isLimit(used) && typeof weight === "number") return { limit: used, weight };
  throw new MillraceError("invalid-option", `${what}: give limits made by limit(), or their use().`);
}

/** The gates that a job with these limits has to pass. */
export function gatesOf(uses: readonly LimitUse[]): readonly GateUse[] {
  return uses.map(({ limit: { name }, weight }) => ({ key: limitGateKey(name), weight }));
}
