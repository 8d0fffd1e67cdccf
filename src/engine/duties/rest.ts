/**
 * The rest of a duty: work that is promised only after hours or days may come late by a thousandth of that time, so the
 * duty skips it for some passes and an idle store is not asked in vain every time.
 */
const lateShare = 1000;
const passesMax = 10;

export class Rest {
  readonly #passes: number;
  #left = 0;

  /**
   * @param sleepMs how long the duty sleeps between two passes.
   * @param everyMin it works in one of so many passes at the most often.
   */
  constructor(promisedMs: number, sleepMs: number, everyMin = 1) {
    this.#passes = Math.min(passesMax, Math.max(everyMin, Math.floor(promisedMs / lateShare / sleepMs))) - 1;
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
