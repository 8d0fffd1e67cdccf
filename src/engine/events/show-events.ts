/**
 * Events as people get them, out of the records of the feed: filtered, with the names of their routes, each with the
 * cursor behind it. Permit jobs are nobody's business and are left out.
 */
import { nowPlace, startPlace, writePlace, writeCursor } from "../../model/event-cursor.ts";
import type { FeedPlace } from "../../model/event-cursor.ts";
import { eventsOfFeed, fieldsOf } from "../../model/event.ts";
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
    const isKind = eventsOfFeed(told).some((kind) => kind !== null && (filter.kinds?.has(kind) ?? true));
    return isKind && wantedSubject(told, filter, names) !== null;
  });
}

/** What an event is about, where the filter lets it pass, else null. */
function wantedSubject(
  told: FeedEvent,
  { job, queue, name, tag }: EventFilter,
  names: RouteNames,
): object | null {
  if (told.route === noRoute) {
    const isOfJob = job !== undefined || name !== undefined || tag !== undefined;
    return isOfJob ? null : subjectOfPut(told, queue);
  }
  if ((job ?? told.id) !== told.id) return null;
  const found = names.of(told.route) ?? unnamed;
  if ((queue ?? found.queue) !== found.queue || (name ?? found.name) !== found.name) return null;
  if (found.queue === permitQueue) return null;
  return { jobId: told.id, queue: found.queue, name: found.name, state: told.state, attempt: told.attempt };
}

/** Of an event that a document tells (PutEvent of store/records.ts). */
function subjectOfPut({ kind, id, extra }: FeedEvent, queue: string | undefined): object | null {
  const noJob = { jobId: null, name: null, state: null, attempt: null };
  if (kind === "worker-joined" || kind === "worker-left")
    return queue === undefined ? { ...noJob, queue: null, worker: id } : null;
  if ((queue ?? id) !== id) return null;
  if (kind !== "queue-changed") return { ...noJob, queue: id };
  return { ...noJob, queue: id, settings: JSON.parse(String(extra)) as unknown };
}

const noRoute = 0;
const unnamed = { queue: "", name: "" };

/**
 * The events of a record behind those that were given before, and moves the places behind it. Each event of the feed has
 * two places in a cursor, because it may be told as two (eventsOfFeed).
 */
export function showEvents(
  record: PartitionRecord,
  {
    filter,
    names,
    places,
  }: { readonly filter: EventFilter; readonly names: RouteNames; readonly places: Places },
): MillraceEvent[] {
  const { number, at, events } = record;
  const last = 2 * (record.count ?? events.length);
  const shown: MillraceEvent[] = [];
  const given = places.givenOf(record);
  let around: readonly [string, string] | null = null;
  let time: Date | null = null;
  for (const [position, told] of events.entries()) {
    const index = told.index ?? position;
    if (2 * index + 2 <= given) continue;
    const kinds = eventsOfFeed(told);
    const [first = null, second = null] = kinds;
    if (filter.kinds !== undefined && !isOneOf(filter.kinds, first) && !isOneOf(filter.kinds, second))
      continue;
    const subject = wantedSubject(told, filter, names);
    if (subject === null) continue;
    around ??= places.around(record);
    time ??= new Date(at);
    for (let half = 0; half < 2; half++) {
      const kind = half === 0 ? first : second;
      const count = 2 * index + half + 1;
      if (kind === null || count <= given || !(filter.kinds?.has(kind) ?? true)) continue;
      const place = count >= last ? String(number) : `${number - 1}.${count}`;
      const cursor = around[0] + place + around[1];
      shown.push({ kind, cursor, at: time, ...subject, ...fieldsOf(kind, told, at) } as MillraceEvent);
    }
  }
  places.read(record);
  return shown;
}

function isOneOf(kinds: ReadonlySet<EventName>, kind: EventName | null): boolean {
  return kind !== null && kinds.has(kind);
}
