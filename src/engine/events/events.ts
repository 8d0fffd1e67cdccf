/**
 * The events of a store in this process: one reader of new events (live-feed.ts), and one subscription per listener.
 * All of them end when Millrace closes.
 */
import type { FeedPosition } from "../../model/events/event-cursor.ts";
import { nowPosition, readCursor, startPosition } from "../../model/events/event-cursor.ts";
import { isMillraceError } from "../../model/error.ts";
import type { Needs } from "../services.ts";
import { checkPosition, readEnd } from "./feed-pages.ts";
import { EventJobs } from "./event-jobs.ts";
import { LiveFeed } from "./live-feed.ts";
import type { EventFilter } from "./show-events.ts";
import { Subscription } from "./subscription.ts";

type EventsNeeds = Needs<"store" | "platform" | "coder" | "repeated" | "policies">;

export interface SubscribeOptions {
  /** "now", "start", or a cursor. */
  readonly from: string;
  readonly filter: EventFilter;
  /** Whether the subscription keeps the process alive. */
  readonly keepsAlive: boolean;
}

export class Events {
  readonly #live: LiveFeed;
  readonly #jobs: EventJobs;
  readonly #needs: EventsNeeds;
  readonly #open = new Set<Subscription>();
  isClosed = false;

  constructor(needs: EventsNeeds) {
    this.#needs = needs;
    this.#live = new LiveFeed(needs);
    this.#jobs = new EventJobs(needs);
  }

  /** Begins at once: no event after this call is missed, however late the first one is taken. */
  subscribe({ from, filter, keepsAlive }: SubscribeOptions): Subscription {
    const { platform, repeated } = this.#needs;
    const begin = this.#begin(from);
    const around = { live: this.#live, jobs: this.#jobs, platform, repeated };
    const ended = (): void => void this.#open.delete(subscription);
    const subscription = new Subscription(around, { filter, begin, keepsAlive, ended });
    this.#open.add(subscription);
    return subscription;
  }

  close(): void {
    this.isClosed = true;
    for (const subscription of [...this.#open]) subscription.end();
  }

  #begin(from: string): Promise<readonly FeedPosition[]> {
    const { store } = this.#needs;
    const { partitions } = this.#live;
    const numbers = Array.from({ length: partitions }, (_, number) => number);
    if (from === "start") return Promise.resolve(numbers.map(() => startPosition));
    if (from === "now") return Promise.all(numbers.map((number) => this.#positionNow(number)));
    const positions = readCursor(from, partitions);
    const check = async (position: FeedPosition, number: number): Promise<FeedPosition> => {
      await checkPosition(store, number, position).catch((error: unknown) => {
        // If a partition is away, its position is checked by the first read.
        if (isMillraceError(error, "invalid-cursor")) throw error;
      });
      return position;
    };
    return Promise.all(positions.map(check));
  }

  /** If the partition is away, the position is its end when it is back. */
  async #positionNow(partition: number): Promise<FeedPosition> {
    try {
      return { after: await readEnd(this.#needs.store, partition), skip: 0 };
    } catch {
      return nowPosition;
    }
  }
}
