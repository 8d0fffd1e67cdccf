/**
 * How long a caller waits for one partition while others have answered. All calls wait equally long, so one timer
 * serves the oldest of them, and a call that is answered in time costs no timer of its own. While nothing is waited for
 * there is no timer.
 */

/** The part of `Platform` that is needed here. */
export interface Timekeeper {
  /** Microseconds that never go back. */
  monotonicUs(): number;
  setTimer(delayMs: number, run: () => void, keepsAlive?: boolean): { cancel(): void };
}

interface Waiting {
  readonly untilMs: number;
  /** Null once the call was answered, or the time was over. */
  end: ((isAnswered: boolean) => void) | null;
}

export class CallTimeout {
  readonly #platform: Timekeeper;
  readonly #lengthMs: number;
  /** The oldest first. */
  #waiting: Waiting[] = [];
  #timer: { cancel(): void } | null = null;

  constructor(platform: Timekeeper, lengthMs: number) {
    this.#platform = platform;
    this.#lengthMs = lengthMs;
  }

  /** Whether the call is answered in time, successfully or not. Never rejects. */
  isAnswered(call: Promise<unknown>): Promise<boolean> {
    return new Promise((resolve) => {
      const waiting: Waiting = { untilMs: this.#nowMs + this.#lengthMs, end: resolve };
      const answered = (): void => {
        waiting.end?.(true);
        waiting.end = null;
      };
      call.then(answered, answered);
      this.#waiting.push(waiting);
      if (this.#timer === null) this.#arm(this.#lengthMs);
    });
  }

  /** Ends all waits. */
  close(): void {
    this.#timer?.cancel();
    this.#timer = null;
    for (const { end } of this.#waiting.splice(0)) end?.(false);
  }

  get #nowMs(): number {
    return this.#platform.monotonicUs() / 1000;
  }

  #arm(delayMs: number): void {
    this.#timer = this.#platform.setTimer(Math.max(1, Math.ceil(delayMs)), () => this.#ring(), false);
  }

  #ring(): void {
    this.#timer = null;
    const nowMs = this.#nowMs;
    const open = this.#waiting.filter(({ end }) => end !== null);
    this.#waiting = open.filter(({ untilMs }) => untilMs > nowMs);
    for (const waiting of open.slice(0, open.length - this.#waiting.length)) {
      waiting.end?.(false);
      waiting.end = null;
    }
    const [oldest] = this.#waiting;
    if (oldest !== undefined) this.#arm(oldest.untilMs - nowMs);
  }
}
