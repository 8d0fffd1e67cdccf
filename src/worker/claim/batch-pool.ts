/**
 * The pool of a batch handler: a slot takes up to `size` jobs, as soon as `size` jobs wait or the first of them has
 * waited long enough.
 */
import type { Platform, Timer } from "../../platform/platform.ts";
import type { Attempt } from "../run/attempt.ts";
import type { BatchHandler } from "../handler.ts";
import { Pool } from "./pool.ts";

export class BatchPool extends Pool {
  readonly handler: BatchHandler;
  #timer: Timer | null = null;
  #isWaitOver = false;

  constructor(queue: string, handler: BatchHandler) {
    super({
      queue,
      slots: handler.concurrency,
      names: new Set([handler.definition.name]),
      jobsPerSlot: handler.size,
    });
    this.handler = handler;
  }

  fill(platform: Platform, start: (attempts: readonly Attempt[]) => void): void {
    while (this.busySlots < this.slots && this.waiting > 0) {
      if (this.waiting < this.handler.size && this.handler.waitMs > 0 && !this.#isWaitOver) {
        this.#timer ??= platform.setTimer(this.handler.waitMs, () => {
          this.#timer = null;
          this.#isWaitOver = true;
          this.fill(platform, start);
        });
        return;
      }
      const attempts: Attempt[] = [];
      while (attempts.length < this.handler.size) {
        const attempt = this.take();
        if (attempt === undefined) break;
        attempts.push(attempt);
      }
      this.#endWait();
      start(attempts);
    }
  }

  stop(): void {
    this.#endWait();
  }

  #endWait(): void {
    this.#timer?.cancel();
    this.#timer = null;
    this.#isWaitOver = false;
  }
}
