/**
 * Events as people get them, out of the records of the feed: filtered, with the names of their routes, each with the
 * cursor behind it. Permit jobs are nobody's business and are left out.
 */
import { nowPlace, startPlace, writePlace, writeCursor } from "../../model/event-cursor.ts";
import type { FeedPlace } from "../../model/event-cursor.ts";
import { eventOfFlow, eventOfJob, firstEventOf, flowEventOf, secondEventOf } from "../../model/event.ts";
import type { EventName, MillraceEvent } from "../../model/event.ts";
import { placeOfId } from "../../model/flow/flow-meta.ts";
import { permitQueue } from "../../model/permit.ts";
import type { Route } from "../../model/route.ts";
import type { FeedEvent } from "../../store/records.ts";
import type { PartitionRecord } from "./feed-pages.ts";
import type { RouteNames } from "./route-names.ts";

export interface EventFilter {
  readonly kinds?: ReadonlySet<EventName>;
  readonly queue?: string;
  readonly name?: string;
  readonly job?: string;
  /** The id of a flow: its own events, and those of its members. */
  readonly flow?: string;
  /** Needs the jobs themselves (job-tags.ts). */
  readonly tag?: string;
}

/** Where a listener stands: a place in each partition, moved on record by record. */
export class Places {
  readonly #places: FeedPlace[];

  constructor(places: readonly FeedPlace[]) {
    this.#places = [...places];
  }

  get all(): readonly FeedPlace[] {
    return this.#places;
  }

  get cursor(): string {
    return writeCursor(this.#places);
  }

  /** How many events of this record were given before. */
  givenOf({ partition, number }: PartitionRecord): number {
    const { after, skip } = this.#places[partition] as FeedPlace;
    return after + 1 === number || after === startPlace.after || after === nowPlace.after ? skip : 0;
  }

  /** The cursor at an event of the record: what stands before and behind the place in its partition. */
  around({ partition }: PartitionRecord): readonly [before: string, behind: string] {
    if (this.#places.length === 1) return ["e1-", ""];
    const texts = this.#places.map(writePlace);
    const behind = texts.slice(partition + 1).map((text) => `-${text}`);
    return [
      `e1-${texts
        .slice(0, partition)
        .map((text) => `${text}-`)
        .join("")}`,
      behind.join(""),
    ];
  }

  read({ partition, number }: PartitionRecord): void {
    this.#places[partition] = { after: number, skip: 0 };
  }
}

/** Whether an event of the record is one that the filter lets pass, its tag aside. */
export function hasWanted({ events }: PartitionRecord, filter: EventFilter, names: RouteNames): boolean {
  const routes = new WantedRoutes(filter, names);
  return events.some((told) => {
    if (names.isFlow(told.route))
      return wantedFlowEvent(told, filter) !== null && routes.of(told.route) !== null;
    const isKind = isWantedKind(filter, firstEventOf(told)) || isWantedKind(filter, secondEventOf(told));
    if (!isKind) return false;
    return told.route === noRoute
      ? subjectOfPut(told, filter) !== null
      : isOfJob(told, filter) && routes.of(told.route) !== null;
  });
}

/** As which event of a whole flow it is told, where the filter lets it pass; those of its parts are not. */
function wantedFlowEvent(told: FeedEvent, filter: EventFilter): EventName | null {
  const { job, queue, flow = told.id } = filter;
  const isAboutFlow =
    job === undefined && queue === undefined && flow === told.id && placeOfId(told.id) === null;
  const kind = isAboutFlow ? flowEventOf(told) : null;
  return isWantedKind(filter, kind) ? kind : null;
}

function isWantedKind({ kinds }: EventFilter, kind: EventName | null): boolean {
  return kind !== null && (kinds === undefined || kinds.has(kind));
}

function isOfJob({ id }: FeedEvent, { job, flow }: EventFilter): boolean {
  return (job === undefined || job === id) && (flow === undefined || placeOfId(id)?.id === flow);
}

/** Which routes a filter lets pass. Events of one route follow each other in a record, so the last answer is kept. */
class WantedRoutes {
  readonly #filter: EventFilter;
  readonly #names: RouteNames;
  #last = noRoute;
  #found: RouteName | null = null;

  constructor(filter: EventFilter, names: RouteNames) {
    this.#filter = filter;
    this.#names = names;
  }

  of(route: number): RouteName | null {
    if (route !== this.#last) [this.#last, this.#found] = [route, this.#wanted(route)];
    return this.#found;
  }

  #wanted(route: number): RouteName | null {
    const { queue, name } = this.#filter;
    const found = this.#names.of(route) ?? unnamed;
    if ((queue ?? found.queue) !== found.queue || (name ?? found.name) !== found.name) return null;
    return found.queue === permitQueue ? null : found;
  }
}

/** What an event is about that a document tells (PutEvent of store/records.ts), where the filter lets it pass. */
function subjectOfPut(
  { kind, id, extra }: FeedEvent,
  { queue, job, name, tag, flow }: EventFilter,
): object | null {
  if ([job, name, tag, flow].some((text) => text !== undefined)) return null;
  const noJob = { jobId: null, name: null, state: null, attempt: null };
  if (kind === "worker-joined" || kind === "worker-left")
    return queue === undefined ? { ...noJob, queue: null, worker: id } : null;
  if ((queue ?? id) !== id) return null;
  if (kind !== "queue-changed") return { ...noJob, queue: id };
  return { ...noJob, queue: id, settings: JSON.parse(String(extra)) as unknown };
}

const noRoute = 0;
type RouteName = Pick<Route, "queue" | "name">;
const unnamed: RouteName = { queue: "", name: "" };

interface ShowOptions {
  readonly filter: EventFilter;
  readonly names: RouteNames;
  readonly places: Places;
}

/**
 * The events of a record behind those that were given before, and moves the places behind it. Each event of the feed has
 * two places in a cursor, because it may be told as two.
 */
export function showEvents(record: PartitionRecord, { filter, names, places }: ShowOptions): MillraceEvent[] {
  const { number, events } = record;
  const given = places.givenOf(record);
  const routes = new WantedRoutes(filter, names);
  const shown: MillraceEvent[] = [];
  const at = new Date(record.at);
  const last = 2 * (record.count ?? events.length);
  const [before, behind] = places.around(record);
  const inRecord = `${before}${number - 1}.`;
  const cursorAt = (count: number): string =>
    count >= last ? before + String(number) + behind : inRecord + String(count) + behind;
  for (let position = 0; position < events.length; position++) {
    const told = events[position] as FeedEvent;
    const count = 2 * (told.index ?? position) + 1;
    if (count < given) continue;
    if (names.isFlow(told.route)) {
      const kind = wantedFlowEvent(told, filter);
      const route = kind === null ? null : routes.of(told.route);
      if (kind !== null && route !== null)
        shown.push(eventOfFlow(kind, told, { at, route, cursor: cursorAt(count + 1) }));
      continue;
    }
    const [first, second] = [firstEventOf(told), secondEventOf(told)];
    const isFirst = count > given && isWantedKind(filter, first);
    const isSecond = isWantedKind(filter, second);
    if (!isFirst && !isSecond) continue;
    if (told.route === noRoute) {
      const subject = subjectOfPut(told, filter);
      if (subject !== null)
        shown.push({ kind: second, cursor: cursorAt(count + 1), at, ...subject } as MillraceEvent);
      continue;
    }
    const route = isOfJob(told, filter) ? routes.of(told.route) : null;
    if (route === null) continue;
    if (isFirst) shown.push(eventOfJob(first as EventName, told, { at, route, cursor: cursorAt(count) }));
    if (isSecond)
      shown.push(eventOfJob(second as EventName, told, { at, route, cursor: cursorAt(count + 1) }));
  }
  places.read(record);
  return shown;
}
