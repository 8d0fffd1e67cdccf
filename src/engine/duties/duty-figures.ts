/**
 * The figures of one duty in one process since its start. They are part of the registration of the process
 * (engine/fleet/registration.ts), so operators see the duties of the whole fleet.
 */
import type { Platform } from "../../platform/platform.ts";
import { addByPartition } from "../../store/partitioned/by-partition.ts";
import type { ByPartition } from "../../store/partitioned/by-partition.ts";
import type { DutyPass } from "./duty.ts";

export interface DutyFigures {
  /** Passes that were completed. */
  readonly passes: number;
  readonly processed: number;
  /** Items, partitions and passes that failed. */
  readonly errors: number;
  /** Items in quarantine for now. */
  readonly quarantined: number;
  /** How long ago the last pass was completed, when the figures were read; null before the first. */
  readonly lastPassMs: number | null;
  /** The partitions that the last pass skipped; left out if there are none. */
  readonly missing?: readonly number[];
  /** The figures that are known per partition; left out if there are none, as is a partition without figures. */
  readonly partitions?: Readonly<Record<number, PartitionFigures>>;
}

/** A count of 0 is left out. */
export interface PartitionFigures {
  readonly processed?: number;
  readonly errors?: number;
  readonly quarantined?: number;
  /** For a partition that the last pass skipped: how long ago a pass reached it; null for never. */
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
  /** When each partition that is missing now was last reached; null for never. */
  #reachedUs = new Map<number, number | null>();

  constructor(platform: Platform) {
    this.#platform = platform;
  }

  /** @param pass null if it failed. */
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

  /** Another process has seen what a pass would have found. */
  seen(): void {
    this.#lastUs = this.#platform.monotonicUs();
  }

  /** @param cases the quarantined items. @param failuresIn how often items failed, by partition. */
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
