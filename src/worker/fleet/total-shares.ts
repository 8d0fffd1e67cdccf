/**
 * This worker's shares of queues that have a total. All workers read the totals and the workers that share them from
 * the same registry (engine/fleet/registration.ts) and divide by the same rule (model/fleet/slot-shares.ts).
 *
 *   the registry lists this worker with the queue    its share
 *   it does not yet                                  ceil(total / workers that share it), this worker included
 *   the registry cannot be read                      the last known share; before the first read it counts as alone
 *
 * For a second or two workers may see different registries, and their shares may add up to more than the total. So a
 * total is a target; use a limit for what must never be exceeded. A running job is never cancelled for a share.
 */
import { firstShare, shareSlots } from "../../model/fleet/slot-shares.ts";
import type { ShareMember } from "../../model/fleet/slot-shares.ts";
import type { LiveWorker, WorkerRegistration } from "../../engine/fleet/registration.ts";

export interface TotalSharesOptions {
  readonly owner: string;
  /** This process, as the registry names it. */
  readonly process: string;
  readonly slotsMax: number;
  readonly weights: Readonly<Record<string, number>>;
  /** The totals of the queues that it serves, as far as they are known. */
  readonly totals: () => Readonly<Record<string, number>>;
}

type Sharer = Pick<WorkerRegistration, "totals" | "weights" | "slotsMax" | "mode" | "startedAt"> &
  Pick<LiveWorker, "worker" | "process">;

export class TotalShares {
  readonly #options: TotalSharesOptions;
  /** The workers that take jobs; null before the registry was read. */
  #fleet: readonly Sharer[] | null = null;
  #shares: ReadonlyMap<string, number> = new Map();

  constructor(options: TotalSharesOptions) {
    this.#options = options;
  }

  get hasTotals(): boolean {
    return Object.keys(this.#options.totals()).length > 0;
  }

  /** Slots of this queue; null for a queue without a total. */
  of(queue: string): number | null {
    return Object.hasOwn(this.#options.totals(), queue) ? (this.#shares.get(queue) ?? 0) : null;
  }

  seen(workers: readonly LiveWorker[]): void {
    this.#fleet = workers.filter(({ mode }) => mode === "working");
    this.compute();
  }

  unseen(): void {
    this.#fleet ??= [];
    this.compute();
  }

  /** Divides again, by what is known now. */
  compute(): void {
    const fleet = this.#fleet;
    if (fleet === null) return;
    const { owner, process, slotsMax, weights } = this.#options;
    const listed = fleet.find(({ worker }) => worker === owner)?.totals ?? {};
    const assigned = shareSlots(totalsOf(fleet), fleet.map(memberOf)).get(owner) ?? new Map<string, number>();
    const shares = new Map(assigned);
    for (const [queue, total] of Object.entries(this.#options.totals())) {
      if (Object.hasOwn(listed, queue)) continue;
      const others = fleet.filter(({ totals }) => Object.hasOwn(totals, queue));
      shares.set(queue, firstShare(total, others.length + 1, slotsMax));
    }
    // First shares are added to the assigned ones, so both together are fitted into `slotsMax`.
    const own = memberOf({ worker: owner, process, totals: Object.fromEntries(shares), weights, slotsMax });
    this.#shares = shareSlots(shares, [own]).get(owner) ?? shares;
  }
}

function memberOf({
  worker,
  process,
  totals,
  weights,
  slotsMax,
}: Pick<Sharer, "worker" | "process" | "totals" | "weights" | "slotsMax">): ShareMember {
  const queues = Object.keys(totals).map((queue) => [queue, weights[queue] ?? 1]);
  return { id: worker, process, weights: Object.fromEntries(queues) as ShareMember["weights"], slotsMax };
}

/**
 * If workers name different totals of a queue, as during a deployment, the total of the worker that started last
 * counts.
 */
function totalsOf(fleet: readonly Sharer[]): ReadonlyMap<string, number> {
  const byAge = fleet.toSorted(
    (one, other) => one.startedAt - other.startedAt || (one.worker < other.worker ? -1 : 1),
  );
  return new Map(byAge.flatMap(({ totals }) => Object.entries(totals)));
}
