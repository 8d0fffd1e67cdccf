/**
 * A worker as the fleet sees it: what its notice says, the totals that it takes part in, and what it does when its beat
 * brings an order, a cancel or a new list of workers.
 */
import type { Engine } from "../engine/engine.ts";
import type { WorkerOrder } from "../engine/worker-bell.ts";
import type { CurrentJob, LiveWorker, WorkerMode } from "../engine/worker-notice.ts";
import type { Aborting } from "./aborting.ts";
import type { BeatSeat } from "./beat-seat.ts";
import type { Leases } from "./leases.ts";
import type { RenewalSeat } from "./renewal.ts";
import type { RouteMap } from "./route-map.ts";
import { TotalShares } from "./total-shares.ts";
import type { ServedQueue, WorkerSettings } from "./worker-settings.ts";

/** More are counted, not listed. */
const jobsListedMax = 20;

export interface FleetSeatOptions {
  readonly settings: WorkerSettings;
  readonly served: ReadonlyMap<string, ServedQueue>;
  readonly names: readonly string[];
  readonly leases: Leases;
  readonly routes: RouteMap;
  readonly aborting: Aborting;
  readonly renewal: RenewalSeat;
  readonly mode: () => WorkerMode;
  readonly running: () => number;
  readonly ordered: (order: WorkerOrder) => void;
  /** The shares of totals may be others now. */
  readonly sharesChanged: () => void;
}

export class FleetSeat implements BeatSeat {
  readonly owner: string;
  readonly shares: TotalShares;
  readonly #engine: Engine;
  readonly #options: FleetSeatOptions;
  readonly #queues: readonly string[];
  readonly #weights: Readonly<Record<string, number>>;
  #startedAt = 0;

  constructor(engine: Engine, options: FleetSeatOptions) {
    const { settings, served } = options;
    this.#engine = engine;
    this.#options = options;
    this.owner = settings.owner;
    this.#queues = [...served.keys()];
    const weighty = [...served].filter(([, { weight }]) => weight !== 1);
    this.#weights = Object.fromEntries(weighty.map(([queue, { weight }]) => [queue, weight]));
    this.shares = new TotalShares({
      owner: this.owner,
      slotsMax: settings.slotsMax,
      weights: this.#weights,
      totals: () => this.totals(),
    });
  }

  start(): void {
    this.#startedAt = this.#engine.platform.now();
  }

  get hasTotals(): boolean {
    return this.shares.hasTotals;
  }

  /** What the operator has set, else what the code has declared. */
  totals(): Readonly<Record<string, number>> {
    const { queuePolicies } = this.#engine;
    const totals: Record<string, number> = {};
    for (const [queue, { total }] of this.#options.served) {
      const decided = queuePolicies.of(queue).total ?? total;
      if (decided !== null) totals[queue] = decided;
    }
    return totals;
  }

  notice(): ReturnType<BeatSeat["notice"]> {
    const { settings, names, routes, aborting, mode, running } = this.#options;
    const slots: Record<string, number> = {};
    for (const pool of routes.pools) slots[pool.queue] = (slots[pool.queue] ?? 0) + pool.slots;
    return {
      label: settings.label,
      mode: mode(),
      queues: this.#queues,
      names,
      capabilities: settings.capabilities,
      slots,
      totals: this.totals(),
      weights: this.#weights,
      slotsMax: settings.slotsMax,
      running: running(),
      jobs: this.#currentJobs(),
      abandoned: aborting.abandoned,
      startedAt: this.#startedAt,
    };
  }

  ordered(order: WorkerOrder): void {
    this.#options.ordered(order);
  }

  /**
   * A bell is heard up to a second behind the cancel. By then another attempt of the job may run, behind a replay,
   * whose cancel nobody has asked for: the renewal tells.
   */
  cancelRung(ids: readonly string[] | null): void {
    const { aborting, renewal } = this.#options;
    if (ids === null || aborting.hasUntold(ids)) renewal.renewAll();
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
    const nowUs = this.#engine.platform.monotonicUs();
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
