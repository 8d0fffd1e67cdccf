/**
 * What one duty of one process has done since the process started. It travels in the registration of the
 * process (engine/fleet/registration.ts), so that operators see the duties of the whole fleet.
 */
import type { Platform } from "../../platform/platform.ts";
import { addByPartition } from "../../store/partitioned/by-partition.ts";
import type { ByPartition } from "../../store/partitioned/by-partition.ts";
import type { DutyPass } from "./duty.ts";

export interface DutyFigures {
  /** Passes that came to their end. */
  readonly passes: number;
  readonly processed: number;
  /** Items and partitions that failed, and passes that did. */
  readonly errors: number;
  /** Items that it quarantines for now. */
  readonly quarantined: number;
  /** How long ago the last pass came to its end, when the figures were read; null before the first. */
  readonly lastPassMs: number | null;
  /** The partitions that the last pass passed over; left out for none. */
  readonly missing?: readonly number[];
  /**
   * What can be told of single partitions; left out for nothing, as is a partition of which there is nothing to tell.
   */
  readonly partitions?: Readonly<Record<number, PartitionFigures>>;
}

/** A count of 0 is left out. */
export interface PartitionFigures {
  readonly processed?: number;
  readonly errors?: number;
  readonly quarantined?: number;
  /** Of one that the last pass passed over: how long ago one did not; null for never. */
  readonly lastPassMs?: number | null;
}

export class DutyCount {
  readonly #platform: Platform;
  #passes = 0;
  #processed = 0;
  #errors = 0;
  #lastUs: number | null = null;
  #missing: readonly number[] = [];
  #processedIn: ByPartition = {};
  #missedIn: ByPartition = {};
  /** When the partitions that are missing were last reached; null for never. */
  #reachedUs = new Map<number, number | null>();

  constructor(platform: Platform) {
    this.#platform = platform;
  }

  /** @param pass null for one that failed. */
  ended(pass: DutyPass | null): void {
    this.#errors += pass?.errors ?? 1;
    if (pass === null) return;
    this.#passes += 1;
    this.#processed += pass.processed;
    const { processedIn, missing = [] } = pass;
    this.#processedIn = addByPartition(this.#processedIn, processedIn) ?? {};
    if (missing.length > 0)
      this.#missedIn =
        addByPartition(this.#missedIn, Object.fromEntries(missing.map((each) => [each, 1]))) ?? {};
    const reachedUs = (partition: number): number | null => this.#reachedUs.get(partition) ?? this.#lastUs;
    this.#reachedUs = new Map(missing.map((partition) => [partition, reachedUs(partition)]));
    this.#lastUs = this.#platform.monotonicUs();
    this.#missing = missing;
  }

  /** Somebody else has seen what a pass would have looked for. */
  seen(): void {
    this.#lastUs = this.#platform.monotonicUs();
  }

  /** @param cases what the duty quarantines. @param failuresIn how often its items failed, by partition. */
  read(cases: readonly { readonly partition?: number }[], failuresIn: ByPartition): DutyFigures {
    const partitions = this.#readPartitions(cases, failuresIn);
    return {
      ...{
        passes: this.#passes,
        processed: this.#processed,
        errors: this.#errors,
        quarantined: cases.length,
      },
      lastPassMs: this.#sinceMs(this.#lastUs),
      ...(this.#missing.length === 0 ? {} : { missing: this.#missing }),
      ...(Object.keys(partitions).length === 0 ? {} : { partitions }),
    };
  }

  #readPartitions(
    cases: readonly { readonly partition?: number }[],
    failuresIn: ByPartition,
  ): Readonly<Record<number, PartitionFigures>> {
    const emitted: Record<number, PartitionFigures> = {};
    const emit = (field: "processed" | "errors" | "quarantined", counts: ByPartition | undefined): void => {
      for (const [partition, count] of Object.entries(counts ?? {}))
        if (count > 0) emitted[Number(partition)] = { ...emitted[Number(partition)], [field]: count };
    };
    emit("processed", this.#processedIn);
    emit("errors", addByPartition(this.#missedIn, failuresIn));
    const quarantinedIn: Record<number, number> = {};
    for (const { partition } of cases)
      if (partition !== undefined) quarantinedIn[partition] = (quarantinedIn[partition] ?? 0) + 1;
    emit("quarantined", quarantinedIn);
    for (const [partition, reachedUs] of this.#reachedUs)
      emitted[partition] = { ...emitted[partition], lastPassMs: this.#sinceMs(reachedUs) };
    return emitted;
  }

  #sinceMs(us: number | null): number | null {
    return us === null ? null : Math.round((this.#platform.monotonicUs() - us) / 1000);
  }
}
