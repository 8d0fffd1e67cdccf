/** The readers of output in this process. All of them end when Millrace closes. */
import type { FramePosition } from "../../model/output/frame-cursor.ts";
import type { Needs } from "../services.ts";
import { readOutput } from "./frame-reader.ts";
import type { Frame } from "./frame-reader.ts";
import { OutputTails } from "./output-tails.ts";
import type { PageWaiter, TailsNeeds } from "./output-tails.ts";

type ReadersNeeds = TailsNeeds & Needs<"coder">;

export class FrameReaders {
  readonly #needs: ReadersNeeds;
  readonly #tails: OutputTails;
  readonly #open = new Set<FrameReader>();

  constructor(needs: ReadersNeeds) {
    this.#needs = needs;
    this.#tails = new OutputTails(needs);
  }

  open(id: string, after: FramePosition, signal: AbortSignal | null): FrameReader {
    const reader: FrameReader = new FrameReader(
      (waiter) => readOutput(this.#tails, this.#needs, { id, after, reader: waiter }),
      () => this.#open.delete(reader),
      signal,
    );
    if (!reader.isOver) this.#open.add(reader);
    return reader;
  }

  close(): void {
    for (const reader of [...this.#open]) reader.end();
  }
}

const over: IteratorReturnResult<undefined> = { done: true, value: undefined };

/** Reads nothing before the first `next`. */
class FrameReader implements AsyncIterableIterator<Frame, undefined>, AsyncDisposable {
  readonly #waiter: PageWaiter = { isOver: false, wake: null };
  readonly #frames: AsyncGenerator<Frame, undefined>;
  readonly #ended: () => unknown;
  readonly #signal: AbortSignal | null;

  constructor(
    read: (waiter: PageWaiter) => AsyncGenerator<Frame, undefined>,
    ended: () => unknown,
    signal: AbortSignal | null,
  ) {
    this.#frames = read(this.#waiter);
    this.#ended = ended;
    this.#signal = signal;
    if (signal?.aborted === true) this.#waiter.isOver = true;
    else signal?.addEventListener("abort", this.end, { once: true });
  }

  get isOver(): boolean {
    return this.#waiter.isOver;
  }

  [Symbol.asyncIterator](): this {
    return this;
  }

  async next(): Promise<IteratorResult<Frame, undefined>> {
    try {
      const result = await this.#frames.next();
      if (this.isOver) return over;
      if (result.done === true) this.end();
      return result;
    } catch (error) {
      if (this.isOver) return over;
      this.end();
      throw error;
    }
  }

  async return(): Promise<IteratorReturnResult<undefined>> {
    this.end();
    await this.#frames.return(undefined);
    return over;
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.return();
  }

  /** A waiting `next` returns at once. */
  readonly end = (): void => {
    if (this.isOver) return;
    this.#waiter.isOver = true;
    this.#waiter.wake?.();
    this.#signal?.removeEventListener("abort", this.end);
    this.#ended();
    void this.#frames.return(undefined);
  };
}
