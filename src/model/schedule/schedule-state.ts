/**
 * What a store keeps of a schedule: the settings from code, what an operator has changed since, and up to where its
 * ticks are decided.
 *
 *   - An edit holds until the definition in code changes; an unchanged definition changes nothing.
 *   - A pause is no edit: only a resume ends it. Ticks that pass meanwhile are not missed, and nothing makes up for
 *     them.
 *   - New settings with other ticks apply from the moment they came: none of their ticks is in the past.
 *   - `fired` counts for the whole life of the schedule, so a higher limit lets it go on.
 *
 * The text keeps fields of a newer version, so that two versions can write one schedule in turn.
 */
import { isSameSettings, hasSameTicks } from "./schedule-settings.ts";
import type { ScheduleEdit, ScheduleSettings } from "./schedule-settings.ts";
import { readMissed } from "./due-ticks.ts";
import { readOverlap } from "./overlap.ts";
import { readScheduleRule } from "./schedule-rule.ts";

export interface ScheduleState {
  /** The last definition in code. */
  readonly defined: ScheduleSettings;
  /** What an operator has changed since. */
  readonly edited: ScheduleEdit;
  readonly isPaused: boolean;
  /** Every tick up to here is decided: it has fired, or it never will. */
  readonly position: number;
  /** The last tick that fired, and its job; a manual run is a job without a tick. */
  readonly lastTick: number | null;
  readonly lastJob: string | null;
  /** The tick that waits for the previous job to end (overlap "queue-one"). */
  readonly queued: number | null;
  readonly fired: number;
  readonly skipped: number;
  /** Fields of a newer version, as they were read. */
  readonly others: Readonly<Record<string, unknown>>;
}

export type ScheduleRead =
  | { readonly kind: "read"; readonly state: ScheduleState }
  /** Not touched, and shown: a newer version wrote it, or this Node.js does not know its zone. */
  | { readonly kind: "unreadable"; readonly reason: string };

export function newSchedule(defined: ScheduleSettings, now: number): ScheduleState {
  return {
    defined,
    edited: {},
    isPaused: false,
    position: now,
    lastTick: null,
    lastJob: null,
    queued: null,
    fired: 0,
    skipped: 0,
    others: {},
  };
}

export function settingsOf({ defined, edited }: ScheduleState): ScheduleSettings {
  return { ...defined, ...edited };
}

/** The state after the code's definition; null if the definition has not changed, so that edits stay. */
export function afterDefinition(
  state: ScheduleState,
  defined: ScheduleSettings,
  now: number,
): ScheduleState | null {
  return isSameSettings(state.defined, defined) ? null : withSettings(state, { defined, edited: {} }, now);
}

export function afterEdit(state: ScheduleState, edit: ScheduleEdit, now: number): ScheduleState {
  return withSettings(state, { defined: state.defined, edited: { ...state.edited, ...edit } }, now);
}

/** The state without edits; null if there are none. */
export function afterReset(state: ScheduleState, now: number): ScheduleState | null {
  if (Object.keys(state.edited).length === 0) return null;
  return withSettings(state, { defined: state.defined, edited: {} }, now);
}

/** Null if it is paused already. */
export function afterPause(state: ScheduleState): ScheduleState | null {
  return state.isPaused ? null : { ...state, isPaused: true };
}

/** Null if it is not paused. */
export function afterResume(state: ScheduleState, now: number): ScheduleState | null {
  return state.isPaused ? { ...state, isPaused: false, position: Math.max(state.position, now) } : null;
}

/** After a manual run: its job is the previous job for the next tick; the limit does not count it. */
export function afterRunNow(state: ScheduleState, job: string): ScheduleState {
  return { ...state, lastJob: job };
}

function withSettings(
  state: ScheduleState,
  settings: Pick<ScheduleState, "defined" | "edited">,
  now: number,
): ScheduleState {
  const next = { ...state, ...settings };
  return hasSameTicks(settingsOf(state).rule, settingsOf(next).rule)
    ? next
    : { ...next, position: Math.max(state.position, now) };
}

export function writeSchedule({ others, ...state }: ScheduleState): string {
  return JSON.stringify({ ...others, ...state });
}

export function readSchedule(text: string): ScheduleRead {
  try {
    const stored = JSON.parse(text) as ScheduleState | null;
    if (stored?.defined === undefined) throw new TypeError("The stored schedule has no definition.");
    const { defined, edited, isPaused, position, lastTick, lastJob, queued, fired, skipped, ...others } =
      stored;
    return {
      kind: "read",
      state: {
        defined: readDefined(defined),
        edited: readEdited(edited ?? {}),
        isPaused: isPaused === true,
        position: wholeOr(position, null),
        lastTick: lastTick ?? null,
        lastJob: lastJob ?? null,
        queued: queued ?? null,
        fired: wholeOr(fired, 0),
        skipped: wholeOr(skipped, 0),
        others,
      },
    };
  } catch (problem) {
    return { kind: "unreadable", reason: problem instanceof Error ? problem.message : String(problem) };
  }
}

/** There is no default for the position: without it, it is unknown which ticks have fired. */
function wholeOr(value: unknown, otherwise: number | null): number {
  if (typeof value === "number" && Number.isSafeInteger(value)) return value;
  if (otherwise !== null && (value === undefined || value === null)) return otherwise;
  throw new TypeError("The stored schedule has a field that is no whole number.");
}

function readDefined(stored: ScheduleSettings): ScheduleSettings {
  const { rule, missed, overlap, job } = readEdited(stored);
  if (rule === undefined || missed === undefined || overlap === undefined || job === undefined)
    throw new TypeError("The stored definition is not whole.");
  return { rule, missed, overlap, job };
}

function readEdited({ rule, missed, overlap, job }: ScheduleEdit): ScheduleEdit {
  return {
    ...(rule === undefined ? {} : { rule: readScheduleRule(rule, "the stored schedule") }),
    ...(missed === undefined ? {} : { missed: readMissed(missed, "the stored schedule: missed") }),
    ...(overlap === undefined ? {} : { overlap: readOverlap(overlap, "the stored schedule: overlap") }),
    ...(job === undefined ? {} : { job: String(job) }),
  };
}
