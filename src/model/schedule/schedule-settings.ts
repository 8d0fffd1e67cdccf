/**
 * The settings of a schedule: its rule, what happens to missed ticks, what a tick does while the previous job is alive,
 * and the job that it makes. The code or an operator gives them; schedule-state.ts decides which of the two holds.
 */
import { checkOptions, invalidOption } from "../option.ts";
import { readMissed } from "./due-ticks.ts";
import type { Missed } from "./due-ticks.ts";
import { readOverlap } from "./overlap.ts";
import type { Overlap } from "./overlap.ts";
import { readScheduleRule, ruleKeys } from "./schedule-rule.ts";
import type { ScheduleRule, ScheduleRuleOptions } from "./schedule-rule.ts";

export interface ScheduleOptions extends ScheduleRuleOptions {
  /** What happens to ticks that came while no process ran; "once" by default. */
  missed?: Missed;
  /** What a tick does while the job of the previous tick is alive; "allow" by default. */
  overlap?: Overlap;
}

export interface ScheduleSettings {
  readonly rule: ScheduleRule;
  readonly missed: Missed;
  readonly overlap: Overlap;
  /** The job that a firing makes, as the engine wrote it; not read here. */
  readonly job: string;
}

/** What an operator has changed; absent fields are as defined. */
export type ScheduleEdit = Partial<ScheduleSettings>;

const defaultMissed: Missed = "once";
const defaultOverlap: Overlap = "allow";
const policyKeys = ["missed", "overlap"];

export function readScheduleSettings(options: unknown, job: string, what: string): ScheduleSettings {
  const { missed, overlap, ...rule } = checkOptions(options, what, [...ruleKeys, ...policyKeys]);
  return Object.freeze({
    rule: readScheduleRule(rule, what),
    missed: missed === undefined ? defaultMissed : readMissed(missed, `${what}: missed`),
    overlap: overlap === undefined ? defaultOverlap : readOverlap(overlap, `${what}: overlap`),
    job,
  });
}

/**
 * What an edit changes of the present settings. Absent options do not change; null removes one. Another one of cron,
 * every and calendar replaces the present one, with the options that only that one has. The input of the job is not
 * read here: it is a part of the job that the engine writes.
 */
export function readScheduleEdit(options: unknown, present: ScheduleSettings, what: string): ScheduleEdit {
  const known = [...ruleKeys, ...policyKeys, "input"];
  const { missed, overlap, input, ...given } = checkOptions(options, what, known);
  const isOfRule = Object.values(given).some((value) => value !== undefined);
  if (!isOfRule && missed === undefined && overlap === undefined && input === undefined)
    throw invalidOption(`${what}: give an option to change.`);
  return {
    ...(isOfRule ? { rule: readScheduleRule(mergeRule(present.rule, given), what) } : {}),
    ...(missed === undefined ? {} : { missed: readMissed(missed, `${what}: missed`) }),
    ...(overlap === undefined ? {} : { overlap: readOverlap(overlap, `${what}: overlap`) }),
  };
}

function mergeRule(present: ScheduleRule, given: Readonly<Record<string, unknown>>): ScheduleRuleOptions {
  const without = { cron: null, every: null, calendar: null, zone: null, anchor: null };
  const isGiven = (key: keyof ScheduleRule): boolean => given[key] !== undefined && given[key] !== null;
  if (isGiven("every")) return { ...present, ...without, anchor: present.anchor, ...given };
  if (isGiven("cron") || isGiven("calendar")) return { ...present, ...without, zone: present.zone, ...given };
  return { ...present, ...given };
}

/** Equal definitions have equal texts, whatever the order of their options. */
export function isSameSettings(one: ScheduleSettings, other: ScheduleSettings): boolean {
  return settingsText(one) === settingsText(other);
}

/** Whether two rules have the same ticks; limit and jitter do not change them. */
export function hasSameTicks(one: ScheduleRule, other: ScheduleRule): boolean {
  const text = (rule: ScheduleRule): string => JSON.stringify({ ...rule, limit: null, jitter: null });
  return text(one) === text(other);
}

function settingsText({ rule, missed, overlap, job }: ScheduleSettings): string {
  return JSON.stringify([rule, missed, overlap, job]);
}
