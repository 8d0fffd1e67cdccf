/**
 * The workers of other processes, as far as this one knows. If there are some, claims wait for them a little
 * (fallback-delay.ts) and leave permits to them (claims-after-settles.ts).
 */
import type { DocPut } from "../../store/records.ts";
import type { Engine } from "../engine.ts";
import { leftPut } from "./registration.ts";
import type { LiveWorker } from "./registration.ts";

export class OtherWorkers {
  readonly #engine: Pick<Engine, "fleet">;
  /** The workers of this process. */
  readonly #own: () => ReadonlySet<string>;
  #seen: ReadonlySet<string> = new Set();

  constructor(engine: Pick<Engine, "fleet">, own: () => ReadonlySet<string>) {
    this.#engine = engine;
    this.#own = own;
  }

  /**
   * @returns the events of those that disappeared. A worker that was killed emits nothing: whoever misses its
   * registration does, and the first put is applied.
   */
  see(workers: readonly LiveWorker[]): readonly DocPut[] {
    const own = this.#own();
    const others = new Set(workers.map(({ worker }) => worker).filter((worker) => !own.has(worker)));
    const missed = [...this.#seen].filter((worker) => !others.has(worker) && !own.has(worker));
    this.#seen = others;
    this.#engine.fleet.others = others.size;
    return missed.map((worker) => leftPut(worker, false));
  }
}
