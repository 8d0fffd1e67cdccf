/**
 * What one duty of one process has done since the process started. It travels in the notices of the process's workers
 * (engine/worker-notice.ts), so that operators see the duties of the whole fleet.
 */
import type { Platform } from "../../platform/platform.ts";
import type { DutyPass } from "./duty.ts";

export interface DutyTally {
  /** Passes that came to their end. */
  readonly passes: number;
  readonly processed: number;
  /** Items and partitions that failed, and passes that did. */
  readonly errors: number;
  /** Items that it leaves alone for now. */
  readonly aside: number;
  /** How long ago the last pass came to its end, when the tally was read; null before the first. */
  readonly lastPassMs: number | null;
  /** The partitions that the last pass passed over; left out for none. */
  readonly missing?: readonly number[];
}

export class DutyCount {
  readonly #platform: Platform;
  #passes = 0;
  #processed = 0;
  #errors = 0;
  #lastUs: number | null = null;
  #missing: readonly number[] = [];

  constructor(platform: Platform) {
    this.#platform = platform;
  }

  /** @param pass null for one that failed. */
  ended(pass: DutyPass | null): void {
    this.#errors += pass?.errors ?? 1;
    if (pass === null) return;
    this.#passes += 1;
    this.#processed += pass.processed;
    this.#lastUs = this.#platform.monotonicUs();
    this.#missing = pass.missing ?? [];
  }

  /** Somebody else has seen what a pass would have looked for. */
  seen(): void {
    this.#lastUs = this.#platform.monotonicUs();
  }

  read(aside: number): DutyTally {
    const lastUs = this.#lastUs;
    return {
      ...{ passes: this.#passes, processed: this.#processed, errors: this.#errors, aside },
      lastPassMs: lastUs === null ? null : Math.round((this.#platform.monotonicUs() - lastUs) / 1000),
      ...(this.#missing.length === 0 ? {} : { missing: this.#missing }),
    };
  }
}
