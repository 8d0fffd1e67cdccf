/**
 * The leases that this worker holds. An attempt is in the table from its claim until its settle is answered, or until
 * its lease is lost while it runs. The table has at most one attempt per job: a later claim of a job replaces the
 * earlier one.
 *
 * Lost leases are remembered by id and fence. The handler of such a lease may still run, so a search for the jobs of a
 * lost claim must not take the lease up again.
 */
import type { LeaseRef } from "../../store/records.ts";
import type { Attempt } from "../run/attempt.ts";

/** More leases than a worker loses within the length of one lease. */
const lostMax = 10_000;

/**
 * The table is copied to a new Map after N attempts, if N is also several times what it holds. A Map rebuilds its inner
 * table again and again as entries come and go, and in V8 each old table points to the next one. Once a full collection
 * had moved one of them to the old generation, all later ones were kept until the next full collection, with every
 * attempt in them: a quarter of what a drain allocates (0018).
 */
const renewedAfter = { attempts: 4096, times: 8 };

export class Leases {
  #held = new Map<string, Attempt>();
  /** How many were added since the Map was made. */
  #added = 0;
  readonly #lost = new Set<string>();
  readonly #ended: () => void;

  /** @param ended called whenever nothing of an attempt is left to do. */
  constructor(ended: () => void) {
    this.#ended = ended;
  }

  get size(): number {
    return this.#held.size;
  }

  values(): IterableIterator<Attempt> {
    return this.#held.values();
  }

  get(id: string): Attempt | undefined {
    return this.#held.get(id);
  }

  holds({ id, fence }: Pick<LeaseRef, "id" | "fence">): boolean {
    return this.#held.get(id)?.job.fence === fence;
  }

  /** @param earlier the attempt of an earlier claim of the same job, which the new one replaces. */
  add(attempt: Attempt, earlier: Attempt | undefined): void {
    if (earlier !== undefined) earlier.isHeld = false;
    attempt.isHeld = true;
    this.#held.set(attempt.job.id, attempt);
    this.#added += 1;
    const { attempts, times } = renewedAfter;
    if (this.#added >= attempts && this.#added >= times * this.#held.size) {
      this.#held = new Map(this.#held);
      this.#added = 0;
    }
  }

  /** An attempt whose settle is on its way stays until the settle is answered. */
  lose(attempt: Attempt): void {
    this.#lost.add(keyOf(attempt.job));
    if (this.#lost.size > lostMax) this.#lost.delete(this.#lost.values().next().value as string);
    if (attempt.phase === "running") this.#drop(attempt);
  }

  wasLost(lease: Pick<LeaseRef, "id" | "fence">): boolean {
    return this.#lost.has(keyOf(lease));
  }

  /** Nothing of this attempt is left to do in the store. */
  end(attempt: Attempt): void {
    attempt.phase = "ended";
    this.#drop(attempt);
    this.#ended();
  }

  #drop(attempt: Attempt): void {
    if (!attempt.isHeld) return;
    attempt.isHeld = false;
    this.#held.delete(attempt.job.id);
  }
}

function keyOf({ id, fence }: Pick<LeaseRef, "id" | "fence">): string {
  return `${id}:${fence}`;
}
