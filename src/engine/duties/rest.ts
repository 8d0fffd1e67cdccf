/**
 * What is promised only after hours or days may come late by a thousandth of that: a duty passes it over for some of its runs, so that an idle store is
 * not asked in vain every time.
 */
const lateShare = 1000;
const passesMax = 10;

export class Rest {
  readonly #passes: number;
  #left = 0;

  /** @param sleepMs between two passes of the duty. */
  constructor(promisedMs: number, sleepMs: number) {
    this.#passes = Math.min(passesMax, Math.max(1, Math.floor(promisedMs / lateShare / sleepMs))) - 1;
  }

  /** Asked once in every pass: whether it is passed over. */
  isOn(): boolean {
    if (this.#left === 0) return false;
    this.#left -= 1;
    return true;
  }

  /** Nothing was left to do. */
  begin(): void {
    this.#left = this.#passes;
  }
}
