/**
 * Turns records of the feed into the events that users get: filtered, with the names of their routes, each with its
 * cursor. Permit jobs are internal and left out.
 */
import { nowPosition, startPosition, writePosition, writeCursor } from "../../model/events/event-cursor.ts";
import type { FeedPosition } from "../../model/events/event-cursor.ts";
import {
  eventOfFlow,
  eventOfJob,
  firstEventOf,
  flowEventOf,
  secondEventOf,
} from "../../model/events/event.ts";
import type { EventName, MillraceEvent } from "../../model/events/event.ts";
import type { EventKind } from "../../model/events/event-kind.ts";
import { placeOfId } from "../../model/flow/flow-meta.ts";
import { permitQueue } from "../../model/limits/permit.ts";
import type { Route } from "../../model/routing/route.ts";
import { storeLimits } from "../../store/contract-limits.ts";
import { BundleWalk } from "../../store/packing/packed-events.ts";
import { escapeMark } from "../../store/packing/packed-text.ts";
import type { FeedBundle } from "../../store/records.ts";
import type { PartitionRecord } from "./feed-pages.ts";
import type { RouteNames } from "./route-names.ts";

export interface EventFilter {
  readonly kinds?: ReadonlySet<EventName>;
  readonly queue?: string;
  readonly name?: string;
  readonly job?: string;
  /** The id of a flow: its own events, and those of its members. */
  readonly flow?: string;
  /** Needs the jobs themselves (event-jobs.ts). */
  readonly tag?: string;
}

/** The position of a listener in each partition. It advances record by record. */
export class Positions {
  readonly #positions: FeedPosition[];

  constructor(positions: readonly FeedPosition[]) {
    this.#positions = [...positions];
  }

  get all(): readonly FeedPosition[] {
    return this.#positions;
  }

  get cursor(): string {
    return writeCursor(this.#positions);
  }

  /** How many events of this record the listener already had. */
  givenOf({ partition, number }: PartitionRecord): number {
    const { after, skip } = this.#positions[partition] as FeedPosition;
    return after + 1 === number || after === startPosition.after || after === nowPosition.after ? skip : 0;
  }

  /** The cursor at an event of the record: the text before and after the position in its partition. */
  around({ partition }: PartitionRecord): readonly [before: string, after: string] {
    if (this.#positions.length === 1) return ["e1-", ""];
    const texts = this.#positions.map(writePosition);
    const after = texts.slice(partition + 1).map((text) => `-${text}`);
    return [
      `e1-${texts
        .slice(0, partition)
        .map((text) => `${text}-`)
        .join("")}`,
      after.join(""),
    ];
  }

  read({ partition, number }: PartitionRecord): void {
    this.#positions[partition] = { after: number, skip: 0 };
  }
}

/** Whether any event of the record may pass the filter. False means that none does. */
export function mayHaveWanted({ bundles }: PartitionRecord, filter: EventFilter, names: RouteNames): boolean {
  const { job, flow } = filter;
  const routes = new WantedRoutes(filter, names);
  return bundles.some(({ kind, extra, route, packed }) => {
    if (names.isFlow(route)) return routes.of(route) !== null;
    const isKind = isWantedKind(filter, secondEventOf({ kind, extra })) || mayBeFirst(filter, kind);
    if (!isKind || route === noRoute) return isKind;
    // The id of a member begins with that of its flow. An id with escapes is compared later.
    const text = job ?? flow;
    const isId = text === undefined || packed.includes(text) || packed.includes(escapeMark);
    return isId && routes.of(route) !== null;
  });
}

/** Whether an event of this kind may become two events, of which the first is wanted. */
function mayBeFirst(filter: EventFilter, kind: EventKind): boolean {
  return isWantedKind(filter, kind === "claimed" ? kind : "started");
}

/** The name of a flow's event if the filter wants it. Events of parts are left out. */
function wantedFlowEvent(emitted: BundleWalk, filter: EventFilter): EventName | null {
  const { job, queue, flow = emitted.id } = filter;
  const isAboutFlow =
    job === undefined && queue === undefined && flow === emitted.id && placeOfId(emitted.id) === null;
  const kind = isAboutFlow ? flowEventOf(emitted) : null;
  return isWantedKind(filter, kind) ? kind : null;
}

/** Who names no kinds gets all but those of the output: a stream of frames writes fifty times a second. */
function isWantedKind({ kinds }: EventFilter, kind: EventName | null): boolean {
  return kind !== null && (kinds === undefined ? kind !== "output" : kinds.has(kind));
}

function isOfJob({ id }: BundleWalk, { job, flow }: EventFilter): boolean {
  return (job === undefined || job === id) && (flow === undefined || placeOfId(id)?.id === flow);
}

/** The routes that a filter wants. Events of one route often follow each other, so the last answer is kept. */
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

/** The subject of an event that a document emitted (PutEvent of store/records.ts), if the filter wants it. */
function subjectOfPut(
  { kind, id, extra }: BundleWalk,
  { queue, job, name, tag, flow }: EventFilter,
): object | null {
  if ([job, name, tag, flow].some((text) => text !== undefined)) return null;
  const noJob = { jobId: null, name: null, state: null, attempt: null };
  if (kind === "worker-joined" || kind === "worker-left")
    return queue === undefined ? { ...noJob, queue: null, worker: id } : null;
  if (kind === "budget-warned" || kind === "budget-breached")
    return queue === undefined ? { ...noJob, queue: null, ...ofBudget(id, extra) } : null;
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
  readonly positions: Positions;
}

/** The counts of a cursor as text, made once: writing a number for each event costs more than the event itself. */
const countTexts = Array.from({ length: 2 * storeLimits.callItemsMax + 1 }, (_, count) => String(count));

/**
 * The wanted events of a record, from the listener's position on. They are made one by one as they are taken: made all
 * at once, they outlive the collector's first rounds, which costs more than making them. Advances the positions past
 * the record. Each event of the feed counts as two in a cursor, because it may become two events.
 */
export class ShownRecord {
  readonly #bundles: readonly FeedBundle[];
  readonly #filter: EventFilter;
  readonly #names: RouteNames;
  readonly #routes: WantedRoutes;
  readonly #at: Date;
  /** How many of the cursor's counts the listener already had. */
  readonly #given: number;
  /** The cursor inside the record: the text before and after its count. */
  readonly #before: string;
  readonly #after: string;
  readonly #last: number;
  /** The cursor after the record. */
  readonly #lastCursor: string;
  /** At the last event that was returned, in the bundle before `#nextBundle`. */
  readonly #walk = new BundleWalk();
  #nextBundle = 0;
  /** Of the bundle: what its events are about. */
  #subject: "job" | "flow" | "put" = "job";
  #route: RouteName = unnamed;
  /** Of the bundle: the wanted event for each of its events, or the second one if it becomes two. */
  #second: EventName | null = null;
  /** Of the bundle: whether an event may become two, of which the first is wanted. */
  #mayBeFirst = false;
  /** The first of two events was returned, and the second one is next. */
  #isSecondNext = false;

  constructor(record: PartitionRecord, { filter, names, positions }: ShowOptions) {
    const [before, after] = positions.around(record);
    this.#bundles = record.bundles;
    this.#filter = filter;
    this.#names = names;
    this.#routes = new WantedRoutes(filter, names);
    this.#at = new Date(record.at);
    this.#given = positions.givenOf(record);
    this.#before = `${before}${record.number - 1}.`;
    this.#after = after;
    this.#last = 2 * record.count;
    this.#lastCursor = before + String(record.number) + after;
    positions.read(record);
  }

  /** The next event; null after the last one. */
  next(): MillraceEvent | null {
    const walk = this.#walk;
    if (this.#isSecondNext) {
      this.#isSecondNext = false;
      return this.#showSecond(walk);
    }
    for (;;) {
      while (walk.next()) {
        const shown = this.#show(walk);
        if (shown !== null) return shown;
      }
      const bundle = this.#bundles[this.#nextBundle++];
      if (bundle === undefined) return null;
      if (this.#isWanted(bundle)) walk.enter(bundle);
    }
  }

  /** Computes what holds for all events of the bundle. @returns whether any may be wanted. */
  #isWanted(bundle: FeedBundle): boolean {
    const { kind, route } = bundle;
    const filter = this.#filter;
    this.#subject = route === noRoute ? "put" : this.#names.isFlow(route) ? "flow" : "job";
    if (this.#subject !== "put") {
      const wanted = this.#routes.of(route);
      if (wanted === null) return false;
      this.#route = wanted;
    }
    if (this.#subject === "flow") return true;
    const second = secondEventOf(bundle);
    this.#second = isWantedKind(filter, second) ? second : null;
    this.#mayBeFirst = mayBeFirst(filter, kind);
    return this.#second !== null || this.#mayBeFirst;
  }

  #show(emitted: BundleWalk): MillraceEvent | null {
    const count = 2 * emitted.index + 1;
    if (count < this.#given) return null;
    if (this.#subject === "flow") return this.#showFlow(emitted);
    if (this.#subject === "put") return this.#showPut(emitted);
    if (!isOfJob(emitted, this.#filter)) return null;
    const first = this.#mayBeFirst && count > this.#given ? firstEventOf(emitted) : null;
    if (first === null) return this.#showSecond(emitted);
    this.#isSecondNext = this.#second !== null;
    return eventOfJob(first, emitted, this.#at, this.#route, this.#cursor(count));
  }

  #showSecond(emitted: BundleWalk): MillraceEvent | null {
    if (this.#second === null) return null;
    return eventOfJob(this.#second, emitted, this.#at, this.#route, this.#cursor(2 * emitted.index + 2));
  }

  #showPut(emitted: BundleWalk): MillraceEvent | null {
    const subject = this.#second === null ? null : subjectOfPut(emitted, this.#filter);
    if (subject === null) return null;
    const cursor = this.#cursor(2 * emitted.index + 2);
    return { kind: this.#second, cursor, at: this.#at, ...subject } as MillraceEvent;
  }

  #showFlow(emitted: BundleWalk): MillraceEvent | null {
    const kind = wantedFlowEvent(emitted, this.#filter);
    if (kind === null) return null;
    return eventOfFlow(kind, emitted, this.#at, this.#route, this.#cursor(2 * emitted.index + 2));
  }

  #cursor(count: number): string {
    if (count >= this.#last) return this.#lastCursor;
    const cursor = this.#before + (countTexts[count] ?? String(count));
    return this.#after === "" ? cursor : cursor + this.#after;
  }
}

/** All events of a record at once. */
export function showEvents(record: PartitionRecord, options: ShowOptions): MillraceEvent[] {
  const shown = new ShownRecord(record, options);
  const events: MillraceEvent[] = [];
  for (let event = shown.next(); event !== null; event = shown.next()) events.push(event);
  return events;
}

/** The fields of an event about a budget, which its put has packed. */
function ofBudget(budget: string, extra: unknown): object {
  const { until, ...rest } = JSON.parse(String(extra)) as { readonly until: number };
  return { budget, ...rest, until: new Date(until) };
}
