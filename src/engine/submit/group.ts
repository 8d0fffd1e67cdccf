/**
 * Groups as people ask for them: which jobs of a queue belong together, how many of them run at once, and whether the
 * groups take turns.
 *
 *   group: (input) => input.tenant                       fair turns over tenants, any number at once
 *   group: { key: (input) => input.customer, concurrency: 1 }    one at a time per customer, in order
 *
 * Without `concurrency` groups take turns; with it they go by rank, as jobs without a group do, unless `fair` says
 * otherwise. The key, and the weight of a turn, are computed at the enqueue, before any write.
 */
import { MillraceError } from "../../model/error.ts";
import { laneStepOf, laneWeightMax } from "../../model/routing/lane.ts";
import { checkName } from "../../model/name.ts";
import { checkBoolean, checkOptions, checkWhole, invalidOption } from "../../model/option.ts";

/** What a job's input says of it: the same for all, or computed. */
export type OfInput<In, Value> = Value | ((input: In) => Value);

export interface GroupOptions<In = unknown> {
  /** Jobs of one queue with the same key are a group, whatever their names. */
  key: OfInput<In, string>;
  /** How many of a group run at once, over all processes; any number by default. 1: one after the other, in order. */
  concurrency?: number;
  /** Groups take turns, however long their lines are. True by default without `concurrency`, else false. */
  fair?: boolean;
  /** How many turns the group has where one of weight 1 has one: 1 to 1000, 1 by default. */
  weight?: OfInput<In, number>;
  /**
   * A job that waits to be tried again keeps its place in the group: nobody of it overtakes. True by default where one
   * runs at once, else false.
   */
  holdsOnRetry?: boolean;
  /**
   * A job that has failed for good holds the group: nobody of it runs until the failed job is replayed or deleted, and
   * no retention takes it before. False by default.
   */
  holdsOnFailure?: boolean;
}

/** A group once it is checked. */
export interface ReadGroup {
  readonly key: OfInput<never, string>;
  /** Null for any number. */
  readonly concurrency: number | null;
  /** Null for a group that goes by rank. */
  readonly weight: OfInput<never, number> | null;
  readonly holdsOnRetry: boolean;
  readonly holdsOnFailure: boolean;
}

const permitsMax = 1_000_000_000;
const holdsNothing = { holdsOnRetry: false, holdsOnFailure: false };
const optionNames = ["key", "concurrency", "fair", "weight", "holdsOnRetry", "holdsOnFailure"];

export function readGroup(given: unknown, what: string): ReadGroup {
  if (typeof given === "string" || typeof given === "function")
    return { key: readKey(given, what), concurrency: null, weight: 1, ...holdsNothing };
  const options = checkOptions(given, what, optionNames);
  const concurrency =
    options["concurrency"] === undefined
      ? null
      : checkWhole(options["concurrency"], `${what}.concurrency`, 1, permitsMax);
  const isFair = checkBoolean(options["fair"] ?? concurrency === null, `${what}.fair`);
  const holdsOnRetry = checkBoolean(options["holdsOnRetry"] ?? concurrency === 1, `${what}.holdsOnRetry`);
  const holdsOnFailure = checkBoolean(options["holdsOnFailure"] ?? false, `${what}.holdsOnFailure`);
  if (!isFair && concurrency === null)
    throw invalidOption(`${what}: a group that takes no turns needs a concurrency.`);
  if (!isFair && options["weight"] !== undefined)
    throw invalidOption(`${what}.weight counts turns: give fair: true with it.`);
  for (const [name, holds] of Object.entries({ holdsOnRetry, holdsOnFailure }))
    if (holds && concurrency === null)
      throw invalidOption(`${what}.${name} needs a concurrency: there is nothing to hold.`);
  return {
    key: readKey(options["key"], `${what}.key`),
    concurrency,
    weight: isFair ? readWeight(options["weight"] ?? 1, `${what}.weight`) : null,
    holdsOnRetry,
    holdsOnFailure,
  };
}

/** A key that is given is checked here; a computed one with each job. */
export function readKey<In = never>(given: unknown, what: string): OfInput<In, string> {
  return typeof given === "function" ? (given as (input: In) => string) : checkName(given, what);
}

function readWeight(given: unknown, what: string): OfInput<never, number> {
  return typeof given === "function" ? (given as (input: never) => number) : checkWeight(given, what);
}

function checkWeight(given: unknown, what: string): number {
  return checkWhole(given, what, 1, laneWeightMax);
}

/** The key of a job with this input. */
export function keyFor(key: OfInput<never, string>, input: unknown, what: string): string {
  return typeof key === "string" ? key : checkName(compute(key, input, what), what);
}

/** How far one job of this input moves the turn of its group on. */
export function stepFor(weight: OfInput<never, number>, input: unknown, what: string): number {
  return laneStepOf(typeof weight === "number" ? weight : checkWeight(compute(weight, input, what), what));
}

function compute<Value>(of: (input: never) => Value, input: unknown, what: string): Value {
  try {
    return of(input as never);
  } catch (cause) {
    throw new MillraceError("invalid-option", `${what}: the function threw for this input.`, { cause });
  }
}
