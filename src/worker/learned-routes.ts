/**
 * Learning routes: a worker computes the routes of its definitions, but a job may be enqueued with limits of its own, or
 * may wait since the definition had others. Such routes are read from the store: at the start, when a hint names a
 * route that nobody here knows, and now and then in case that hint was lost.
 *
 * Always true: one read at a time; a hint that comes meanwhile makes one more behind it.
 */
import type { Engine } from "../engine/engine.ts";
import type { Timer } from "../platform/platform.ts";
import type { RouteMap } from "./route-map.ts";

/** Far apart, because nearly always a hint was there before; farther where one read asks many partitions. */
const readEveryMs = 30_000;
const readEveryMsPerPartition = 10_000;

export class LearnedRoutes {
  readonly #engine: Engine;
  readonly #routes: RouteMap;
  readonly #learned: () => void;
  #timer: Timer | null = null;
  #isStopped = false;
  #isReading = false;
  #isWantedAgain = false;

  /** @param learned told when there are routes to claim from that were not there before. */
  constructor(engine: Engine, routes: RouteMap, learned: () => void) {
    this.#engine = engine;
    this.#routes = routes;
    this.#learned = learned;
  }

  start(): void {
    this.#want();
    const { platform, store } = this.#engine;
    const everyMs = Math.max(readEveryMs, (store.partitions ?? 1) * readEveryMsPerPartition);
    this.#timer = platform.setTimer(everyMs * (0.85 + platform.random() * 0.15), () => this.start(), false);
  }

  stop(): void {
    this.#isStopped = true;
    this.#timer?.cancel();
  }

  hinted(numbers: readonly number[]): void {
    if (!numbers.every((number) => this.#routes.knows(number))) this.#want();
  }

  #want(): void {
    if (this.#isReading) this.#isWantedAgain = true;
    else void this.#read();
  }

  async #read(): Promise<void> {
    this.#isReading = true;
    do {
      this.#isWantedAgain = false;
      try {
        if (this.#routes.learn(await this.#engine.store.readRoutes())) this.#learned();
      } catch (error) {
        this.#engine.log.debug("the routes of the store could not be read", { error });
      }
    } while (this.#isWantedAgain && !this.#isStopped);
    this.#isReading = false;
  }
}
