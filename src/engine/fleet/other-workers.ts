/**
 * The workers of other processes, as far as this one knows. If there are some, claims wait for them a little
 * (fallback-delay.ts) and leave permits to them (claim-triggers.ts).
 */
import type { DocPut } from "../../store/records.ts";
import { leftPut } from "./registration.ts";
import type { LiveWorker } from "./registration.ts";

export class OtherWorkers {
  #seen: ReadonlySet<string> = new Set();

  /** How many there were when the registry was read last. */
  get count(): number {
    return this.#seen.size;
  }

  /**
   * @param own the workers of this process.
   * @returns the events of those that disappeared. A worker that was killed emits nothing: whoever misses its
   * registration does, and the first put is applied.
   */
  see(workers: readonly LiveWorker[], own: ReadonlySet<string>): readonly DocPut[] {
    const others = new Set(workers.map(({ worker }) => worker).filter((worker) => !own.has(worker)));
    const missed = [...this.#seen].filter((worker) => !others.has(worker) && !own.has(worker));
    this.#seen = others;
    return missed.map((worker) => leftPut(worker, false));
  }
}
