/**
 * What follows from the count of a period:
 *
 *   below soft        open
 *   soft reached      a warning, once per period
 *   hard reached      the breach, once per crossing: an event, and unless it only notifies, a closed gate until the
 *                     period ends
 *   below hard again  (a refund, a release, a higher bound) the gate opens, and the next crossing acts again
 */
import type { Acted, BudgetBounds, OnBreach } from "./budget.ts";
import type { Period } from "./period.ts";

export interface Reached {
  readonly bounds: BudgetBounds;
  readonly onBreach: OnBreach;
  readonly count: number;
  readonly period: Period;
  readonly acted: Acted | null;
  /** When the gate opens; null for open. */
  readonly closedUntil: number | null;
  readonly now: number;
}

export interface Breach {
  readonly acted: Acted;
  /** When the gate opens; null for open. */
  readonly closedUntil: number | null;
  readonly emits: "budget-warned" | "budget-breached" | null;
}

export const isSpent = ({ hard }: BudgetBounds, count: number): boolean => hard !== null && count >= hard;

/** The amounts at which a count leaves work. */
export function marksOf({ hard, soft }: BudgetBounds): readonly number[] {
  return [soft, hard].filter((mark) => mark !== null);
}

/** Null if everything is as it should be. */
export function decideBreach(reached: Reached): Breach | null {
  const { bounds, onBreach, count, period, closedUntil, now } = reached;
  const before: Acted = reached.acted?.period === period.id ? reached.acted : { period: period.id };
  const hard = isSpent(bounds, count);
  const soft = before.soft === true || hard || (bounds.soft !== null && count >= bounds.soft);
  const isNew = hard && before.hard !== true;
  const isEnding = hard && (isNew ? onBreach === "cancel" || onBreach === "fail" : before.ending === true);
  const acted: Acted = {
    period: period.id,
    ...(soft ? { soft: true } : {}),
    ...(hard ? { hard: true } : {}),
    ...(isEnding ? { ending: true } : {}),
  };
  const emits = isNew ? "budget-breached" : soft && before.soft !== true ? "budget-warned" : null;
  const closes = hard && onBreach !== "notify";
  const isClosed = closedUntil !== null && closedUntil > now;
  const isAsItShould = closes ? closedUntil === period.endsAt : !isClosed;
  if (emits === null && isAsItShould && acted.hard === before.hard && acted.soft === before.soft) return null;
  return { acted, closedUntil: closes ? period.endsAt : null, emits };
}
