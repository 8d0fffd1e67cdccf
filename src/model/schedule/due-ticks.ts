/**
 * Which ticks fire now. A tick is missed if it is ten seconds late, because no process looked. That is more than twice
 * the time that a takeover from a killed process needs, so a fleet misses none as long as one process lives. Ticks on
 * time always fire. The schedule says what happens to missed ones:
 *
 *   skip         none of them
 *   once         one for all: the newest, unless a tick on time stands for them
 *   { all: N }   the newest N, oldest first
 *
 * A tick never overtakes an earlier one, whatever the jitters.
 */
import { checkOptions, checkWhole, invalidOption } from "../option.ts";
import { firingDue } from "./firing.ts";
import type { ScheduleRule } from "./schedule-rule.ts";
import { lastTick, nextTick, ticksBetween } from "./rule-ticks.ts";

export type Missed = "skip" | "once" | { readonly all: number };

export interface DueTicks {
  /** Oldest first. */
  readonly fire: readonly number[];
  /** Every tick up to here is decided. */
  readonly position: number;
  /** How many missed ticks do not fire; counted up to a thousand. */
  readonly skipped: number;
}

export const onTimeMs = 10_000;
/** With 500 ticks on time that makes a thousand jobs, the maximum of one call. */
const allMax = 500;
const onTimeMax = 500;
const countMax = 1000;

export function readMissed(value: unknown, what: string): Missed {
  if (value === "skip" || value === "once") return value;
  if (typeof value !== "object") throw invalidOption(`${what} must be "skip", "once" or { all: N }.`);
  const { all } = checkOptions(value, what, ["all"]);
  return Object.freeze({ all: checkWhole(all, `${what}.all`, 1, allMax) });
}

/**
 * @param position up to where every tick is decided already.
 * @returns null if no tick is due.
 */
export function dueTicks(
  { name, rule, missed }: { readonly name: string; readonly rule: ScheduleRule; readonly missed: Missed },
  position: number,
  now: number,
): DueTicks | null {
  const first = nextTick(rule, position);
  if (first === null || firingDue(rule, name, first) > now) return null;
  // Whatever its jitter, a tick up to here is missed.
  const longAgo = now - onTimeMs - (rule.jitter ?? 0) - 1;
  const early: number[] = [];
  const onTime: number[] = [];
  const { ticks } = ticksBetween(rule, {
    from: Math.max(position, longAgo) + 1,
    to: now + 1,
    max: onTimeMax,
  });
  for (const tick of ticks) {
    const due = firingDue(rule, name, tick);
    if (due > now) break;
    if (due < now - onTimeMs && onTime.length === 0) early.push(tick);
    else onTime.push(tick);
  }
  const newestMissed = early.at(-1) ?? (first <= longAgo ? longAgo : null);
  const last = onTime.at(-1) ?? newestMissed ?? position;
  const late = newestMissed === null ? [] : missedToFire(rule, missed, { position, newestMissed, onTime });
  const fire = [...late, ...onTime];
  return { fire, position: last, skipped: countSkipped(rule, { position, last, fired: fire.length }) };
}

function missedToFire(
  rule: ScheduleRule,
  missed: Missed,
  {
    position,
    newestMissed,
    onTime,
  }: { readonly position: number; readonly newestMissed: number; readonly onTime: readonly number[] },
): readonly number[] {
  const isServed = missed === "skip" || (missed === "once" && onTime.length > 0);
  const wanted = isServed ? 0 : missed === "once" ? 1 : missed.all;
  const newest: number[] = [];
  for (let upTo = newestMissed; newest.length < wanted;) {
    const tick = lastTick(rule, { after: position, upTo });
    if (tick === null) break;
    newest.unshift(tick);
    upTo = tick - 1;
  }
  return newest;
}

function countSkipped(
  rule: ScheduleRule,
  { position, last, fired }: { readonly position: number; readonly last: number; readonly fired: number },
): number {
  const { ticks, next } = ticksBetween(rule, { from: position + 1, to: last + 1, max: countMax + fired });
  return next === null ? ticks.length - fired : countMax;
}
