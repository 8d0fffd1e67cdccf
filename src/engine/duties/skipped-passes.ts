/**
 * The rest of a duty: work that is promised only after hours or days may come late by a thousandth of that time, so the
 * duty skips it for some passes and an idle store is not asked in vain every time.
 */
const lateShare = 1000;
const passesMax = 10;
const partitionsPerPass = 4;

export class SkippedPasses {
  readonly #passes: number;
  #left = 0;

  /**
   * @param sleepMs how long the duty sleeps between two passes.
   * @param partitions of the store. A pass asks each of them: over many even what never rests comes less often, or idle
   * stores are asked more.
   */
  constructor(promisedMs: number, sleepMs: number, partitions = 1) {
    const every = Math.ceil(partitions / partitionsPerPass);
    const rested = Math.floor(promisedMs / lateShare / sleepMs);
    this.#passes = Math.min(passesMax * every, Math.max(every, rested)) - 1;
  }

  /** Whether this pass skips the work. To be asked exactly once in every pass, because each question counts one. */
  isOn(): boolean {
    if (this.#left === 0) return false;
    this.#left -= 1;
    return true;
  }

  /** Begins the rest. To be called after a pass that left nothing to do. */
  begin(): void {
    this.#left = this.#passes;
  }
}
