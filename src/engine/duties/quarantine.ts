/**
 * Items that made a duty fail again and again are left alone for growing periods, so that one bad item never poisons the rest. A
 * success clears it. What is quarantined is told to operators (quarantine-notice.ts).
 *
 * A store that is away is nobody's fault: such a failure is not counted.
 */
import { BoundedMap } from "../../model/bounded-map.ts";
import { isMillraceError } from "../../model/error.ts";
import type { Platform } from "../../platform/platform.ts";

interface Case {
  failures: number;
  untilUs: number;
  /** The same by the wall clock, for people. */
  until: number;
  error: string;
}

export interface QuarantineCase {
  readonly item: string;
  readonly failures: number;
  /** What the last failure said. */
  readonly error: string;
  /** Epoch milliseconds by this process's clock: when it is tried again. */
  readonly until: number;
}

export const failuresBefore = 3;
const firstMs = 10_000;
const longestMs = 3_600_000;
/** A duty that sleeps long comes late to its next try: until then the item counts as quarantined. */
export const shownAfterMs = 900_000;
/** Beyond this the oldest case is forgotten: it is only a memory of this process. */
const casesMax = 10_000;
const errorCharsMax = 500;
/** What a duty does for one item; an item that hangs must not use up the time of the run. */
export const itemMaxMs = 20_000;

export class Quarantine {
  readonly #platform: Platform;
  readonly #cases = new BoundedMap<string, Case>(casesMax);

  constructor(platform: Platform) {
    this.#platform = platform;
  }

  /** To be left alone for now. */
  has(item: string): boolean {
    const found = this.#cases.get(item);
    return (
      found !== undefined && found.failures >= failuresBefore && this.#platform.monotonicUs() < found.untilUs
    );
  }

  failed(item: string, error: unknown): void {
    if (isStoreAway(error)) return;
    const failures = (this.#cases.get(item)?.failures ?? 0) + 1;
    const periodMs = Math.min(firstMs * 2 ** Math.max(0, failures - failuresBefore), longestMs);
    this.#cases.set(item, {
      failures,
      untilUs: this.#platform.monotonicUs() + periodMs * 1000,
      until: this.#platform.now() + periodMs,
      error: errorText(error),
    });
  }

  succeeded(item: string): void {
    if (this.#cases.size > 0) this.#cases.delete(item);
  }

  list(): readonly QuarantineCase[] {
    const nowUs = this.#platform.monotonicUs();
    return [...this.#cases]
      .filter(
        ([, { failures, untilUs }]) => failures >= failuresBefore && nowUs < untilUs + shownAfterMs * 1000,
      )
      .map(([item, { failures, error, until }]) => ({ item, failures, error, until }));
  }
}

/** Nothing happened and it may be tried again. A call that was not answered may lie in the item: a write that always takes too long. */
export function isStoreAway(error: unknown): boolean {
  return isMillraceError(error) && error.retryable && error.outcome === "did-not-happen";
}

export function errorText(error: unknown): string {
  return String(error instanceof Error ? error.message : error).slice(0, errorCharsMax);
}
