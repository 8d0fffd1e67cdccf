/**
 * The order of ready jobs: `rank = rankBase + rankSlope * dueAt`, fixed when the job is ranked, ties broken by seq.
 *
 * One step of priority is worth `strideMs` of waiting. With a finite stride a job of level 10 goes before a new job of
 * level 0 after it has waited ten strides longer. So no job starves, and no job is ranked again while it waits. The
 * strict stride is so wide that priority always wins. With levels of -1023 to 1023 every rank is below 2^53, so it is
 * exact in a JavaScript number and in a Redis score.
 *
 * In LIFO order the job that became due last goes first. Waiting is worth nothing there, so priority always wins.
 */
import { MillraceError } from "../error.ts";

export const levels = { critical: -20, high: -10, normal: 0, low: 10, lowest: 20 } as const;
type LevelName = keyof typeof levels;
export type Priority = number | LevelName;

export const levelMax = 1023;
export const strictStrideMs = 2 ** 42;
/** The default ageing: one step of priority is worth half a minute of waiting. */
export const defaultStrideMs = 30_000;

export function levelOf(priority: unknown, what = "priority"): number {
  if (typeof priority === "string" && Object.hasOwn(levels, priority)) return levels[priority as LevelName];
  if (typeof priority === "number" && Number.isInteger(priority) && Math.abs(priority) <= levelMax)
    return priority;
  throw new MillraceError(
    "invalid-option",
    `${what} must be a whole number from -${levelMax} to ${levelMax} (lower first) or one of ${Object.keys(levels).join(", ")}.`,
  );
}

export interface Ranking {
  readonly rankBase: number;
  readonly rankSlope: number;
}

/** The order of jobs of one priority: the first due first, or the last. */
export type Order = "fifo" | "lifo";

export function rankingOf(job: { readonly level: number; readonly order: Order }, strideMs: number): Ranking {
  return job.order === "fifo"
    ? { rankBase: job.level * strideMs, rankSlope: 1 }
    : { rankBase: job.level * strictStrideMs, rankSlope: -1 };
}

export function orderOf(given: unknown, what = "order"): Order {
  if (given === "fifo" || given === "lifo") return given;
  throw new MillraceError("invalid-option", `${what} must be "fifo" or "lifo".`);
}
