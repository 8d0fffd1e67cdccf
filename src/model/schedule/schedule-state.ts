/**
 * What a store keeps of a schedule: the settings that the code gave, what an operator changed since, and how far its
 * ticks are decided.
 *
 *   - An edit holds until the definition in code changes; a definition that says the same as before changes nothing.
 *   - A pause is no edit: only a resume ends it. Ticks that pass meanwhile are not missed, and nothing makes up for
 *     them.
 *   - New settings with other ticks count from the moment they came: no tick of theirs lies in the past.
 *   - `fired` counts for the schedule's whole life, so a higher limit lets it fire on.
 *
 * The text keeps fields that only a newer version knows, so that two versions can work on one schedule in turn.
 */
import { isSameSettings, hasSameTicks } from "./schedule-settings.ts";
import type { ScheduleEdit, ScheduleSettings } from "./schedule-settings.ts";
import { readMissed } from "./due-ticks.ts";
import { readOverlap } from "./overlap.ts";
import { readScheduleRule } from "./schedule-rule.ts";

export interface ScheduleState {
  /** What the code said last. */
  readonly defined: ScheduleSettings;
  /** What an operator changed since. */
  readonly edited: ScheduleEdit;
  readonly isPaused: boolean;
  /** Up to here every tick is decided: it fired, or it never will. */
  readonly position: number;
  /** The tick that fired last, and the job it made; a run by hand is a job without a tick. */
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
  /** Left alone and shown: a newer version wrote it, or this Node.js does not know its zone. */
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

/** The state once the code has said what the schedule is; null where the code said so before: then edits stay. */
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

/** The state as the code defines it; null where nothing was edited. */
export function afterReset(state: ScheduleState, now: number): ScheduleState | null {
  if (Object.keys(state.edited).length === 0) return null;
  return withSettings(state, { defined: state.defined, edited: {} }, now);
}

/** Null where it is paused already. */
export function afterPause(state: ScheduleState): ScheduleState | null {
  return state.isPaused ? null : { ...state, isPaused: true };
}

/** Null where it is not paused. */
export function afterResume(state: ScheduleState, now: number): ScheduleState | null {
  return state.isPaused ? { ...state, isPaused: false, position: Math.max(state.position, now) } : null;
}

/** A run by hand is the previous job for the tick that comes next; the limit does not count it. */
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

/** Without a position nobody can say which ticks have fired, so there is no default for one. */
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
