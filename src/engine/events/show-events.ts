/**
 * Events as people get them, out of the records of the feed: filtered, with the names of their routes, each with the
 * cursor behind it. Permit jobs are nobody's business and are left out.
 */
import { nowPlace, startPlace, writePlace, writeCursor } from "../../model/event-cursor.ts";
import type { FeedPlace } from "../../model/event-cursor.ts";
import { eventOfFeed, fieldsOf } from "../../model/event.ts";
import type { EventName, MillraceEvent } from "../../model/event.ts";
import { permitQueue } from "../../model/permit.ts";
import type { FeedEvent } from "../../store/records.ts";
import type { PartitionRecord } from "./feed-pages.ts";
import type { RouteNames } from "./route-names.ts";

export interface EventFilter {
  readonly kinds?: ReadonlySet<EventName>;
  readonly queue?: string;
  readonly name?: string;
  readonly job?: string;
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
  return events.some((told) => {
    const kind = eventOfFeed(told.kind);
    return kind !== null && wantedRoute(told, kind, filter, names) !== null;
  });
}

/** Queue and name of an event that the filter lets pass, else null. */
function wantedRoute(
  { id, route }: FeedEvent,
  kind: EventName,
  { kinds, job, queue, name }: EventFilter,
  names: RouteNames,
): { readonly queue: string; readonly name: string } | null {
  if ((kinds !== undefined && !kinds.has(kind)) || (job ?? id) !== id) return null;
  const found = names.of(route) ?? unnamed;
  if ((queue ?? found.queue) !== found.queue || (name ?? found.name) !== found.name) return null;
  return found.queue === permitQueue ? null : found;
}

const unnamed = { queue: "", name: "" };

/** The events of a record behind those that were given before, and moves the places behind it. */
export function showEvents(
  record: PartitionRecord,
  {
    filter,
    names,
    places,
  }: { readonly filter: EventFilter; readonly names: RouteNames; readonly places: Places },
): MillraceEvent[] {
  const { number, at, events } = record;
  const shown: MillraceEvent[] = [];
  const given = places.givenOf(record);
  let around: readonly [string, string] | null = null;
  let time: Date | null = null;
  for (let index = given; index < events.length; index++) {
    const told = events[index] as (typeof events)[number];
    const kind = eventOfFeed(told.kind);
    const route = kind === null ? null : wantedRoute(told, kind, filter, names);
    if (kind === null || route === null) continue;
    around ??= places.around(record);
    time ??= new Date(at);
    const place = index + 1 === events.length ? String(number) : `${number - 1}.${index + 1}`;
    const { id: jobId, state, attempt, extra } = told;
    const cursor = around[0] + place + around[1];
    const shared = { cursor, kind, at: time, jobId, queue: route.queue, name: route.name, state, attempt };
    shown.push({ ...shared, ...fieldsOf({ kind, state, attempt, extra }, at) } as MillraceEvent);
  }
  places.read(record);
  return shown;
}
