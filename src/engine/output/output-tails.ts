/**
 * Follows the output of jobs for all readers of the process. A stream has one tail, however many read it: they share
 * its reads and its last pages. A tail reads when the store hints that the job wrote or ended, and at slow intervals in
 * case a hint was lost. It never waits for a reader: a slow one reads the store by itself.
 *
 *   hint, slow poll ──► woken ──► one read after a place ──► page ──► all readers at this place
 */
import { isMillraceError, MillraceError } from "../../model/error.ts";
import type { TerminalState } from "../../model/job/job-state.ts";
import type { FramePosition } from "../../model/output/frame-cursor.ts";
import type { Timer } from "../../platform/platform.ts";
import type { FrameChunk } from "../../store/records.ts";
import type { Unwatch } from "../../store/store.ts";
import type { Needs } from "../services.ts";

export type TailsNeeds = Needs<"store" | "platform" | "outputs" | "repeated">;

export interface OutputPage {
  readonly after: FramePosition;
  readonly chunks: readonly FrameChunk[];
  readonly summary: string | null;
  /** How the job has ended, and there is nothing after this page; else null. */
  readonly ended: TerminalState | null;
}

/** The most chunks of a page: all that a reader holds that takes nothing. */
const pageMax = 16;
/** Characters of the last pages that a tail keeps for readers that are a little behind. */
const recentCharsMax = 1024 * 1024;
/** The waits between two reads without a hint. */
const pollFirstMs = 1000;
const pollMaxMs = 5000;

/** A reader, while it waits for a page. */
export interface PageWaiter {
  isOver: boolean;
  /** Ends its wait. */
  wake: (() => void) | null;
}

export class OutputTails {
  readonly #needs: TailsNeeds;
  readonly #tails = new Map<string, OutputTail>();
  #unwatch: Unwatch | null = null;
  #timer: Timer | null = null;
  #pollMs = pollFirstMs;

  constructor(needs: TailsNeeds) {
    this.#needs = needs;
  }

  /** The tail of a job, until as many `leave` it as have joined it. */
  join(id: string): OutputTail {
    let tail = this.#tails.get(id);
    if (tail === undefined) {
      tail = new OutputTail(this.#needs, id);
      this.#tails.set(id, tail);
    }
    tail.readers += 1;
    // The watch begins before the first read, so that nothing is missed.
    this.#unwatch ??= this.#needs.store.watch((hint) => {
      if (hint.kind !== "output" && hint.kind !== "finished") return;
      for (const written of hint.ids) this.#tails.get(written)?.wake();
      this.#pollMs = pollFirstMs;
    });
    this.#timer ??= this.#poll();
    return tail;
  }

  leave(tail: OutputTail): void {
    tail.readers -= 1;
    if (tail.readers > 0) return;
    this.#tails.delete(tail.id);
    if (this.#tails.size > 0) return;
    this.#unwatch?.();
    this.#timer?.cancel();
    this.#unwatch = this.#timer = null;
    this.#pollMs = pollFirstMs;
  }

  #poll(): Timer {
    return this.#needs.platform.setTimer(this.#pollMs, () => {
      this.#pollMs = Math.min(this.#pollMs * 2, pollMaxMs);
      this.#timer = this.#poll();
      for (const tail of this.#tails.values()) tail.wake();
    });
  }
}

class OutputTail {
  readonly id: string;
  readers = 0;
  readonly #needs: TailsNeeds;
  /** The reads in flight, by the place that they begin after. */
  readonly #reads = new Map<string, Promise<OutputPage>>();
  #recent: OutputPage[] = [];
  #recentChars = 0;
  /** Counts what may have brought something new. */
  #wakes = 0;
  readonly #waiting = new Set<PageWaiter>();

  constructor(needs: TailsNeeds, id: string) {
    this.#needs = needs;
    this.id = id;
  }

  /** The job may have written, or ended. */
  wake(): void {
    this.#wakes += 1;
    for (const waiter of this.#waiting) waiter.wake?.();
  }

  /**
   * The page after a place, once there is one; null if the reader wants none any more.
   *
   * @throws MillraceError `job-not-found` for a job that is unknown, or is no longer kept.
   */
  async pageAfter(after: FramePosition, reader: PageWaiter): Promise<OutputPage | null> {
    while (!reader.isOver) {
      const wakes = this.#wakes;
      const page = this.#recentAfter(after) ?? (await this.#read(after));
      if (page !== null && (page.chunks.length > 0 || page.ended !== null)) return page;
      if (wakes === this.#wakes && !reader.isOver) await this.#wait(reader);
    }
    return null;
  }

  async #wait(reader: PageWaiter): Promise<void> {
    this.#waiting.add(reader);
    await new Promise<void>((resolve) => (reader.wake = resolve));
    reader.wake = null;
    this.#waiting.delete(reader);
  }

  #recentAfter(after: FramePosition): OutputPage | undefined {
    return this.#recent.find((page) => placeText(page.after) === placeText(after));
  }

  /** @returns null if the store is away. */
  async #read(after: FramePosition): Promise<OutputPage | null> {
    const place = placeText(after);
    let read = this.#reads.get(place);
    if (read === undefined) {
      read = this.#readOnce(after).finally(() => this.#reads.delete(place));
      this.#reads.set(place, read);
    }
    try {
      return await read;
    } catch (error) {
      if (!isMillraceError(error) || !error.retryable) throw error;
      this.#needs.repeated.say("warn", "reading output failed; it will be tried again", {
        id: this.id,
        error,
      });
      return null;
    }
  }

  async #readOnce(after: FramePosition): Promise<OutputPage> {
    const answer = await this.#needs.outputs.add({ id: this.id, after, max: pageMax });
    if (answer.kind === "gone") throw noSuchJob(this.id);
    const { chunks, summary } = answer;
    const page = { after, chunks, summary, ended: chunks.length < pageMax ? answer.ended : null };
    if (chunks.length > 0) this.#remember(page);
    return page;
  }

  #remember(page: OutputPage): void {
    this.#recent.push(page);
    this.#recentChars += charsOf(page);
    while (this.#recentChars > recentCharsMax && this.#recent.length > 1)
      this.#recentChars -= charsOf(this.#recent.shift() as OutputPage);
  }
}

export type { OutputTail };

const placeText = ({ fence, number }: FramePosition): string => `${fence}-${number}`;

const charsOf = ({ chunks }: OutputPage): number => chunks.reduce((sum, { body }) => sum + body.length, 0);

export function noSuchJob(id: string): MillraceError {
  return new MillraceError(
    "job-not-found",
    `There is no job ${JSON.stringify(id)}: it is unknown, or no longer kept.`,
  );
}
