/**
 * The leases that this worker holds. An attempt is here from its claim until its settle is answered, or until its lease
 * is lost while it runs. At most one attempt per job is held: a later claim of the same job replaces an earlier one.
 *
 * Lost leases are remembered by id and fence. The handler may have run under such a lease, or may still run, so a
 * lookup for the jobs of a lost claim must not take it up again.
 */
import type { LeaseRef } from "../../store/records.ts";
import type { Attempt } from "../run/attempt.ts";

/** More leases than any worker loses within one lease's length. */
const lostMax = 10_000;

/**
 * The table is begun anew after so many attempts that are also so many times what it holds. A Map writes its table anew
 * again and again as entries come and go, and in V8 each table that is left points to the next one. From the first one
 * on that a full collection had moved to the old generation, all later ones were kept until the next full collection,
 * with every attempt in them: a quarter of what a drain allocates (0018).
 */
const renewedAfter = { attempts: 4096, times: 8 };

export class Leases {
  #held = new Map<string, Attempt>();
  /** Since the table was begun. */
  #added = 0;
  readonly #lost = new Set<string>();
  readonly #ended: () => void;

  /** @param ended told whenever nothing of an attempt is left to do. */
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

  /** @param earlier the attempt of an earlier claim of the same job that is held here, which it replaces. */
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

  /** An attempt whose settle is on its way stays until that is answered. */
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
