/**
 * How long to wait before something that failed is tried again: twice as long after each failure in a row, up to a
 * maximum. Each wait is drawn between half of that length and all of it, so that the processes of a fleet do not come
 * back to a server in step. One success begins again at the first length.
 *
 * It lies here because engine, workers and stores all wait like this, and timers and randomness are all that it needs.
 * A job's own backoff, which its owner chooses, is another matter: `model/job/retry-policy.ts`.
 */
import type { Platform, Timer } from "./platform.ts";

/** After N doublings a wait has reached any maximum; more would only overflow. */
const doublingsMax = 20;

export interface BackoffLengths {
  /** After the first failure. */
  readonly firstMs: number;
  readonly maxMs: number;
}

export class Backoff {
  readonly #platform: Platform;
  readonly #lengths: BackoffLengths;
  #failures = 0;
  #timer: Timer | null = null;

  constructor(platform: Platform, lengths: BackoffLengths) {
    this.#platform = platform;
    this.#lengths = lengths;
  }

  /** A try failed, and the caller does the waiting. @returns for how long. */
  failed(): number {
    const { firstMs, maxMs } = this.#lengths;
    const lengthMs = Math.min(firstMs * 2 ** Math.min(this.#failures, doublingsMax), maxMs);
    this.#failures += 1;
    return lengthMs * (0.5 + this.#platform.random() / 2);
  }

  /** A try failed; the next one is made after the wait. @returns how long that is. */
  retry(again: () => void): number {
    const delayMs = this.failed();
    this.#timer?.cancel();
    this.#timer = this.#platform.setTimer(delayMs, () => {
      this.#timer = null;
      again();
    });
    return delayMs;
  }

  /** A try worked: the next failure waits for the first length again. */
  succeeded(): void {
    this.#failures = 0;
  }

  /** A `retry` has not come to its try yet. */
  get isWaiting(): boolean {
    return this.#timer !== null;
  }

  /** The try that a `retry` waits for is not made. */
  cancel(): void {
    this.#timer?.cancel();
    this.#timer = null;
  }
}
