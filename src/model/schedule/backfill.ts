/**
 * A backfill: the ticks of a range in the past, fired one after the other with at most N of their jobs alive at once.
 * It is a document of its own, so another process can go on with it, and the schedule's own ticks neither wait for it
 * nor count it. A tick that has fired before makes no second job as long as its first one is kept, because both would
 * have the same id.
 */
import { MillraceError } from "../error.ts";
import { readInstant } from "../instant.ts";
import { checkOptions, checkWhole } from "../option.ts";
import type { ScheduleRule } from "./schedule-rule.ts";
import { ticksBetween } from "./rule-ticks.ts";

export interface Backfill {
  readonly from: number;
  readonly to: number;
  readonly atOnce: number;
  /** The first tick that has not fired; null once all have. */
  readonly next: number | null;
  readonly done: number;
  readonly total: number;
}

export const backfillTicksMax = 100_000;
const atOnceDefault = 10;
const atOnceMax = 500;

/**
 * Counts the ticks of the range, and refuses an implausible number.
 *
 * @param options `from` belongs to the range, `to` does not; `atOnce` jobs may be alive at once, 10 by default.
 */
export function readBackfill(options: unknown, rule: ScheduleRule, what: string): Backfill {
  const given = checkOptions(options, what, ["from", "to", "atOnce"]);
  const from = readInstant(given["from"], `${what}: from`);
  const to = readInstant(given["to"], `${what}: to`);
  const atOnce = checkWhole(given["atOnce"] ?? atOnceDefault, `${what}: atOnce`, 1, atOnceMax);
  if (to <= from) throw new MillraceError("invalid-option", `${what}: to must come after from.`);
  const { ticks, next } = ticksBetween(rule, { from, to, max: backfillTicksMax });
  if (next !== null)
    throw new MillraceError(
      "invalid-option",
      `${what}: the range has more than ${backfillTicksMax} ticks; give a shorter one.`,
    );
  return { from, to, atOnce, next: ticks[0] ?? null, done: 0, total: ticks.length };
}

/**
 * @param alive how many jobs of this backfill are alive.
 * @returns the ticks to fire now, and the backfill once they have fired.
 */
export function stepBackfill(
  backfill: Backfill,
  rule: ScheduleRule,
  alive: number,
): { readonly fire: readonly number[]; readonly backfill: Backfill } {
  const room = Math.max(0, backfill.atOnce - alive);
  if (backfill.next === null || room === 0) return { fire: [], backfill };
  const { ticks, next } = ticksBetween(rule, { from: backfill.next, to: backfill.to, max: room });
  return { fire: ticks, backfill: { ...backfill, next, done: backfill.done + ticks.length } };
}
