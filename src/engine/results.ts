/**
 * Waiting for jobs to end, from any process, by push: the store hints at finished ids, and those that somebody here
 * waits for are read in one batch. Hints may be lost, so all awaited ids are also read again at slow intervals, in one
 * call and not one per waiter.
 */
import { durationText } from "../model/duration.ts";
import { MillraceError } from "../model/error.ts";
import { isTerminal } from "../model/job-state.ts";
import type { Timer } from "../platform/platform.ts";
import type { JobRecord } from "../store/records.ts";
import type { Unwatch } from "../store/store.ts";
import type { Engine } from "./engine.ts";

interface Waiter {
  ended(record: JobRecord | null): void;
  failed(error: unknown): void;
}

/** The waits between two reads of all awaited ids. */
const pollFirstMs = 1000;
const pollMaxMs = 5000;

interface WaitOptions {
  readonly timeoutMs: number | null;
  readonly signal: AbortSignal | null;
}

export class Results {
  readonly #engine: Engine;
  readonly #waiters = new Map<string, Set<Waiter>>();
  #unwatch: Unwatch | null = null;
  #timer: Timer | null = null;
  #pollMs = pollFirstMs;
  #isClosed = false;

  constructor(engine: Engine) {
    this.#engine = engine;
  }

  /** The job once it is terminal, or null when there is no such job (any more). */
  wait(id: string, options: WaitOptions): Promise<JobRecord | null> {
    return new Promise((resolve, reject) => {
      const { signal, timeoutMs } = options;
      let timer: Timer | null = null;
      const done = (): void => {
        timer?.cancel();
        signal?.removeEventListener("abort", aborted);
        this.#remove(id, waiter);
      };
      const waiter: Waiter = {
        ended: (record) => (done(), resolve(record)),
        failed: (error) => (done(), reject(error)),
      };
      const aborted = (): void =>
        waiter.failed(new MillraceError("aborted", "The wait was aborted.", { cause: signal?.reason }));
      if (this.#isClosed)
        return reject(new MillraceError("closed", "This Millrace was closed; open a new one."));
      if (signal?.aborted === true) return aborted();
      signal?.addEventListener("abort", aborted, { once: true });
      if (timeoutMs !== null) {
        const message = `The job ${id} did not end within ${durationText(timeoutMs)}; it goes on.`;
        timer = this.#engine.platform.setTimer(timeoutMs, () =>
          waiter.failed(new MillraceError("wait-timeout", message)),
        );
      }
      this.#add(id, waiter);
    });
  }

  close(): void {
    this.#isClosed = true;
    for (const waiters of this.#waiters.values()) {
      for (const waiter of waiters)
        waiter.failed(new MillraceError("closed", "Millrace was closed during the wait."));
    }
  }

  #add(id: string, waiter: Waiter): void {
    const waiters = this.#waiters.get(id);
    if (waiters === undefined) this.#waiters.set(id, new Set([waiter]));
    else waiters.add(waiter);
    // The watch begins before the first read, so an end between the two is not missed.
    this.#unwatch ??= this.#engine.store.watch((hint) => {
      if (hint.kind === "finished")
        for (const finished of hint.ids) if (this.#waiters.has(finished)) this.#read(finished);
    });
    this.#pollMs = pollFirstMs;
    this.#timer ??= this.#startTimer();
    this.#read(id);
  }

  #remove(id: string, waiter: Waiter): void {
    const waiters = this.#waiters.get(id);
    if (waiters === undefined || !waiters.delete(waiter) || waiters.size > 0) return;
    this.#waiters.delete(id);
    if (this.#waiters.size > 0) return;
    this.#unwatch?.();
    this.#unwatch = null;
    this.#timer?.cancel();
    this.#timer = null;
  }

  #startTimer(): Timer {
    return this.#engine.platform.setTimer(this.#pollMs, () => {
      this.#pollMs = Math.min(this.#pollMs * 2, pollMaxMs);
      this.#timer = this.#startTimer();
      for (const id of this.#waiters.keys()) this.#read(id);
    });
  }

  #read(id: string): void {
    this.#engine.reads.push(id, {
      answered: (record) => {
        if (record === null || isTerminal(record.state))
          for (const waiter of [...(this.#waiters.get(id) ?? [])]) waiter.ended(record);
      },
      // A store that is away is asked again by the poll; the waiter's own timeout bounds the wait.
      failed: (error) => this.#engine.log.debug("reading an awaited job failed", { id, error }),
    });
  }
}
