/**
 * Budgets as users set them, and what the gate of a budget keeps of them. The code defines a budget; an operator may
 * edit it, and the edit holds until the code's definition changes. Both are in the body of its gate, which has no cap
 * and no rate: it is closed while the budget is spent. A key of a budget (a tenant) has a gate of its own.
 */
import { checkOptions, checkWhole, invalidOption } from "../option.ts";
import type { ScheduleRule } from "../schedule/schedule-rule.ts";
import { readScheduleRule } from "../schedule/schedule-rule.ts";
import { readReset } from "./period.ts";
import type { ResetOptions } from "./period.ts";

/**
 * What a breach of the hard bound does until the period ends. hold: no job with the budget starts. cancel: the same,
 * and those that wait at that moment are cancelled. fail: the same, and those that are ready at that moment fail.
 * notify: only the event.
 */
export type OnBreach = "hold" | "cancel" | "fail" | "notify";

export interface BudgetBounds {
  /** From this amount on the budget is spent; null for any amount. */
  readonly hard: number | null;
  /** From this amount on there is a warning; null for none. */
  readonly soft: number | null;
}

export interface BudgetSettings extends BudgetBounds {
  /** The bounds of each key. */
  readonly perKey: BudgetBounds;
  readonly reset: ScheduleRule;
  readonly onBreach: OnBreach;
  /** How many periods are kept, the present one included. */
  readonly keep: number;
  /** Queues that are held as well while the budget is spent. */
  readonly queues: readonly string[];
}

export interface BudgetOptions {
  /** From this amount on the budget is spent for the period. */
  hard?: number;
  /** From this amount on there is a warning, once per period. */
  soft?: number;
  /** The same for each key by itself: `use({ key })` says to whose account a job goes. */
  perKey?: { hard?: number; soft?: number };
  /** When a new period begins. */
  reset: ResetOptions;
  /** "hold" by default. */
  onBreach?: OnBreach;
  /** How many periods stay readable, the present one included; 62 by default. */
  keep?: number;
  /** Queues of which nothing starts while the budget is spent, whatever budgets their jobs have. */
  queues?: readonly string[];
}

/** An edit; absent fields stay, null is as the code defines it. */
export type BoundsEdit = Partial<BudgetBounds>;
export interface BudgetEdit extends BoundsEdit {
  readonly perKey?: BoundsEdit;
}

/** What was done in a period. */
export interface Acted {
  readonly period: string;
  readonly soft?: true;
  readonly hard?: true;
  /** The waiting jobs are still to be cancelled, or to fail. */
  readonly ending?: true;
}

export interface BudgetBody {
  /** The last definition in code; null for the gate of a key. */
  readonly defined: BudgetSettings | null;
  readonly edited: BudgetEdit;
  readonly acted: Acted | null;
}

const boundKeys = ["hard", "soft"] as const;
const breaches: readonly OnBreach[] = ["hold", "cancel", "fail", "notify"];
/** A counter is exact up to 9e15: the sum of a report on top of this stays below it. */
export const boundMax = 1_000_000_000_000_000;
/** The most that one report counts. */
export const amountMax = 1_000_000_000_000;
const keepDefault = 62;
const queuesMax = 16;
const unbounded: BudgetBounds = { hard: null, soft: null };
const emptyBody: BudgetBody = { defined: null, edited: {}, acted: null };

export function readBudget(options: unknown, what: string): BudgetSettings {
  const {
    perKey,
    reset,
    onBreach = "hold",
    keep,
    queues = [],
    ...bounds
  } = checkOptions(options, what, [...boundKeys, "perKey", "reset", "onBreach", "keep", "queues"]);
  if (reset === undefined) throw invalidOption(`${what}: give reset, such as { every: "1d" }.`);
  if (!breaches.some((known) => known === onBreach))
    throw invalidOption(`${what}: onBreach must be one of ${breaches.join(", ")}.`);
  const settings: BudgetSettings = {
    ...checkedBounds({ ...unbounded, ...readBounds(bounds, what, false) }, what),
    perKey: checkedBounds(
      { ...unbounded, ...(perKey === undefined ? {} : readBounds(perKey, `${what}: perKey`, false)) },
      `${what}: perKey`,
    ),
    reset: readReset(reset, `${what}: reset`),
    onBreach: onBreach as OnBreach,
    keep: checkWhole(keep ?? keepDefault, `${what}: keep`, 1, 10_000),
    queues: readQueues(queues, `${what}: queues`),
  };
  if ([settings, settings.perKey].every(({ hard, soft }) => hard === null && soft === null))
    throw invalidOption(`${what}: give hard or soft, of all or perKey.`);
  return settings;
}

export function readBudgetEdit(options: unknown, what: string, ofKey = false): BudgetEdit {
  const given = checkOptions(options, what, ofKey ? boundKeys : [...boundKeys, "perKey"]);
  const { perKey, ...bounds } = given;
  const edit: BudgetEdit = {
    ...readBounds(bounds, what, true),
    ...(perKey === undefined ? {} : { perKey: readBounds(perKey, `${what}: perKey`, true) }),
  };
  if (Object.keys(edit).length === 0) throw invalidOption(`${what}: give hard or soft.`);
  return edit;
}

export function readAmount(value: unknown, what: string): number {
  return checkWhole(value, what, 1, amountMax);
}

function readBounds(options: unknown, what: string, mayBeNull: boolean): BoundsEdit {
  const given = checkOptions(options, what, boundKeys);
  const edit: { -readonly [Key in keyof BoundsEdit]: BoundsEdit[Key] } = {};
  for (const key of boundKeys) {
    const value = given[key];
    if (value === undefined) continue;
    edit[key] = value === null && mayBeNull ? null : checkWhole(value, `${what}: ${key}`, 1, boundMax);
  }
  return edit;
}

/** Refuses a warning that would come with the breach or after it. */
export function checkedBounds<Bounds extends BudgetBounds>(bounds: Bounds, what: string): Bounds {
  const { hard, soft } = bounds;
  if (hard !== null && soft !== null && soft >= hard)
    throw invalidOption(`${what}: soft (${soft}) must be below hard (${hard}).`);
  return bounds;
}

function readQueues(value: unknown, what: string): readonly string[] {
  if (!Array.isArray(value) || value.length > queuesMax || value.some((name) => typeof name !== "string"))
    throw invalidOption(`${what} must be a list of at most ${queuesMax} names.`);
  return [...new Set(value as readonly string[])].toSorted();
}

/** The settings in force. */
export function budgetOf({ defined, edited }: BudgetBody): BudgetSettings | null {
  if (defined === null) return null;
  return { ...defined, ...merged(defined, edited), perKey: merged(defined.perKey, edited.perKey ?? {}) };
}

/** The bounds of one key: its own edit comes before that of all keys. */
export function boundsOfKey({ perKey }: BudgetSettings, ofKey: BudgetBody | null): BudgetBounds {
  return merged(perKey, ofKey?.edited ?? {});
}

function merged({ hard, soft }: BudgetBounds, edit: BoundsEdit): BudgetBounds {
  return { hard: edit.hard ?? hard, soft: edit.soft ?? soft };
}

/** The body after the code's definition; null if it has not changed, so that edits stay. */
export function afterBudgetDefinition(body: BudgetBody, defined: BudgetSettings): BudgetBody | null {
  return body.defined !== null && isSameBudget(body.defined, defined)
    ? null
    : { ...body, defined, edited: {} };
}

export function isSameBudget(one: BudgetSettings, other: BudgetSettings): boolean {
  return JSON.stringify(one) === JSON.stringify(other);
}

export function afterBudgetEdit(body: BudgetBody, { perKey, ...bounds }: BudgetEdit): BudgetBody {
  const { edited } = body;
  const ofKeys = perKey === undefined ? {} : { perKey: { ...edited.perKey, ...perKey } };
  return { ...body, edited: { ...edited, ...bounds, ...ofKeys } };
}

export const writeBudgetBody = (body: BudgetBody): string => JSON.stringify(body);

/** Null for a body that no budget has. */
export function readBudgetBody(text: string | null): BudgetBody | null {
  if (text === null) return emptyBody;
  try {
    const { defined = null, edited = {}, acted = null } = JSON.parse(text) as Partial<BudgetBody>;
    if (defined !== null) readScheduleRule(defined.reset, "reset");
    return { defined, edited, acted };
  } catch {
    return null;
  }
}
