/**
 * Reads the feed of one partition page by page and detects gaps. The records of a feed are numbered one by one. If a
 * page does not begin right after the last record, the records between may have been pruned.
 */
import { nowPosition, startPosition } from "../../model/events/event-cursor.ts";
import type { FeedPosition } from "../../model/events/event-cursor.ts";
import { MillraceError } from "../../model/error.ts";
import type { EventKind } from "../../model/events/event-kind.ts";
import type { FeedBundle } from "../../store/records.ts";
import type { Store } from "../../store/store.ts";
import type { RouteNames } from "./route-names.ts";

/** A record of the feed of one partition. */
export interface PartitionRecord {
  readonly partition: number;
  readonly number: number;
  readonly at: number;
  readonly bundles: readonly FeedBundle[];
  /** The number of events in the record, including those that were not asked for. */
  readonly count: number;
}

/** The aim for the events of one read; a record has from one to a thousand. */
const pageEvents = 5000;
const pageRecords = { min: 20, first: 100, max: 1000 };

type FeedStore = Pick<Store, "readFeed">;

/** The number of the newest record. */
export async function readEnd(store: FeedStore, partition: number): Promise<number> {
  return (await store.readFeed({ partition, after: -1, max: 0 })).cursor;
}

/**
 * Checks the position of a cursor. Throws `invalid-cursor` if the feed ends before it: the cursor is of another store,
 * or the store was emptied or lost writes.
 */
export async function checkPosition(
  store: FeedStore,
  partition: number,
  { after, skip }: FeedPosition,
): Promise<void> {
  if (after <= 0 && skip === 0) return;
  const end = await readEnd(store, partition);
  if (after + (skip > 0 ? 1 : 0) > end) throw beyondEnd();
}

export function beyondEnd(): MillraceError {
  return new MillraceError(
    "invalid-cursor",
    "The feed ends before this cursor: it is of another store, or the store was emptied or lost writes.",
  );
}

/** The kinds of feed events to read; undefined for all. */
export type FeedKinds = readonly EventKind[] | undefined;

interface PagesOptions {
  readonly partition: number;
  readonly position: FeedPosition;
  readonly kinds: () => FeedKinds;
}

export interface FeedPage {
  readonly records: readonly PartitionRecord[];
  /** There were no more records when the page was read. */
  readonly isEnd: boolean;
}

export class FeedPages {
  readonly partition: number;
  readonly #store: FeedStore;
  readonly #names: RouteNames;
  readonly #kinds: PagesOptions["kinds"];
  #position: FeedPosition;
  #max = pageRecords.first;

  constructor(
    { store, names }: { readonly store: FeedStore; readonly names: RouteNames },
    { partition, position, kinds }: PagesOptions,
  ) {
    this.#kinds = kinds;
    this.#store = store;
    this.#names = names;
    this.partition = partition;
    this.#position = position;
  }

  /** The position after the last record that was read. */
  get position(): FeedPosition {
    return this.#position;
  }

  /** The next records; none at the end of the feed. */
  async next(): Promise<FeedPage> {
    const { partition } = this;
    const { after } = this.#position;
    if (after === nowPosition.after) {
      this.#position = { after: await readEnd(this.#store, partition), skip: 0 };
      return { records: [], isEnd: true };
    }
    const max = this.#max;
    const kinds = this.#kinds();
    const asked = { partition, after: Math.max(0, after), max, isBundled: true };
    const page = await this.#store.readFeed(kinds === undefined ? asked : { ...asked, kinds });
    const records = page.records.map(({ number, at, bundles = [], count = 0 }) => {
      return { partition, number, at, bundles, count };
    });
    const [first, last] = [records[0], records.at(-1)];
    if (first === undefined || last === undefined) return { records, isEnd: true };
    if (after !== startPosition.after && first.number !== after + 1) await this.#checkKept(after);
    // A page counts as read once the names of all its routes are known.
    await this.#names.learn(records);
    this.#position = { after: last.number, skip: 0 };
    const events = records.reduce((sum, record) => sum + record.count, 0);
    const fitting = Math.floor((pageEvents * records.length) / Math.max(1, events));
    this.#max = Math.min(Math.max(fitting, pageRecords.min), pageRecords.max);
    return { records, isEnd: records.length < max };
  }

  /**
   * A number may be missing because its record could not be written (Redis, out of memory). If the position is still
   * kept, nothing after it was pruned.
   */
  async #checkKept(after: number): Promise<void> {
    const { partition } = this;
    const [oldest] = (await this.#store.readFeed({ partition, after: 0, max: 1 })).records;
    if (oldest === undefined || oldest.number > after) throw prunedPosition();
  }
}

function prunedPosition(): MillraceError {
  return new MillraceError(
    "cursor-expired",
    'Events after this cursor were pruned; read from "start" for those that are kept, or from "now".',
  );
}
