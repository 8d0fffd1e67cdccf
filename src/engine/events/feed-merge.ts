/**
 * All partitions of a feed as one list, by the time of their records: what somebody who is behind reads. A partition
 * that fails holds up nobody: it is passed over and tried again with the next round.
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
  /** Of the records: the next one to be given. */
  next: number;
  /** There was nothing more when it was read. */
  isEnd: boolean;
}

/** `failure`: a partition could not be read, and nothing is left of the others. */
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

  /** Where each partition was read to; records that were not given yet are counted as read. */
  get positions(): readonly FeedPosition[] {
    return this.#parts.map(({ pages }) => pages.position);
  }

  /** The next record. At the end, the partitions are read again with the next call. */
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

  /** Reads the partitions of which nothing is left to give. @returns why one of them could not be read. */
  async #fill(): Promise<unknown> {
    const empty = this.#parts.filter(({ records, next, isEnd }) => next === records.length && !isEnd);
    if (empty.length === 0) return undefined;
    // A store in this thread answers without a turn of the event loop: a long feed must leave flushes to others.
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
