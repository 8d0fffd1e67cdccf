/**
 * Gives claimed jobs to free slots: jobs become attempts, wait in their pool for a slot, run, and make room for the
 * next. A job that cannot run here goes back at once and uses up no attempt: no pool serves it, it arrives after the
 * stop, or its lease had ended when the claim was answered. A job with an unreadable record ends here, and the other
 * jobs go on.
 */
import type { Needs } from "../../engine/services.ts";
import type { DecidedPolicy } from "../../model/job/job-policy.ts";
import { unreadableParts } from "../../model/job/unreadable-parts.ts";
import type { LeasedJob } from "../../store/records.ts";
import type { Aborting } from "./aborting.ts";
import { Attempt } from "./attempt.ts";
import { endUnreadable } from "../settle/attempt-end.ts";
import type { AttemptRunner } from "./attempt-runner.ts";
import { BatchPool } from "../claim/batch-pool.ts";
import type { ClaimTriggers } from "../claim/claim-triggers.ts";
import type { SingleHandler } from "../handler.ts";
import type { Leases } from "../lease/leases.ts";
import type { Pool } from "../claim/pool.ts";
import type { RouteMap } from "../claim/route-map.ts";
import type { Settling } from "../settle/settling.ts";
import type { TotalShares } from "../fleet/total-shares.ts";

export type SlotsNeeds = Needs<
  "store" | "platform" | "strideMs" | "backoffs" | "log" | "repeated" | "queuePolicies" | "policies"
>;

export interface SlotsOptions {
  readonly owner: string;
  readonly leaseMs: number;
  readonly leases: Leases;
  readonly shares: TotalShares;
  readonly routes: RouteMap;
  readonly runner: AttemptRunner;
  readonly settling: Settling;
  readonly aborting: Aborting;
  readonly triggers: ClaimTriggers;
}

export class Slots {
  readonly #needs: SlotsNeeds;
  readonly #options: SlotsOptions;
  #running = 0;
  #isClosed = false;

  constructor(needs: SlotsNeeds, options: SlotsOptions) {
    this.#needs = needs;
    this.#options = options;
  }

  /** Jobs whose handler is running now. What was sent ahead to a sandbox waits there. */
  get running(): number {
    let ahead = 0;
    for (const pool of this.#options.routes.pools) ahead += pool.sentAhead;
    return this.#running - ahead;
  }

  /** @param leasedUs when the claim was sent (monotonic): the leases count from then. */
  arrive(jobs: readonly LeasedJob[], leasedUs: number): void {
    const { owner, leaseMs, leases, routes, settling, aborting } = this.#options;
    // The answer took as long as the lease: another worker may have the jobs by now, so none is started.
    const nowUs = this.#needs.platform.monotonicUs();
    const isLate = nowUs - leasedUs >= leaseMs * 1000;
    if (isLate)
      this.#needs.log.warn("a claim was answered after its leases had ended; its jobs go back", {
        jobs: jobs.length,
      });
    const { claimsAhead, claimsOvertake } = this.#needs.store;
    const isTimed = claimsAhead === true && claimsOvertake !== true;
    const origin = { owner, leasedUs, leaseMs, settling, aborting };
    const touched = new Set<Pool>();
    for (let place = 0; place < jobs.length; place++) {
      const job = jobs[place] as LeasedJob;
      // The same claim may arrive twice: by its own late reply, and by the search for lost claims.
      const earlier = leases.get(job.id);
      if (earlier?.job.fence === job.fence) continue;
      const attempt = new Attempt(job, this.#policyOf(job), origin);
      leases.add(attempt, earlier);
      // This worker has claimed the job again, so the earlier attempt has lost its lease.
      if (earlier !== undefined) aborting.leaseLost(earlier);
      const pool = routes.poolOf(job);
      if (pool === undefined || this.#isClosed || isLate) {
        settling.handBack(attempt);
        continue;
      }
      const unreadable = unreadableParts(job, attempt.policy);
      if (unreadable.length > 0) {
        settling.settle(attempt, endUnreadable(this.#needs, attempt, unreadable));
        continue;
      }
      pool.push(attempt);
      touched.add(pool);
    }
    for (const pool of touched) {
      if (isTimed) pool.arrived(nowUs);
      this.#fill(pool);
    }
  }

  /**
   * The settings of queues or this worker's share of a total have changed. The policies of held jobs and the slots of
   * pools are computed again. Running jobs go on. If a queue has no slots any more, its waiting jobs go back.
   *
   * @returns whether a queue has more or fewer slots now.
   */
  queuesChanged(): boolean {
    const { leases, routes, settling, shares } = this.#options;
    const { queuePolicies } = this.#needs;
    for (const attempt of leases.values()) attempt.policy = this.#policyOf(attempt.job);
    if (this.#isClosed) return false;
    let isChanged = false;
    for (const pool of routes.pools) {
      const share = shares.of(pool.queue);
      const { localConcurrency } = queuePolicies.of(pool.queue);
      const ofQueue =
        share === null ? (localConcurrency ?? pool.ownSlots) : Math.min(share, localConcurrency ?? share);
      const slots = Math.min(ofQueue, pool.slotsMax);
      // The options of a batch handler fix how many batches run at once.
      if (pool instanceof BatchPool || pool.slots === slots) continue;
      pool.slots = slots;
      isChanged = true;
      if (slots === 0) for (const attempt of pool.takeAll()) settling.handBack(attempt);
      pool.addDemand();
      this.#fill(pool);
    }
    return isChanged;
  }

  #policyOf(job: LeasedJob): DecidedPolicy {
    const { queuePolicies } = this.#needs;
    const queue = queuePolicies.isEmpty ? undefined : this.#options.routes.titleOf(job).queue;
    return this.#needs.policies.read(job.policy, queue);
  }

  /** Jobs that arrive from now on go back. */
  close(): void {
    this.#isClosed = true;
  }

  handBackWaiting(): void {
    const { routes, settling } = this.#options;
    for (const pool of routes.pools) {
      if (pool instanceof BatchPool) pool.stop();
      for (const attempt of pool.takeAll()) settling.handBack(attempt);
    }
  }

  #fill(pool: Pool): void {
    if (pool instanceof BatchPool) {
      pool.fill(this.#needs.platform, (attempts) => this.#startBatch(pool, attempts));
    } else {
      while (pool.busySlots < pool.room) {
        const attempt = pool.take();
        if (attempt === undefined) break;
        this.#start(pool, attempt);
      }
    }
    this.#options.triggers.request();
  }

  #start(pool: Pool, attempt: Attempt): void {
    const { runner, routes } = this.#options;
    pool.busySlots += 1;
    this.#running += 1;
    runner.run(attempt, routes.handlerOf(attempt.job) as SingleHandler, this.#ended);
  }

  /** One function for all attempts; it finds the pool by the job. */
  readonly #ended = (attempt: Attempt): void => {
    const pool = this.#options.routes.poolOf(attempt.job) as Pool;
    this.#running -= 1;
    this.#free(pool, 1, attempt.isMember, heldPermits(attempt) ? attempt : undefined);
  };

  /** A batch takes one slot, which is free when its last job has ended. */
  #startBatch(pool: BatchPool, attempts: readonly Attempt[]): void {
    let left = attempts.length;
    pool.busySlots += 1;
    this.#running += left;
    this.#options.runner.runBatch(attempts, pool.handler, () => {
      this.#running -= 1;
      left -= 1;
      if (left === 0)
        this.#free(
          pool,
          attempts.length,
          attempts.some(({ isMember }) => isMember),
          attempts.find(heldPermits),
        );
    });
  }

  /** @param holder one of the attempts that held permits. */
  #free(pool: Pool, count: number, hasMember: boolean, holder: Attempt | undefined): void {
    pool.busySlots -= 1;
    pool.finished(count);
    if (pool.isEmpty) pool.emptied(this.#needs.platform.monotonicUs());
    const { triggers } = this.#options;
    if (hasMember) triggers.memberEnded();
    if (holder !== undefined) triggers.permitsEnded(pool, holder.job);
    this.#fill(pool);
  }
}

function heldPermits({ policy, job }: Attempt): boolean {
  return policy.limits.length > 0 || job.keyGates !== undefined;
}
