/**
 * What the other processes see of a worker: its registration and its totals; and what the worker does when a heartbeat
 * brings a desired state, a cancel or a new list of workers.
 */
import type { Needs } from "../../engine/services.ts";
import type { DesiredState } from "../../engine/fleet/change-numbers.ts";
import type { RegisteredWorker } from "../../engine/fleet/heartbeat.ts";
import type {
  CurrentJob,
  LiveWorker,
  WorkerMode,
  WorkerRegistration,
} from "../../engine/fleet/registration.ts";
import type { Aborting } from "../run/aborting.ts";
import type { Leases } from "../lease/leases.ts";
import type { WorkerRenewal } from "../lease/renewal.ts";
import type { Pool } from "../claim/pool.ts";
import type { RouteMap } from "../claim/route-map.ts";
import { TotalShares } from "./total-shares.ts";
import type { ServedQueue, WorkerSettings } from "../worker-settings.ts";

type FleetMemberNeeds = Needs<"platform" | "queuePolicies" | "heartbeat">;

/** A registration lists up to this many jobs; `running` counts them all. */
const jobsListedMax = 20;

export interface FleetMemberOptions {
  readonly settings: WorkerSettings;
  readonly served: ReadonlyMap<string, ServedQueue>;
  readonly names: readonly string[];
  /** Of durable handlers. */
  readonly versions: Readonly<Record<string, readonly number[]>>;
  readonly leases: Leases;
  readonly routes: RouteMap;
  readonly aborting: Aborting;
  readonly renewal: WorkerRenewal;
  readonly mode: () => WorkerMode;
  readonly running: () => number;
  readonly desired: (desired: DesiredState) => void;
  /** The shares of totals may have changed. */
  readonly sharesChanged: () => void;
}

export class FleetMember implements RegisteredWorker {
  readonly owner: string;
  readonly shares: TotalShares;
  readonly #needs: FleetMemberNeeds;
  readonly #options: FleetMemberOptions;
  readonly #queues: readonly string[];
  readonly #weights: Readonly<Record<string, number>>;
  #startedAt = 0;

  constructor(needs: FleetMemberNeeds, options: FleetMemberOptions) {
    const { settings, served } = options;
    this.#needs = needs;
    this.#options = options;
    this.owner = settings.owner;
    this.#queues = [...served.keys()];
    const weighty = [...served].filter(([, { weight }]) => weight !== 1);
    this.#weights = Object.fromEntries(weighty.map(([queue, { weight }]) => [queue, weight]));
    this.shares = new TotalShares({
      owner: this.owner,
      process: needs.heartbeat.process,
      slotsMax: settings.slotsMax,
      weights: this.#weights,
      totals: () => this.totals(),
    });
  }

  start(): void {
    this.#startedAt = this.#needs.platform.now();
  }

  get hasTotals(): boolean {
    return this.shares.hasTotals;
  }

  /** The total that an operator has set, else the one of the worker's options. */
  totals(): Readonly<Record<string, number>> {
    const { queuePolicies } = this.#needs;
    const totals: Record<string, number> = {};
    for (const [queue, { total }] of this.#options.served) {
      const decided = queuePolicies.of(queue).total ?? total;
      if (decided !== null) totals[queue] = decided;
    }
    return totals;
  }

  registration(): WorkerRegistration {
    const { settings, names, versions, routes, aborting, mode, running } = this.#options;
    return {
      label: settings.label,
      mode: mode(),
      queues: this.#queues,
      names,
      capabilities: settings.capabilities,
      ...(Object.keys(versions).length === 0 ? {} : { versions }),
      slots: slotsOf(routes.pools),
      totals: this.totals(),
      weights: this.#weights,
      slotsMax: settings.slotsMax,
      running: running(),
      jobs: this.#currentJobs(),
      abandoned: aborting.abandoned,
      startedAt: this.#startedAt,
    };
  }

  desired(desired: DesiredState): void {
    this.#options.desired(desired);
  }

  /**
   * The change number is read up to a second after the cancel. By then, after a replay, another attempt of the job may
   * run that nobody cancelled. So the worker renews its leases, and the answer says which jobs to cancel.
   */
  cancelsChanged(): void {
    this.#options.renewal.renewAll();
  }

  fleetSeen(workers: readonly LiveWorker[]): void {
    this.shares.seen(workers);
    this.#options.sharesChanged();
  }

  fleetUnseen(): void {
    this.shares.unseen();
    this.#options.sharesChanged();
  }

  #currentJobs(): readonly CurrentJob[] {
    const { leases, routes } = this.#options;
    const nowUs = this.#needs.platform.monotonicUs();
    const jobs: CurrentJob[] = [];
    for (const { phase, job, startedUs } of leases.values()) {
      if (phase !== "running") continue;
      const { queue, name } = routes.titleOf(job);
      jobs.push({
        id: job.id,
        queue,
        name,
        attempt: job.attempt,
        runningMs: Math.floor((nowUs - startedUs) / 1000),
      });
      if (jobs.length === jobsListedMax) break;
    }
    return jobs;
  }
}

/** By queue: the slots of the pools that are at home there, or of its largest pool if none is. */
function slotsOf(pools: readonly Pick<Pool, "queue" | "slots" | "isHome">[]): Record<string, number> {
  const slots: Record<string, number> = {};
  for (const { queue, slots: own, isHome } of pools) if (isHome) slots[queue] = (slots[queue] ?? 0) + own;
  const homes = new Set(Object.keys(slots));
  for (const { queue, slots: own } of pools)
    if (!homes.has(queue)) slots[queue] = Math.max(slots[queue] ?? 0, own);
  return slots;
}
