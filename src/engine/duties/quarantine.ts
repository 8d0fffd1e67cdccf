/**
 * Items that made a duty fail again and again are left alone for growing periods, so that one bad item never poisons the rest. A
 * success clears it. What is quarantined is visible to operators.
 */
import type { Platform } from "../../platform/platform.ts";

interface Case {
  failures: number;
  untilUs: number;
}

const failuresBefore = 3;
const firstMs = 10_000;
const longestMs = 3_600_000;
/** Beyond this the oldest case is forgotten: it is only a memory of this process. */
const casesMax = 10_000;

export class Quarantine {
  readonly #platform: Platform;
  readonly #cases = new Map<string, Case>();

  constructor(platform: Platform) {
    this.#platform = platform;
  }

  has(item: string): boolean {
    const found = this.#cases.get(item);
    return (
      found !== undefined && found.failures >= failuresBefore && this.#platform.monotonicUs() < found.untilUs
    );
  }

  failed(item: string): void {
    const failures = (this.#cases.get(item)?.failures ?? 0) + 1;
    const periodMs = Math.min(firstMs * 2 ** Math.max(0, failures - failuresBefore), longestMs);
    this.#cases.delete(item);
    this.#cases.set(item, { failures, untilUs: this.#platform.monotonicUs() + periodMs * 1000 });
    if (this.#cases.size > casesMax) this.#cases.delete(this.#cases.keys().next().value as string);
  }

  succeeded(item: string): void {
    if (this.#cases.size > 0) this.#cases.delete(item);
  }

  list(): readonly string[] {
    return [...this.#cases].filter(([item]) => this.has(item)).map(([item]) => item);
  }
}
