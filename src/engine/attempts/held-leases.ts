/** The leases that workers of this process hold now. The reclaim duty asks before it takes one away. */
import type { LeaseRef } from "../../store/records.ts";

export class HeldLeases {
  readonly #workers = new Set<(lease: LeaseRef) => boolean>();

  /** @returns a function that ends this. */
  addHolder(isHeld: (lease: LeaseRef) => boolean): () => void {
    this.#workers.add(isHeld);
    return () => this.#workers.delete(isHeld);
  }

  isHeldHere(lease: LeaseRef): boolean {
    for (const isHeld of this.#workers) if (isHeld(lease)) return true;
    return false;
  }
}
