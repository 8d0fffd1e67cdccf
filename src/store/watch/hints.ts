/**
 * Hints on their way to the listeners of `watch` (rule R10): the news of one call, one message of another process or
 * one page of the feed, collected and then emitted as hints of the contract. Each hint may be lost or come twice;
 * nothing depends on it.
 */
import { eventCodes } from "../../model/events/event-kind.ts";
import { stateCodes } from "../../model/job/job-state.ts";
import type { Hint } from "../store.ts";

export interface Hints {
  routes: Set<number>;
  /** The earliest clock that was set, relative to the call's time; at least 1. */
  dueInMs: number | null;
  /** Whether documents were written that are due already: kept apart, because they would hide the clocks. */
  hasDueDocs: boolean;
  /** Whether due jobs were promoted. */
  hasPromoted: boolean;
  /** Whether the feed has grown. */
  hasEmitted: boolean;
  /** How many records the calls of this process could not read; other processes are not notified. */
  unreadable: number;
  /** Routes of which another process has claimed all ready jobs. */
  taken: Set<number>;
  finished: string[];
  cancels: { id: string; owner: string }[];
  /** Running jobs whose journal has grown. */
  signals: { id: string; owner: string }[];
  /** Running jobs that have written output. */
  outputs: string[];
}

export function emptyHints(): Hints {
  const lists = { finished: [], cancels: [], signals: [], outputs: [] };
  const flags = { hasDueDocs: false, hasPromoted: false, hasEmitted: false, unreadable: 0 };
  return { routes: new Set(), dueInMs: null, taken: new Set(), ...flags, ...lists };
}

export function isEmpty(hints: Hints): boolean {
  const { routes, dueInMs, hasDueDocs, hasPromoted, hasEmitted, taken } = hints;
  const { finished, cancels, signals, outputs } = hints;
  const hasNoClock = dueInMs === null && !hasDueDocs && !hasPromoted;
  const hasNoIds = finished.length + cancels.length + signals.length + outputs.length === 0;
  return (
    hasNoClock && hasNoIds && !hasEmitted && hints.unreadable === 0 && routes.size === 0 && taken.size === 0
  );
}

export function hintDue(hints: Hints, inMs: number): void {
  const left = Math.max(1, inMs);
  if (hints.dueInMs === null || left < hints.dueInMs) hints.dueInMs = left;
}

/** The due time of a document that was written. */
export function hintDoc(hints: Hints, inMs: number): void {
  if (inMs <= 0) hints.hasDueDocs = true;
  else hintDue(hints, inMs);
}

/**
 * An event that several jobs share. It carries codes instead of names, because a code that a newer version added must
 * not stop an older one from watching.
 */
export interface CodedEvent {
  readonly kind: number;
  readonly route: number;
  readonly state: number | null;
  readonly extra: string | number | null;
  readonly ids: readonly string[];
}

/** Adds the hints that follow from an event. `now` is the time of the call that emitted it. */
export function hintEvent(hints: Hints, { kind, route, state, extra, ids }: CodedEvent, now: number): void {
  hints.hasEmitted = true;
  if (state === null) return;
  if (kind === eventCodes.promoted) hints.hasPromoted = true;
  if (state === stateCodes.ready) hints.routes.add(route);
  else if (state === stateCodes.scheduled && typeof extra === "number") hintDue(hints, extra - now);
  else if (state === stateCodes.running && kind === eventCodes["cancel-asked"] && typeof extra === "string")
    for (const id of ids) hints.cancels.push({ id, owner: extra });
  else if (state === stateCodes.running && kind === eventCodes.signalled && typeof extra === "string")
    for (const id of ids) hints.signals.push({ id, owner: extra });
  else if (kind === eventCodes.output) hints.outputs.push(...ids);
  else if (state >= stateCodes.completed) hints.finished.push(...ids);
}

/** The hints as listeners get them: plain objects, which can cross to another thread. */
export function contractHints(emitted: Hints): Hint[] {
  const { routes, dueInMs, hasDueDocs, hasPromoted, hasEmitted, taken } = emitted;
  const { finished, cancels, signals, outputs } = emitted;
  const hints: Hint[] = [];
  // Before routes that became ready in the same call: those jobs are not taken.
  if (taken.size > 0) hints.push({ kind: "taken", routes: [...taken] });
  if (routes.size > 0) hints.push({ kind: "ready", routes: [...routes] });
  // Before clocks that were set in the same call: those are not answered yet.
  if (hasPromoted) hints.push({ kind: "promoted" });
  if (hasDueDocs) hints.push({ kind: "due", inMs: 0 });
  if (dueInMs !== null) hints.push({ kind: "due", inMs: dueInMs });
  if (finished.length > 0) hints.push({ kind: "finished", ids: finished });
  if (outputs.length > 0) hints.push({ kind: "output", ids: outputs });
  for (const [owner, ids] of byOwner(cancels)) hints.push({ kind: "cancel", ids, owner });
  for (const [owner, ids] of byOwner(signals)) hints.push({ kind: "signalled", ids, owner });
  // Followers of the feed read it after any hint.
  if (hasEmitted && hints.length === 0) hints.push({ kind: "emitted", partition: 0 });
  if (emitted.unreadable > 0) hints.push({ kind: "unreadable", count: emitted.unreadable });
  return hints;
}

function byOwner(leases: readonly { readonly id: string; readonly owner: string }[]): Map<string, string[]> {
  const owners = Map.groupBy(leases, ({ owner }) => owner);
  return new Map([...owners].map(([owner, held]) => [owner, held.map(({ id }) => id)]));
}

export function handOut(hints: Hints, listeners: Iterable<(hint: Hint) => void>): void {
  emitHints(contractHints(hints), listeners);
}

/** Calls all listeners. If one throws, neither the call that made the hint nor the other listeners are affected. */
export function emitHints(hints: readonly Hint[], listeners: Iterable<(hint: Hint) => void>): void {
  for (const hint of hints) {
    for (const listener of listeners) {
      try {
        listener(hint);
      } catch {
        continue;
      }
    }
  }
}
