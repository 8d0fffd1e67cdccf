/**
 * Logs when a partition of the store begins to fail and when it is back: once each, and not with every call
 * that passes it over. Looked at after the passes of duties, because those call all partitions all the time.
 */
import type { MissingPartition, Store } from "../../store/store.ts";
import type { Logger } from "./logger.ts";

export class MissingPartitions {
  readonly #store: Pick<Store, "missing">;
  readonly #log: Logger;
  /** Those that were logged, with their failures when they were last seen. */
  readonly #emitted = new Map<number, MissingPartition>();

  constructor(store: Pick<Store, "missing">, log: Logger) {
    this.#store = store;
    this.#log = log;
  }

  look(): void {
    const missing = this.#store.missing?.() ?? [];
    if (missing.length === 0 && this.#emitted.size === 0) return;
    for (const each of missing) {
      const { number, failures, error } = each;
      if (!this.#emitted.has(number))
        this.#log.warn("a partition of the store fails and is passed over until it answers", {
          partition: number,
          failures,
          error,
        });
      this.#emitted.set(number, each);
    }
    for (const [number, { failures }] of this.#emitted) {
      if (missing.some((each) => each.number === number)) continue;
      this.#emitted.delete(number);
      this.#log.info("a partition of the store is back", { partition: number, failures });
    }
  }
}
