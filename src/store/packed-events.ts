/**
 * The packed body of a feed record, as every store puts it together: events that differ only in their job are one
 * bundle. RS and US are the control characters of packed-text.ts.
 *
 *  body    bundle RS bundle RS ...
 *  bundle  event code US rev US route US state code US attempt US extra US id US id ...
 *          event code "+" US ... US id US note US id US note ...    where jobs have notes; an empty one is none
 *  extra   nothing, "n" and a number, or "s" and a packed text
 *  state   empty once the job was removed
 */
import { eventCodes, eventOfCode } from "../model/event-kind.ts";
import { stateCodes, stateOfCode } from "../model/job-state.ts";
import { hintEvent } from "./hints.ts";
import type { CodedEvent, Hints } from "./hints.ts";
import { escapeMark, fieldEnd, itemEnd, packJoined, packText, unpackText } from "./packed-text.ts";
import type { FeedRequest } from "./operations.ts";
import type { FeedEvent, FeedRecord, PutEvent } from "./records.ts";

/** Events that differ only in their job. */
export interface EventBundle extends CodedEvent {
  readonly rev: number;
  readonly attempt: number;
  /** By job, "" for none; left out where no job has one. */
  readonly notes?: readonly string[];
}

/** Behind the code of the event of a bundle with notes. */
export const notedMark = "+";

/** The bundle of an event of no job. */
export function bundleOfPut({
  kind,
  subject,
  extra,
}: PutEvent): Omit<EventBundle, "notes"> & { readonly ids: string[] } {
  return { kind: eventCodes[kind], rev: 0, route: 0, state: null, attempt: 0, extra, ids: [subject] };
}

export function packEvents(
  bundles: readonly EventBundle[],
  routeText: (route: number) => string = String,
): string {
  return bundles.map((bundle) => packBundle(bundle, routeText(bundle.route))).join(itemEnd);
}

function packBundle({ kind, rev, state, attempt, extra, ids, notes }: EventBundle, route: string): string {
  const head = [rev, route, state ?? "", attempt, packExtra(extra)].join(fieldEnd);
  return notes === undefined
    ? [kind, head, packJoined(ids)].join(fieldEnd)
    : [`${kind}${notedMark}`, head, packJoined(alternately(ids, notes))].join(fieldEnd);
}

function alternately(ids: readonly string[], notes: readonly string[]): readonly string[] {
  const fields: string[] = [];
  for (let at = 0; at < ids.length; at++) fields.push(ids[at] as string, notes[at] as string);
  return fields;
}

function packExtra(extra: string | number | null): string {
  if (extra === null) return "";
  return typeof extra === "number" ? `n${extra}` : `s${packText(extra)}`;
}

/** Whether jobs may have left `running` by this event, so that what they held is free. */
export function mayFree({ state, attempt }: Pick<EventBundle, "state" | "attempt">): boolean {
  return attempt > 0 && state !== stateCodes.running;
}

/** The routes of packed events by which jobs may have left `running`. */
export function routesLeft(packed: string): number[] {
  return bundlesOf(packed, Number)
    .filter(mayFree)
    .map(({ route }) => route);
}

/** How a store writes the number of a route. */
type ReadRoute = (text: string) => number;

function bundlesOf(packed: string, readRoute: ReadRoute): EventBundle[] {
  if (packed === "") return [];
  const isEscaped = packed.includes(escapeMark);
  return packed.split(itemEnd).map((bundle) => readBundle(bundle, readRoute, isEscaped));
}

function readBundle(bundle: string, readRoute: ReadRoute, isEscaped: boolean): EventBundle {
  const [kind = "", rev, route = "", state, attempt, extra = "", ...rest] = bundle.split(fieldEnd);
  const isNoted = kind.endsWith(notedMark);
  const ids = isNoted ? everySecond(rest, 0) : rest;
  return {
    kind: Number.parseInt(kind, 10),
    rev: Number(rev),
    route: readRoute(route),
    state: state === "" ? null : Number(state),
    attempt: Number(attempt),
    extra: readExtra(extra),
    ids: isEscaped ? ids.map(unpackText) : ids,
    ...(isNoted ? { notes: isEscaped ? everySecond(rest, 1).map(unpackText) : everySecond(rest, 1) } : {}),
  };
}

/** The fields of a bundle before its ids. */
const headFields = 6;

/** How many events a packed bundle has; none of them is read. */
function countOf(bundle: string): number {
  let ends = 0;
  for (let at = bundle.indexOf(fieldEnd); at !== -1; at = bundle.indexOf(fieldEnd, at + 1)) ends += 1;
  const behindHead = ends - headFields + 1;
  return bundle[bundle.indexOf(fieldEnd) - 1] === notedMark ? behindHead / 2 : behindHead;
}

function everySecond(texts: readonly string[], from: 0 | 1): string[] {
  const found: string[] = [];
  for (let at = from; at < texts.length; at += 2) found.push(texts[at] as string);
  return found;
}

function readExtra(extra: string): string | number | null {
  if (extra === "") return null;
  return extra.startsWith("n") ? Number(extra.slice(1)) : unpackText(extra.slice(1));
}

export function readEvents(packed: string, readRoute: ReadRoute = Number): FeedEvent[] {
  return bundlesOf(packed, readRoute).flatMap(eventsOf);
}

/** Written out field by field: copying a shared part into each event takes three times as long. */
function eventsOf(bundle: EventBundle): FeedEvent[] {
  const { rev, route, attempt, extra, ids, notes } = bundle;
  const kind = eventOfCode(bundle.kind);
  const state = bundle.state === null ? null : stateOfCode(bundle.state);
  const events: FeedEvent[] = [];
  for (let at = 0; at < ids.length; at++) {
    const id = ids[at] as string;
    const note = notes?.[at] ?? "";
    if (note === "") events.push({ kind, id, rev, route, state, attempt, extra });
    else events.push({ kind, id, rev, route, state, attempt, extra, note });
  }
  return events;
}

/** What `readFeed` answers of a record: all of it, or the events of the kinds that were asked for. */
export function readRecord(
  packed: string,
  kinds: FeedRequest["kinds"],
  readRoute: ReadRoute = Number,
): Pick<FeedRecord, "events" | "count"> {
  if (kinds === undefined) return { events: readEvents(packed, readRoute) };
  const codes = new Set<number>(kinds.map((kind) => eventCodes[kind]));
  const isEscaped = packed.includes(escapeMark);
  const events: FeedEvent[] = [];
  let count = 0;
  for (const bundle of packed === "" ? [] : packed.split(itemEnd)) {
    const first = count;
    count += countOf(bundle);
    if (!codes.has(Number.parseInt(bundle, 10))) continue;
    for (const [at, event] of eventsOf(readBundle(bundle, readRoute, isEscaped)).entries())
      events.push({ ...event, index: first + at });
  }
  return { events, count };
}

/** Adds the hints that follow from packed events. `now` is the time of the call that told them. */
export function hintEvents(hints: Hints, packed: string, now: number, readRoute: ReadRoute = Number): void {
  for (const bundle of bundlesOf(packed, readRoute)) hintEvent(hints, bundle, now);
}
