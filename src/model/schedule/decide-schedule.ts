/**
 * One pass over a schedule: what to submit, what to cancel and what to keep, from the state, the store's clock and the
 * state of the previous job. The engine writes all of it in one step, guarded by the document's version. Two processes
 * at the same time decide the same, and only one of them writes.
 */
import type { JobState } from "../job/job-state.ts";
import { dueTicks } from "./due-ticks.ts";
import { firingDue, firingId } from "./firing.ts";
import { decideOverlap, isAlive } from "./overlap.ts";
import { settingsOf } from "./schedule-state.ts";
import type { ScheduleState } from "./schedule-state.ts";
import { nextTick } from "./rule-ticks.ts";

export interface Firing {
  readonly tick: number;
  /** The id of its job. */
  readonly id: string;
}

export interface ScheduleDecision {
  readonly fire: readonly Firing[];
  /** The job to cancel; null for none. */
  readonly cancel: string | null;
  readonly state: ScheduleState;
}

export interface ScheduleLook {
  readonly name: string;
  readonly now: number;
  /** The state of `lastJob`; null if there is none, or it was deleted. */
  readonly previous: JobState | null;
  /** Where the document lies, and so its jobs. */
  readonly partition?: number;
}

/** How soon to look again while a tick waits for the previous job, in case the hint of its end is lost. */
const queuedLookMs = 1000;

/** Null if there is nothing to do now. */
export function decideSchedule(state: ScheduleState, look: ScheduleLook): ScheduleDecision | null {
  if (state.isPaused || firingsLeft(state) === 0) return null;
  const { rule, missed, overlap } = settingsOf(state);
  const { name, now, previous, partition } = look;
  const due = dueTicks({ name, rule, missed }, state.position, now);
  let isPreviousAlive = isAlive(previous);
  if (due === null && (state.queued === null || isPreviousAlive)) return null;

  const fire: Firing[] = [];
  let { queued } = state;
  let cancel: string | null = null;
  let skipped = due?.skipped ?? 0;
  const fireTick = (tick: number): void => {
    fire.push({ tick, id: firingId(name, tick, partition) });
    isPreviousAlive = true;
  };
  if (queued !== null && !isPreviousAlive) {
    fireTick(queued);
    queued = null;
  }
  // If each tick cancels the one before, only the newest of several fires: the others would not begin.
  const ticks = overlap === "cancel-previous" ? due?.fire.slice(-1) : due?.fire;
  skipped += (due?.fire.length ?? 0) - (ticks?.length ?? 0);
  for (const tick of ticks ?? []) {
    if (fire.length === firingsLeft(state)) break;
    switch (decideOverlap(overlap, { isPreviousAlive, isOneQueued: queued !== null })) {
      case "fire":
        fireTick(tick);
        break;
      case "skip":
        skipped++;
        break;
      case "queue":
        queued = tick;
        break;
      case "cancel-and-fire":
        if (fire.length === 0) cancel = state.lastJob;
        // A tick that was queued under the previous policy.
        skipped += fire.splice(0).length;
        fireTick(tick);
        break;
    }
  }
  const last = fire.at(-1);
  return {
    fire,
    cancel,
    state: {
      ...state,
      position: due?.position ?? state.position,
      lastTick: last?.tick ?? state.lastTick,
      lastJob: last?.id ?? state.lastJob,
      queued,
      fired: state.fired + fire.length,
      skipped: state.skipped + skipped,
    },
  };
}

/** When to look at the schedule next; null for never, unless it is changed. */
export function scheduleDue(state: ScheduleState, name: string, now: number): number | null {
  if (state.isPaused || firingsLeft(state) === 0) return null;
  const { rule } = settingsOf(state);
  const tick = nextTick(rule, state.position);
  const due = tick === null ? null : firingDue(rule, name, tick);
  return state.queued === null ? due : Math.min(due ?? Infinity, now + queuedLookMs);
}

/** For display: whether it fires, waits for a resume, or has no tick or firing left. */
export function scheduleStatus(state: ScheduleState): "active" | "paused" | "ended" {
  const { rule } = settingsOf(state);
  const hasNext = state.queued !== null || nextTick(rule, state.position) !== null;
  if (firingsLeft(state) === 0 || !hasNext) return "ended";
  return state.isPaused ? "paused" : "active";
}

function firingsLeft(state: ScheduleState): number {
  const { limit } = settingsOf(state).rule;
  return limit === null ? Infinity : Math.max(0, limit - state.fired);
}
