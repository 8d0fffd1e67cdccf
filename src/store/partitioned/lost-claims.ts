/**
 * Claims whose outcome their owner does not know, by owner and partition. None of them holds up a later claim.
 *
 *   open ──answered late, with jobs──► late ──handed out with the owner's next claim
 *    │                                  └──cannot be extended any more──┐
 *    └──failed, never answered ────────► lost ◄──────────────────────────┘
 *                                         └──the partition answers again──► the owner looks for jobs there
 *
 * A look for lost jobs in a partition also finds the jobs of its open and late claims, so these claims are given up
 * with it: no job is returned twice.
 */
import type { ClaimAnswer } from "../operations.ts";
import type { LeasedJob } from "../records.ts";
import { hopelessMs } from "./health.ts";
import { isAway } from "./partition.ts";
import type { Partition, Reached } from "./partition.ts";

interface OpenClaim {
  readonly sentMs: number;
  isGivenUp: boolean;
}

interface LateClaim {
  readonly partition: Partition;
  readonly sentMs: number;
  readonly jobs: readonly LeasedJob[];
}

class OwnerClaims {
  readonly open = new Map<Partition, OpenClaim>();
  late: LateClaim[] = [];
  readonly lost = new Set<Partition>();
  readonly emitted = new Set<Partition>();

  get isEmpty(): boolean {
    return this.open.size + this.late.length + this.lost.size + this.emitted.size === 0;
  }
}

export class LostClaims {
  readonly #owners = new Map<string, OwnerClaims>();
  readonly #nowMs: () => number;
  readonly #arrived: (jobs: readonly LeasedJob[]) => void;

  /** @param arrived called when jobs of a late answer wait for the owner's next claim. */
  constructor(nowMs: () => number, arrived: (jobs: readonly LeasedJob[]) => void) {
    this.#nowMs = nowMs;
    this.#arrived = arrived;
  }

  /** No claim is open, late or lost. */
  get isEmpty(): boolean {
    return this.#owners.size === 0;
  }

  /** A claim that was not answered in time. */
  isOpen(owner: string, partition: Partition, sentMs: number, later: Promise<Reached<ClaimAnswer>>): void {
    const claim: OpenClaim = { sentMs, isGivenUp: false };
    this.#of(owner).open.set(partition, claim);
    void later.then((end) => {
      const claims = this.#of(owner);
      if (claims.open.get(partition) === claim) claims.open.delete(partition);
      if (end.kind === "failed") this.failed(owner, partition, end.error);
      else if (end.kind === "answered" && end.answer.jobs.length > 0) {
        if (claim.isGivenUp) claims.lost.add(partition);
        else claims.late.push({ partition, sentMs, jobs: end.answer.jobs });
        this.#arrived(end.answer.jobs);
      }
      this.#tidy(owner);
    });
  }

  failed(owner: string, partition: Partition, error: unknown): void {
    if (!isAway(error)) this.isLost(owner, partition);
  }

  isLost(owner: string, partition: Partition): void {
    this.#of(owner).lost.add(partition);
  }

  /** Whether the outcome of a claim is still open there: the owner does not claim in that partition meanwhile. */
  holdsUp(owner: string, partition: Partition): boolean {
    const claims = this.#owners.get(owner);
    if (claims === undefined) return false;
    const open = claims.open.get(partition);
    // The partition answers, but not this claim: stop waiting for it.
    if (open !== undefined && !partition.health.isAway && this.#nowMs() - open.sentMs >= hopelessMs) {
      open.isGivenUp = true;
      claims.open.delete(partition);
      claims.lost.add(partition);
    }
    return claims.open.has(partition) || claims.lost.has(partition);
  }

  /** Late jobs to return now: those of claims that were sent at `sinceMs` or later, or all. */
  takeLate(owner: string, sinceMs = Number.NEGATIVE_INFINITY): readonly LateClaim[] {
    const claims = this.#owners.get(owner);
    if (claims === undefined || claims.late.length === 0) return [];
    const taken = claims.late.filter(({ sentMs }) => sentMs >= sinceMs);
    claims.late = claims.late.filter(({ sentMs }) => sentMs < sinceMs);
    this.#tidy(owner);
    return taken;
  }

  /** Whether the owner should look for jobs now: in partitions that answer again, or in all that are left. */
  emit(owner: string, isAnywhere = false): boolean {
    const claims = this.#owners.get(owner);
    if (claims === undefined) return false;
    for (const partition of claims.lost) {
      if (!isAnywhere && !partition.health.mayAsk("extendIfLeased")) continue;
      claims.lost.delete(partition);
      claims.emitted.add(partition);
    }
    return claims.emitted.size > 0;
  }

  /** Where an owner should look for jobs; null for everywhere. */
  whereAnswered(owner: string): ReadonlySet<Partition> | null {
    const emitted = this.#owners.get(owner)?.emitted;
    return emitted === undefined || emitted.size === 0 ? null : emitted;
  }

  /** A look for jobs of this owner goes out to the partition. */
  looksIn(owner: string, partition: Partition): void {
    const claims = this.#owners.get(owner);
    if (claims === undefined) return;
    const open = claims.open.get(partition);
    if (open !== undefined) open.isGivenUp = true;
    claims.late = claims.late.filter((late) => late.partition !== partition);
    claims.lost.delete(partition);
    claims.emitted.delete(partition);
    this.#tidy(owner);
  }

  #of(owner: string): OwnerClaims {
    let claims = this.#owners.get(owner);
    if (claims === undefined) this.#owners.set(owner, (claims = new OwnerClaims()));
    return claims;
  }

  #tidy(owner: string): void {
    if (this.#owners.get(owner)?.isEmpty === true) this.#owners.delete(owner);
  }
}
