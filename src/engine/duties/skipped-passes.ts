/**
 * Lets a duty skip work for some passes. Work that is promised only after hours or days may come late by a thousandth
 * of that time, so an idle store is not asked in every pass.
 */
const lateShare = 1000;
const passesMax = 10;
const partitionsPerPass = 4;

export class SkippedPasses {
  readonly #passes: number;
  #left = 0;

  /**
   * @param sleepMs how long the duty sleeps between two passes. @param partitions of the store. A pass asks each of
   * them, so with many partitions even urgent work skips passes, to keep an idle store quiet.
   */
  constructor(promisedMs: number, sleepMs: number, partitions = 1) {
    const every = Math.ceil(partitions / partitionsPerPass);
    const rested = Math.floor(promisedMs / lateShare / sleepMs);
    this.#passes = Math.min(passesMax * every, Math.max(every, rested)) - 1;
  }

  /** Whether this pass skips the work. Call it exactly once in every pass, because each call counts one pass. */
  isOn(): boolean {
    if (this.#left === 0) return false;
    this.#left -= 1;
    return true;
  }

  /** Starts skipping. Call it after a pass that left nothing to do. */
  begin(): void {
    this.#left = this.#passes;
  }
}
