/**
 * The workers of other processes, as far as this one knows. Where there are some, claims stand by for them
 * (claim-stand-by.ts) and leave permits to them (claims-behind.ts).
 *
 * They are counted behind the first notice of a worker and every minute; and whenever somebody rings, by who knows of
 * nobody. Of two that join at once the one whose notice comes later sees the other, and rings.
 */
import type { Engine } from "../engine/engine.ts";
import { leftPut, readNotices } from "../engine/worker-notice.ts";
import type { LiveWorker } from "../engine/worker-notice.ts";
import type { DocPut } from "../store/records.ts";

interface Registry {
  /** The workers of this process. */
  readonly own: () => ReadonlySet<string>;
  readonly put: (puts: readonly DocPut[]) => Promise<unknown>;
}

export class OtherWorkers {
  readonly #engine: Engine;
  readonly #registry: Registry;
  #seen: ReadonlySet<string> = new Set();

  constructor(engine: Engine, registry: Registry) {
    this.#engine = engine;
    this.#registry = registry;
  }

  get count(): number {
    return this.#seen.size;
  }

  /** When the first of their notices runs out, by the store's clock. */
  firstEnd(workers: readonly LiveWorker[]): number {
    return Math.min(
      ...workers.filter(({ worker }) => this.#seen.has(worker)).map(({ expiresAt }) => expiresAt),
    );
  }

  async look(): Promise<void> {
    try {
      this.see(await readNotices(this.#engine.store, true));
    } catch (error) {
      this.#engine.log.debug("the registry of workers could not be counted", { error });
    }
  }

  see(workers: readonly LiveWorker[]): void {
    const own = this.#registry.own();
    const others = new Set(workers.map(({ worker }) => worker).filter((worker) => !own.has(worker)));
    // A worker that was killed tells nothing: whoever misses its notice does, and the first of them is heard.
    const missed = [...this.#seen].filter((worker) => !others.has(worker) && !own.has(worker));
    if (missed.length > 0) void this.#registry.put(missed.map((worker) => leftPut(worker, false)));
    this.#seen = others;
    this.#engine.fleet.others = others.size;
  }
}
