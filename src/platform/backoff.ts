/**
 * The wait before the next try of something that failed: it doubles from the first to the longest. Each wait is drawn
 * between half of it and all of it, so that processes which failed together do not come back together.
 *
 * A loop keeps one backoff, waits `nextMs()` after each failure, and calls `reset()` after a success.
 */
import type { Platform } from "./platform.ts";

interface BackoffOptions {
  readonly firstMs: number;
  readonly maxMs: number;
}

export class Backoff {
  readonly #platform: Pick<Platform, "random">;
  readonly #options: BackoffOptions;
  #fullMs: number;

  constructor(platform: Pick<Platform, "random">, options: BackoffOptions) {
    this.#platform = platform;
    this.#options = options;
    this.#fullMs = options.firstMs;
  }

  nextMs(): number {
    const fullMs = this.#fullMs;
    this.#fullMs = Math.min(fullMs * 2, this.#options.maxMs);
    return fullMs * (0.5 + this.#platform.random() / 2);
  }

  reset(): void {
    this.#fullMs = this.#options.firstMs;
  }
}
