/**
 * Quarantines items that made a duty fail again and again, for growing periods, so that one bad item does not block the
 * others. A success clears the item. Operators see the list (quarantine-document.ts).
 *
 * If the store is away, the failure says nothing about the item and is not counted.
 */
import { BoundedMap } from "../../model/bounded-map.ts";
import { isMillraceError } from "../../model/error.ts";
import type { Platform } from "../../platform/platform.ts";
import type { ByPartition } from "../../store/partitioned/by-partition.ts";

interface Case {
  failures: number;
  untilUs: number;
  /** `untilUs` by the wall clock, for people. */
  until: number;
  error: string;
}

export interface QuarantineCase {
  readonly item: string;
  /** The item's partition; left out if it is unknown, and on a store of one. */
  readonly partition?: number;
  readonly failures: number;
  /** The message of the last failure. */
  readonly error: string;
  /** When the item is tried again, in epoch milliseconds by this process's clock. */
  readonly until: number;
}

export const failuresBefore = 3;
const firstMs = 10_000;
const longestMs = 3_600_000;
/** How long an item is still listed after its period, because a duty with a long sleep tries it again late. */
export const shownAfterMs = 900_000;
/** With more cases, the oldest one is dropped, and its item is tried again as if it had never failed. */
const casesMax = 10_000;
const errorCharsMax = 500;
/** How long a duty may work on one item, so that a hanging item does not use up the time of the whole pass. */
export const itemMaxMs = 20_000;

export class Quarantine {
  readonly #platform: Platform;
  readonly #cases = new BoundedMap<string, Case>(casesMax);

  readonly #failuresIn: Record<number, number> = {};
  readonly #partitionOf: (item: string) => number | null;

  /** @param partitionOf the partition of an item; null if it is unknown, and on a store of one. */
  constructor(platform: Platform, partitionOf: (item: string) => number | null = () => null) {
    this.#platform = platform;
    this.#partitionOf = partitionOf;
  }

  /** How often items failed, by partition. */
  get failuresIn(): ByPartition {
    return this.#failuresIn;
  }

  /** Whether the item is in quarantine now. */
  has(item: string): boolean {
    const found = this.#cases.get(item);
    return (
      found !== undefined && found.failures >= failuresBefore && this.#platform.monotonicUs() < found.untilUs
    );
  }

  failed(item: string, error: unknown): void {
    if (isStoreAway(error)) return;
    const partition = this.#partitionOf(item);
    if (partition !== null) this.#failuresIn[partition] = (this.#failuresIn[partition] ?? 0) + 1;
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
      .map(([item, { failures, error, until }]) => {
        const partition = this.#partitionOf(item);
        return { item, ...(partition === null ? {} : { partition }), failures, error, until };
      });
  }
}

/**
 * Whether the store was away: nothing happened, and the same call may succeed later. An unanswered call is not counted
 * so, because the cause may be the item, such as a write that always takes too long.
 */
export function isStoreAway(error: unknown): boolean {
  return isMillraceError(error) && error.retryable && error.outcome === "did-not-happen";
}

export function errorText(error: unknown): string {
  return String(error instanceof Error ? error.message : error).slice(0, errorCharsMax);
}
