/**
 * Merges the feeds of all partitions into one, by the time of their records, for listeners that are behind. A partition
 * that fails holds up no other: it is skipped and tried again in the next round.
 */
import { isMillraceError } from "../../model/error.ts";
import type { FeedPosition } from "../../model/events/event-cursor.ts";
import type { Platform } from "../../platform/platform.ts";
import { FeedPages } from "./feed-pages.ts";
import type { FeedKinds, PartitionRecord } from "./feed-pages.ts";
import type { LiveFeed } from "./live-feed.ts";
import { earliest } from "./merge-by-time.ts";

interface Part {
  readonly pages: FeedPages;
  records: readonly PartitionRecord[];
  /** The index of the next record to return. */
  next: number;
  /** The partition had no more records when it was read. */
  isEnd: boolean;
}

/** `failure`: a partition could not be read, and no records of the others are left. */
type Merged =
  | { readonly kind: "record"; readonly record: PartitionRecord }
  | { readonly kind: "end" }
  | { readonly kind: "failure"; readonly error: unknown };

export class FeedMerge {
  readonly #parts: readonly Part[];
  readonly #platform: Pick<Platform, "defer">;

  constructor(
    live: Pick<LiveFeed, "store" | "names">,
    platform: Pick<Platform, "defer">,
    { positions, kinds }: { readonly positions: readonly FeedPosition[]; readonly kinds: FeedKinds },
  ) {
    this.#platform = platform;
    this.#parts = positions.map((position, partition) => ({
      pages: new FeedPages(live, { partition, position, kinds: () => kinds }),
      records: [],
      next: 0,
      isEnd: false,
    }));
  }

  /** The positions read up to; records that were read and not returned yet are included. */
  get positions(): readonly FeedPosition[] {
    return this.#parts.map(({ pages }) => pages.position);
  }

  /** The next record. After the end, the next call reads the partitions again. */
  async next(): Promise<Merged> {
    const error = await this.#fill();
    const first = earliest(this.#parts);
    if (first !== null) {
      const record = first.records[first.next] as PartitionRecord;
      first.next += 1;
      return { kind: "record", record };
    }
    for (const part of this.#parts) part.isEnd = false;
    return error === undefined ? { kind: "end" } : { kind: "failure", error };
  }

  /** Reads the partitions that have no record left. @returns the error of a partition that could not be read. */
  async #fill(): Promise<unknown> {
    const empty = this.#parts.filter(({ records, next, isEnd }) => next === records.length && !isEnd);
    if (empty.length === 0) return undefined;
    // A store on this thread answers within the same turn of the event loop, and a long feed must let other flushes
    // run.
    await new Promise<void>((resolve) => this.#platform.defer(resolve));
    let failure: unknown;
    await Promise.all(
      empty.map(async (part) => {
        try {
          const { records, isEnd } = await part.pages.next();
          Object.assign(part, { records, isEnd, next: 0 });
        } catch (error) {
          if (isMillraceError(error, "cursor-expired")) throw error;
          failure = error;
        }
      }),
    );
    return failure;
  }
}
