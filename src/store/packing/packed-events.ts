/**
 * The packed body of a feed record, equal in every store: events that differ only in their job are one bundle. RS and
 * US are the control characters of packed-text.ts.
 *
 *  body    bundle RS bundle RS ...
 *  bundle  event code US rev US route US state code US attempt US extra US id US id ...
 *          event code "+" US ... US id US note US id US note ...    if jobs have notes; an empty one is none
 *          event code "+!" US ...    the same, without the mark of a start that was not emitted, with which all
 *                                   notes begin
 *  extra   nothing, "n" and a number, or "s" and a packed text
 *  state   empty once the job was deleted
 */
import { eventCodes, eventOfCode } from "../../model/events/event-kind.ts";
import type { EventKind } from "../../model/events/event-kind.ts";
import { stateCodes, stateOfCode } from "../../model/job/job-state.ts";
import type { JobState } from "../../model/job/job-state.ts";
import { hintEvent } from "../watch/hints.ts";
import type { CodedEvent, Hints } from "../watch/hints.ts";
import { escapeMark, fieldEnd, itemEnd, packJoined, packText, unpackText } from "./packed-text.ts";
import type { FeedRequest } from "../operations.ts";
import type { FeedBundle, FeedEvent, FeedRecord, PutEvent } from "../records.ts";
import { unreportedStart } from "../rules/emit.ts";

/** Events that differ only in their job. */
export interface EventBundle extends CodedEvent {
  readonly rev: number;
  readonly attempt: number;
  /** One per job, "" for none; absent if no job has one. */
  readonly notes?: readonly string[];
}

/** Follows the code of the event of a bundle with notes. */
export const notedMark = "+";
/**
 * And follows that, if every note of the bundle begins with the mark of a start that was not emitted (rules/emit.ts):
 * the notes are then written without it.
 */
export const unreportedMark = "!";
const unreportedNotes = `${notedMark}${unreportedMark}`;

/**
 * The common prefix of the notes of a bundle, by the code of its event and its marks; null for a bundle without notes.
 */
function noteStartOf(code: string): string | null {
  if (code.endsWith(unreportedNotes)) return unreportedStart;
  return code.endsWith(notedMark) ? "" : null;
}

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

/** Whether jobs may have left `running` by this event, which frees what they held. */
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

/** Without the notes. */
function bundlesOf(packed: string, readRoute: ReadRoute): EventBundle[] {
  if (packed === "") return [];
  const isEscaped = packed.includes(escapeMark);
  return packed.split(itemEnd).map((bundle) => readBundle(bundle, readRoute, isEscaped));
}

function readBundle(bundle: string, readRoute: ReadRoute, isEscaped: boolean): EventBundle {
  const [kind = "", rev, route = "", state, attempt, extra = "", ...rest] = bundle.split(fieldEnd);
  const ids = noteStartOf(kind) === null ? rest : everyId(rest);
  return {
    kind: Number.parseInt(kind, 10),
    rev: Number(rev),
    route: readRoute(route),
    state: state === "" ? null : Number(state),
    attempt: Number(attempt),
    extra: readExtra(extra),
    ids: isEscaped ? ids.map(unpackText) : ids,
  };
}

/** The fields of a bundle before its ids. */
const headFields = 6;

/** The number of events of the packed ids. */
function countOf(packed: string, isNoted: boolean): number {
  let texts = 1;
  for (let at = packed.indexOf(fieldEnd); at !== -1; at = packed.indexOf(fieldEnd, at + 1)) texts += 1;
  return isNoted ? texts / 2 : texts;
}

/** The ids of a list that alternates ids and notes. */
function everyId(texts: readonly string[]): string[] {
  const found: string[] = [];
  for (let at = 0; at < texts.length; at += 2) found.push(texts[at] as string);
  return found;
}

function readExtra(extra: string): string | number | null {
  if (extra === "") return null;
  return extra.startsWith("n") ? Number(extra.slice(1)) : unpackText(extra.slice(1));
}

/** Reads the heads of the bundles; their ids are counted and stay as they are. */
function readHeads(packed: string, kinds: FeedRequest["kinds"], readRoute: ReadRoute) {
  const codes = kinds === undefined ? null : new Set<number>(kinds.map((kind) => eventCodes[kind]));
  const bundles: FeedBundle[] = [];
  let count = 0;
  for (const bundle of packed === "" ? [] : packed.split(itemEnd)) {
    const [code = "", rev = "", route = "", state = "", attempt = "", extra = ""] = bundle.split(
      fieldEnd,
      headFields,
    );
    const headChars = code.length + rev.length + route.length + state.length + attempt.length + extra.length;
    const ids = bundle.slice(headChars + headFields);
    const noteStart = noteStartOf(code);
    const first = count;
    const events = countOf(ids, noteStart !== null);
    count += events;
    const kind = Number.parseInt(code, 10);
    if (codes !== null && !codes.has(kind)) continue;
    bundles.push({
      kind: eventOfCode(kind),
      rev: Number(rev),
      route: readRoute(route),
      state: state === "" ? null : stateOfCode(Number(state)),
      attempt: Number(attempt),
      extra: readExtra(extra),
      first,
      count: events,
      packed: ids,
      noteStart,
    });
  }
  return { bundles, count };
}

/**
 * Walks through the events of bundles, and holds one at a time in its own fields, because a listener in a drain reads
 * millions. Without a bundle, or after its last event, there is none.
 */
export class BundleWalk {
  kind: EventKind = "submitted";
  id = "";
  rev = 0;
  route = 0;
  state: JobState | null = null;
  attempt = 0;
  extra: string | number | null = null;
  /** Empty for none. */
  note = "";
  /** Its index in the record. */
  index = -1;
  #packed = "";
  #noteStart: string | null = null;
  #isEscaped = false;
  /** Where the next id begins. */
  #at = 0;
  #left = 0;

  /** Moves before the first event of the bundle. */
  enter(bundle: FeedBundle): void {
    this.kind = bundle.kind;
    this.rev = bundle.rev;
    this.route = bundle.route;
    this.state = bundle.state;
    this.attempt = bundle.attempt;
    this.extra = bundle.extra;
    this.note = "";
    this.index = bundle.first - 1;
    this.#packed = bundle.packed;
    this.#noteStart = bundle.noteStart;
    this.#isEscaped = bundle.packed.includes(escapeMark);
    this.#at = 0;
    this.#left = bundle.count;
  }

  /** Goes to the next event of the bundle. @returns false if there is none. */
  next(): boolean {
    if (this.#left === 0) return false;
    this.#left -= 1;
    this.index += 1;
    this.id = this.#text();
    if (this.#noteStart !== null) this.note = this.#noteStart + this.#text();
    return true;
  }

  #text(): string {
    const end = this.#packed.indexOf(fieldEnd, this.#at);
    const text = end === -1 ? this.#packed.slice(this.#at) : this.#packed.slice(this.#at, end);
    this.#at += text.length + 1;
    return this.#isEscaped ? unpackText(text) : text;
  }
}

/** What `readFeed` answers of a record: all its events, those of the requested kinds, or bundles. */
export function readRecord(
  packed: string,
  { kinds, isBundled = false }: Pick<FeedRequest, "kinds" | "isBundled">,
  readRoute: ReadRoute = Number,
): Pick<FeedRecord, "events" | "bundles" | "count"> {
  const { bundles, count } = readHeads(packed, kinds, readRoute);
  if (isBundled) return { events: [], bundles, count };
  const events = eventsOf(bundles, kinds !== undefined);
  return kinds === undefined ? { events } : { events, count };
}

/** All events of packed text. */
export function readEvents(packed: string, readRoute: ReadRoute = Number): FeedEvent[] {
  return eventsOf(readHeads(packed, undefined, readRoute).bundles, false);
}

function eventsOf(bundles: readonly FeedBundle[], isPart: boolean): FeedEvent[] {
  const events: FeedEvent[] = [];
  const walk = new BundleWalk();
  for (const bundle of bundles) {
    walk.enter(bundle);
    while (walk.next()) {
      const { kind, id, rev, route, state, attempt, extra, note, index } = walk;
      const noted = note === "" ? {} : { note };
      events.push({ kind, id, rev, route, state, attempt, extra, ...noted, ...(isPart ? { index } : {}) });
    }
  }
  return events;
}

/** Adds the hints that follow from packed events. `now` is the time of the call that emitted them. */
export function hintEvents(hints: Hints, packed: string, now: number, readRoute: ReadRoute = Number): void {
  for (const bundle of bundlesOf(packed, readRoute)) hintEvent(hints, bundle, now);
}
