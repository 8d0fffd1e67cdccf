/** Which leases the workers of this process hold right now: asked by the reclaim duty before it takes one away. */
import type { LeaseRef } from "../store/records.ts";

export class LeaseBook {
  readonly #holders = new Set<(lease: LeaseRef) => boolean>();

  /** @returns takes the holder out again. */
  addHolder(isHeld: (lease: LeaseRef) => boolean): () => void {
    this.#holders.add(isHeld);
    return () => this.#holders.delete(isHeld);
  }

  isHeldHere(lease: LeaseRef): boolean {
    for (const isHeld of this.#holders) if (isHeld(lease)) return true;
    return false;
  }
}
