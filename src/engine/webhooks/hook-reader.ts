/**
 * Reads the feed for one hook and makes its deliveries. A batch of deliveries and the position behind them are one
 * submit, under the versions of the position and of the hooks: a process that dies before it has done nothing, and of
 * two processes that read at once one writes. So each event makes one delivery, whoever is killed.
 *
 *  position ─► records ─► events that the hook wants ─► submit (deliveries + new position, checked) ─► position
 *
 * Events of deliveries themselves are nobody's: a hook that fails must not feed itself.
 */
import { isMillraceError } from "../../model/error.ts";
import { readCursor, startPosition, writeCursor } from "../../model/events/event-cursor.ts";
import { feedKindsOf } from "../../model/events/event.ts";
import type { MillraceEvent } from "../../model/events/event.ts";
import { webhookQueue } from "../../model/events/webhook.ts";
import type { Webhook } from "../../model/events/webhook.ts";
import type { DocCheck, NewJob } from "../../store/records.ts";
import type { Needs } from "../services.ts";
import { FeedMerge } from "../events/feed-merge.ts";
import { checkPosition } from "../events/feed-pages.ts";
import { lacksJob } from "../events/event-jobs.ts";
import type { EventJobs } from "../events/event-jobs.ts";
import type { RouteNames } from "../events/route-names.ts";
import { Positions, showEvents } from "../events/show-events.ts";
import type { EventFilter } from "../events/show-events.ts";
import { refusalError } from "../submit/refusal-error.ts";
import { deliveriesTo } from "./delivery.ts";
import { positionPut } from "./webhook-docs.ts";

type HookReaderNeeds = Needs<
  "store" | "platform" | "coder" | "log" | "ids" | "planner" | "submitter" | "webhookDocs"
>;

/** Of all hooks of a process. */
export interface SharedByReaders {
  readonly names: RouteNames;
  readonly jobs: EventJobs;
}

export interface ReadStep {
  readonly made: number;
  /** There was more to read. */
  readonly hasMore: boolean;
  /** Another process was faster, or the hooks have changed: nothing was written. */
  readonly isRaced: boolean;
}

const batchRecords = 5000;
/** A position without deliveries is written so often: the records behind it may be pruned. */
const savedEveryMs = 10_000;

interface Reading {
  readonly merge: FeedMerge;
  readonly positions: Positions;
  version: number;
  gaps: number;
  /** The cursor in the store, and when it was written. */
  saved: string;
  savedUs: number;
}

export class HookReader {
  readonly hook: Webhook;
  readonly #needs: HookReaderNeeds;
  readonly #shared: SharedByReaders;
  readonly #filter: EventFilter;
  readonly #toDelivery: (event: object) => NewJob;
  #reading: Reading | null = null;

  constructor(needs: HookReaderNeeds, shared: SharedByReaders, hook: Webhook) {
    this.#needs = needs;
    this.#shared = shared;
    this.hook = hook;
    const { kinds, queue, jobName, tag } = hook;
    this.#filter = {
      ...(kinds === null ? {} : { kinds: new Set(kinds) }),
      ...(queue === null ? {} : { queue }),
      ...(jobName === null ? {} : { name: jobName }),
      ...(tag === null ? {} : { tag }),
    };
    this.#toDelivery = deliveriesTo(needs, hook);
  }

  /**
   * One batch. @param checks that the hooks are those this reader was made by, and that this process may read for them.
   * @param batchMax about N deliveries: a record of the feed is taken whole.
   */
  async step(checks: readonly DocCheck[], batchMax: number): Promise<ReadStep> {
    try {
      const reading = (this.#reading ??= await this.#begin());
      const { events, hasMore } = await this.#read(reading, batchMax);
      if (events.length > 0) await this.#deliver(reading, events, checks);
      else await this.#save(reading);
      const isRaced = this.#reading === null;
      return { made: isRaced ? 0 : events.length, hasMore, isRaced };
    } catch (error) {
      // What was read and not written is read again.
      this.#reading = null;
      if (!isMillraceError(error, "cursor-expired") && !isMillraceError(error, "invalid-cursor")) throw error;
      await this.#beginAnew(error);
      return { made: 0, hasMore: true, isRaced: false };
    }
  }

  async #begin(): Promise<Reading> {
    const { store, platform } = this.#needs;
    const { partitions = 1 } = store;
    const found = (await this.#needs.webhookDocs.positions([this.hook.name])).get(this.hook.name);
    const { cursor, gaps, version } = found ?? { cursor: startCursor(partitions), gaps: 0, version: 0 };
    const positions = readCursor(cursor, partitions);
    for (const [number, position] of positions.entries()) await checkPosition(store, number, position);
    const { kinds: wanted } = this.#filter;
    const kinds = wanted === undefined ? undefined : feedKindsOf(wanted);
    const merge = new FeedMerge({ store, names: this.#shared.names }, platform, { positions, kinds });
    const savedUs = platform.monotonicUs();
    return { merge, positions: new Positions(positions), version, gaps, saved: cursor, savedUs };
  }

  async #read(
    { merge, positions }: Reading,
    batchMax: number,
  ): Promise<{ readonly events: readonly MillraceEvent[]; readonly hasMore: boolean }> {
    const { names, jobs } = this.#shared;
    const events: MillraceEvent[] = [];
    for (let records = 0; records < batchRecords && events.length < batchMax; records++) {
      const merged = await merge.next();
      if (merged.kind === "failure") throw merged.error;
      if (merged.kind === "end") return { events, hasMore: false };
      const shown = showEvents(merged.record, { filter: this.#filter, names, positions });
      const own = shown.filter(({ queue }) => queue !== webhookQueue);
      const isLacking = own.some((event) => lacksJob(event, this.#filter));
      events.push(...(isLacking ? await jobs.complete(own, this.#filter) : own));
    }
    return { events, hasMore: true };
  }

  async #deliver(
    reading: Reading,
    events: readonly MillraceEvent[],
    checks: readonly DocCheck[],
  ): Promise<void> {
    const { positions, gaps, version } = reading;
    const { cursor } = positions;
    const jobs = events.map(this.#toDelivery);
    const answer = await this.#needs.submitter.submit({
      jobs,
      docs: [positionPut(this.hook.name, { cursor, gaps }, guardOf(version))],
      checks,
    });
    if (answer.kind === "ok") return this.#saved(reading, cursor, version + 1);
    // Whoever goes on begins at what is written.
    if (answer.reason === "doc-changed") this.#reading = null;
    else throw refusalError(answer, jobs);
  }

  async #save(reading: Reading): Promise<void> {
    const { platform, store } = this.#needs;
    const { positions, gaps, version, saved, savedUs } = reading;
    const { cursor } = positions;
    const isDue = platform.monotonicUs() - savedUs >= savedEveryMs * 1000;
    if (cursor === saved || !isDue) return;
    const [answer] = await store.putDocs([positionPut(this.hook.name, { cursor, gaps }, guardOf(version))]);
    if (answer?.kind === "ok") this.#saved(reading, cursor, answer.version);
    else this.#reading = null;
  }

  #saved(reading: Reading, cursor: string, version: number): void {
    Object.assign(reading, { saved: cursor, version, savedUs: this.#needs.platform.monotonicUs() });
  }

  /** What was between is gone, which is logged; the hook goes on with what is still kept. */
  async #beginAnew(error: unknown): Promise<void> {
    const { store, log } = this.#needs;
    const { name } = this.hook;
    log.error("events were pruned before a webhook had delivered them", { webhook: name, error });
    const found = (await this.#needs.webhookDocs.positions([name])).get(name);
    const position = { cursor: startCursor(store.partitions ?? 1), gaps: (found?.gaps ?? 0) + 1 };
    await store.putDocs([positionPut(name, position, guardOf(found?.version ?? 0))]);
  }
}

const startCursor = (partitions: number): string =>
  writeCursor(Array.from({ length: partitions }, () => startPosition));
const guardOf = (version: number) => (version === 0 ? ("absent" as const) : { version });
