/**
 * What is special about the jobs of a drain. Every kind is drained in the same way; only what a job carries differs,
 * and how often it runs until it is finished. The work names the kind; the mode "plain-jobs" makes it the drain
 * of plain jobs that the special one is compared with.
 */
import type { Mode } from "../figures.ts";
import type { BenchInput } from "./input.ts";

/**
 * fails-once: the first attempt throws, and the job is tried again without a delay. unique: the job holds a key of its
 * own until its end. tagged: it has two tags. limited: at most `limitedTo` run at once, over all processes.
 * limited-widely: `limitedWidelyTo`. alone: one. rated: a rate that lets every job of a run pass, so that what is
 * measured is the price of having one. grouped: of `groupKeys` keys that take turns. fifo: of as many keys, one job of
 * a key at a time, in their order. keyed: at most `perKeyMax` of a key at once, with `limitKeys` keys. budget: every
 * attempt reports usage of a budget that it never spends. thread, process, pool: plain jobs whose handler runs in
 * threads, in child processes, or in programs of any language.
 */
export type JobKind =
  | "plain"
  | "fails-once"
  | "unique"
  | "tagged"
  | "limited"
  | "limited-widely"
  | "alone"
  | "rated"
  | "grouped"
  | "fifo"
  | "keyed"
  | "budget"
  | "thread"
  | "process"
  | "pool";

const kindOfDrain = {
  ...({ drain: "plain", retry: "fails-once", unique: "unique", tagged: "tagged" } as const),
  ...({ limited: "limited", rated: "rated", grouped: "grouped", fifo: "fifo", keyed: "keyed" } as const),
  ...({ budget: "budget" } as const),
  // Plain jobs beside others that wait at closed gates.
  ...({ closed: "plain" } as const),
  // Plain jobs, with and without metrics.
  ...({ metrics: "plain" } as const),
  // Plain jobs whose attempts are traced.
  ...({ tracing: "plain" } as const),
  // Plain jobs under the eyes of others.
  ...({ events: "plain" } as const),
  ...({ thread: "thread", process: "process", pool: "pool" } as const),
};

/** More than a worker of 100 slots runs at once, fewer than it would claim ahead. */
export const limitedTo = 200;
/** Twice what a claim takes at most, so no claim is smaller for it: what is measured is the price of having a limit. */
export const limitedWidelyTo = 1000;
export const ratedPerSecond = 1_000_000;
const groupKeys = 1000;
const limitKeys = 100_000;
export const perKeyMax = 2;

export function isDrain(work: string): work is keyof typeof kindOfDrain {
  return Object.hasOwn(kindOfDrain, work);
}

export function jobKindOf(work: string, mode: Mode): JobKind {
  if (work === "permit") return "alone";
  if (mode === "wide-cap") return "limited-widely";
  return isDrain(work) && mode !== "plain-jobs" ? kindOfDrain[work] : "plain";
}

/**
 * How many attempts a job takes. A drain counts the ends of attempts: a job that failed goes behind all that wait, so
 * by finished jobs alone the first half of such a drain would be outside the clock.
 */
export function attemptsOf(kind: JobKind): number {
  return kind === "fails-once" ? 2 : 1;
}

export function uniqueKeyOf({ orderId }: BenchInput): string {
  return `order-${orderId}`;
}

/** The group or the limit's key of a job; jobs of all keys are mixed. */
export function groupKeyOf(kind: JobKind, { orderId }: BenchInput): string {
  return `tenant-${orderId % (kind === "keyed" ? limitKeys : groupKeys)}`;
}

/** One tag of few values and one of many, as applications have them. */
export function tagsOf({ orderId, customer }: BenchInput): readonly string[] {
  return [`region-${orderId % 8}`, customer.id];
}
