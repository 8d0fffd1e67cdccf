/**
 * Ids of new jobs, and the partitions that jobs lie in. A unit is written in one step, so all of it gets such ids that
 * it lies in one partition. The rules are the model's (model/routing/placement.ts).
 */
import { createIdMinter } from "../../model/job/job-id.ts";
import { createPlacement, gatherJobs, partitionOfUnit } from "../../model/routing/placement.ts";
import type { Placement, Unit } from "../../model/routing/placement.ts";
import type { Platform } from "../../platform/platform.ts";
import type { SubmitUnit } from "../../store/operations.ts";
import type { Effects } from "../../store/records.ts";

export class JobIds {
  /** @param partition left out: any. */
  readonly mint: (partition?: number) => string;
  /** Null for a store of one partition. */
  readonly placement: Placement | null;

  constructor(platform: Pick<Platform, "now" | "random">, partitions: number) {
    const sources = { now: () => platform.now(), random: () => platform.random() };
    this.mint = createIdMinter(sources, { partitions });
    this.placement = partitions === 1 ? null : createPlacement(partitions);
  }

  /** A new id that lies in the partition of the given one. */
  mintBeside(id: string): string {
    return this.placement === null ? this.mint() : this.mint(this.placement.ofId(id));
  }

  /**
   * The same unit with such minted ids that all of it lies in one partition; `home` is the id of the job whose settle
   * carries the unit.
   */
  placed<Unit extends Effects & Pick<SubmitUnit, "checks">>(unit: Unit, home?: string): Unit {
    const { placement } = this;
    if (placement === null) return unit;
    const { jobs = [], docs, checks } = unit;
    const at = home === undefined ? null : placement.ofId(home);
    return { ...unit, jobs: gatherJobs(placement, { jobs, docs, checks }, this.mint, at) };
  }

  /** Refuses what cannot be written in one step with the end of this job, because it lies in another partition. */
  checkBeside(home: string, unit: Unit): void {
    if (this.placement !== null) partitionOfUnit(this.placement, unit, this.placement.ofId(home));
  }

  /** What an error of an unknown outcome names. Ids of members begin with that of their flow, so they are left out. */
  static named({ jobs }: Pick<SubmitUnit, "jobs">): readonly string[] {
    return jobs.filter(({ flow = null }) => flow === null).map(({ id }) => id);
  }

  /** The items as one list per partition. */
  byPartition<Item>(items: readonly Item[], idOf: (item: Item) => string): readonly (readonly Item[])[] {
    const { placement } = this;
    if (placement === null) return [items];
    return [...Map.groupBy(items, (item) => placement.ofId(idOf(item))).values()];
  }
}
