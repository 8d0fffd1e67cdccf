/**
 * One flush per turn of the event loop. Batchers that want to call the store register here. All are called at the end
 * of the flush, so that a store can put the calls of one flush into one commit.
 */
import type { Platform } from "../../platform/platform.ts";

export class Flush {
  readonly #platform: Platform;
  #flushes: (() => void)[] = [];

  constructor(platform: Platform) {
    this.#platform = platform;
  }

  /** Runs `flush` once at the end of the current flush. A caller registers at most once per flush. */
  atEnd(flush: () => void): void {
    if (this.#flushes.push(flush) === 1) this.#platform.defer(this.#run);
  }

  /** Ends the current flush now. */
  endNow(): void {
    this.#run();
  }

  readonly #run = (): void => {
    const flushes = this.#flushes;
    this.#flushes = [];
    for (const flush of flushes) flush();
  };
}
