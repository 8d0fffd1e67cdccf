/** What the library tells (lua/base.ts, lua/write.ts draw the forms), as events of the feed and as hints for those who watch. */
import { eventCodes, eventOfCode } from "../../model/event-kind.ts";
import { stateCodes, stateOfCode } from "../../model/job-state.ts";
import type { FeedEvent } from "../../store/records.ts";
import type { Hint } from "../../store/store.ts";
import { fieldEnd, itemEnd, unpackText } from "./text.ts";

export interface Hints {
  routes: Set<number>;
  /** The earliest clock that was set, relative to the call's time. */
  dueInMs: number | null;
  finished: string[];
  cancels: { id: string; owner: string }[];
}

export function emptyHints(): Hints {
  return { routes: new Set(), dueInMs: null, finished: [], cancels: [] };
}

interface Group {
  readonly kind: number;
  readonly rev: number;
  readonly route: number;
  readonly state: number | null;
  readonly attempt: number;
  readonly extra: string | number | null;
  readonly ids: readonly string[];
}

function groupsOf(packed: string): Group[] {
  const isPacked = packed.includes("\x01");
  return packed.split(itemEnd).map((group) => {
    const [kind, rev, route, state, attempt, extra = "", ...ids] = group.split(fieldEnd);
    return {
      kind: Number(kind),
      rev: Number(rev),
      route: Number(route),
      state: state === "" ? null : Number(state),
      attempt: Number(attempt),
      extra: readExtra(extra),
      ids: isPacked ? ids.map(unpackText) : ids,
    };
  });
}

function readExtra(extra: string): string | number | null {
  if (extra === "") return null;
  return extra.startsWith("n") ? Number(extra.slice(1)) : unpackText(extra.slice(1));
}

export function eventsOf(packed: string): FeedEvent[] {
  const events: FeedEvent[] = [];
  for (const { kind, rev, route, state, attempt, extra, ids } of groupsOf(packed)) {
    const told = {
      kind: eventOfCode(kind),
      rev,
      route,
      state: state === null ? null : stateOfCode(state),
      attempt,
      extra,
    };
    for (const id of ids) events.push({ ...told, id });
  }
  return events;
}

/** Adds what follows from packed events of the feed. `now` is the time of the call that told them. */
export function addFeedHints(hints: Hints, packed: string, now: number): void {
  for (const { kind, route, state, extra, ids } of groupsOf(packed)) {
    if (state === stateCodes.ready) hints.routes.add(route);
    else if (state === stateCodes.scheduled && typeof extra === "number") hintDue(hints, extra - now);
    else if (state === stateCodes.running && kind === eventCodes["cancel-asked"] && typeof extra === "string")
      for (const id of ids) hints.cancels.push({ id, owner: extra });
    else if (state !== null && state >= stateCodes.completed) hints.finished.push(...ids);
  }
}

function hintDue(hints: Hints, inMs: number): void {
  const left = Math.max(0, inMs);
  if (hints.dueInMs === null || left < hints.dueInMs) hints.dueInMs = left;
}

/** The library's own answer: ready routes, earliest clock, finished ids, cancels. */
export function readHints(answer: unknown): Hints {
  const [routes, due, finished, cancels] = answer as [string, string, string, string];
  const hints = emptyHints();
  if (routes !== "") for (const route of routes.split(",")) hints.routes.add(Number(route));
  if (due !== "") hintDue(hints, Number(due));
  if (finished !== "") hints.finished = readTexts(finished);
  if (cancels !== "") {
    const texts = readTexts(cancels);
    for (let at = 0; at < texts.length; at += 2)
      hints.cancels.push({ id: texts[at] as string, owner: texts[at + 1] as string });
  }
  return hints;
}

function readTexts(list: string): string[] {
  const texts = list.split(fieldEnd);
  return list.includes("\x01") ? texts.map(unpackText) : texts;
}

/** A published hint: its sender, and what it tells. */
export function readMessage(message: string): { sender: string; hints: Hints } {
  const [head = "", finished = "", cancels = ""] = message.split(itemEnd);
  const [sender = "", routes = "", due = ""] = head.split(fieldEnd);
  return { sender, hints: readHints([routes, due, finished, cancels]) };
}

export function isEmpty({ routes, dueInMs, finished, cancels }: Hints): boolean {
  return routes.size === 0 && dueInMs === null && finished.length === 0 && cancels.length === 0;
}

export function hintsOf({ routes, dueInMs, finished, cancels }: Hints): Hint[] {
  const hints: Hint[] = [];
  if (routes.size > 0) hints.push({ kind: "ready", routes: [...routes] });
  if (dueInMs !== null) hints.push({ kind: "due", inMs: dueInMs });
  if (finished.length > 0) hints.push({ kind: "finished", ids: finished });
  const owners = new Map<string, string[]>();
  for (const { id, owner } of cancels) owners.set(owner, [...(owners.get(owner) ?? []), id]);
  for (const [owner, ids] of owners) hints.push({ kind: "cancel", ids, owner });
  return hints;
}
