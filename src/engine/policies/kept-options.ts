/**
 * How much of its finished jobs a queue or a store keeps, as people write it: for each outcome an age, a count, or
 * both, whichever is over first. A single job has an age alone (job-options.ts): a count is one of a queue.
 */
import type { Duration } from "../../model/duration.ts";
import { durationMs } from "../../model/duration.ts";
import type { KeptHistory } from "../../model/job/job-policy.ts";
import { checkOptions, checkWhole, invalidOption } from "../../model/option.ts";

export interface KeptOptions {
  completed?: Duration | AgeAndCount;
  failed?: Duration | AgeAndCount;
  /** Each of the other outcomes. */
  other?: Duration | AgeAndCount;
}

export interface AgeAndCount {
  /** How long a finished job is kept. */
  age?: Duration;
  /** How many finished jobs each queue keeps, the newest; null for any number, which is the default. */
  count?: number | null;
}

export const keptOutcomes = ["completed", "failed", "other"] as const;
const countMax = 1_000_000_000;

export function readKept(options: unknown, what: string): KeptHistory {
  const given = checkOptions(options, what, keptOutcomes);
  return Object.assign(
    {},
    ...keptOutcomes.map((outcome) => readOne(given[outcome], outcome, `${what}.${outcome}`)),
  ) as KeptHistory;
}

function readOne(given: unknown, outcome: string, what: string): Readonly<Record<string, number | null>> {
  if (given === undefined) return {};
  if (typeof given !== "object") return { [`${outcome}Ms`]: durationMs(given, what) };
  if (given === null)
    throw invalidOption(`${what} must be a duration, or an object with age, count or both.`);
  const { age, count } = checkOptions(given, what, ["age", "count"]);
  if (age === undefined && count === undefined) throw invalidOption(`${what}: give an age, a count or both.`);
  return {
    ...(age === undefined ? {} : { [`${outcome}Ms`]: durationMs(age, `${what}.age`) }),
    ...(count === undefined ? {} : { [`${outcome}Count`]: readCount(count, `${what}.count`) }),
  };
}

/** A count of 0 would be an age of 0, of which nothing is ever written. */
export function readCount(given: unknown, what: string): number | null {
  return given === null ? null : checkWhole(given, what, 1, countMax);
}
