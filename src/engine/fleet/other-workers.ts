/**
 * The workers of other processes, as far as this one knows. If there are some, claims leave a hint to them for a moment
 * (fallback-delay.ts), and permits too (claim-triggers.ts).
 */
import type { DocPut } from "../../store/records.ts";
import { leftPut } from "./registration.ts";
import type { LiveWorker } from "./registration.ts";

export class OtherWorkers {
  #seen: ReadonlySet<string> = new Set();

  /** How many there were at the last read of the registry. */
  get count(): number {
    return this.#seen.size;
  }

  /**
   * @param own the workers of this process. @returns the events of workers that have disappeared. A killed worker emits
   * none, so every process that misses its registration does; the first put is applied.
   */
  see(workers: readonly LiveWorker[], own: ReadonlySet<string>): readonly DocPut[] {
    const others = new Set(workers.map(({ worker }) => worker).filter((worker) => !own.has(worker)));
    const missed = [...this.#seen].filter((worker) => !others.has(worker) && !own.has(worker));
    this.#seen = others;
    return missed.map((worker) => leftPut(worker, false));
  }
}
