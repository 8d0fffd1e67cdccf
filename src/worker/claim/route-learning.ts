/**
 * A worker cannot know in advance which combinations of capabilities and limits jobs ask for: a job may be enqueued
 * with limits of its own, or may have waited since its definition had others. So the worker reads the store's routes:
 * at its start, when a hint names an unknown route, and now and then without a hint, because hints can be lost. Reads
 * keep their distance however many hints come.
 */
import type { Needs } from "../../engine/services.ts";
import { RepeatedLine } from "../../engine/log/repeated-line.ts";
import { Backoff } from "../../platform/backoff.ts";
import type { Timer } from "../../platform/platform.ts";
import type { RouteMap } from "./route-map.ts";

type RouteLearningNeeds = Needs<"store" | "platform" | "log">;

const betweenReadsMs = 250;
/** The time between reads without a hint; longer if a read asks many partitions. */
const refreshMs = 30_000;
const refreshMsPerPartition = 10_000;
const backoffLengths = { firstMs: 2 * betweenReadsMs, maxMs: refreshMs };

export class RouteLearning {
  readonly #needs: RouteLearningNeeds;
  readonly #routes: RouteMap;
  readonly #learned: () => void;
  readonly #backoff: Backoff;
  readonly #trouble: RepeatedLine;
  /** Routes that were read, or that a read did not find: a hint that names one of them starts no read. */
  #met: ReadonlySet<number> = new Set();
  #asked = new Set<number>();
  #timer: Timer | null = null;
  #readUs = Number.NEGATIVE_INFINITY;
  #isReading = false;
  #isStopped = true;

  /** @param learned called when the map has got new routes. */
  constructor(needs: RouteLearningNeeds, routes: RouteMap, learned: () => void) {
    this.#needs = needs;
    this.#routes = routes;
    this.#learned = learned;
    this.#backoff = new Backoff(needs.platform, backoffLengths);
    this.#trouble = new RepeatedLine(needs, "warn", "the routes could not be read, trying again");
  }

  start(): void {
    this.#isStopped = false;
    void this.#read();
  }

  stop(): void {
    this.#isStopped = true;
    this.#timer?.cancel();
  }

  /** A hint has named a route that the map does not have. */
  meet(route: number): void {
    if (this.#isStopped || this.#met.has(route) || this.#asked.has(route)) return;
    this.#asked.add(route);
    if (!this.#isReading && this.#asked.size === 1) this.#readAfterPause();
  }

  #readAfterPause(): void {
    const restMs = betweenReadsMs - (this.#needs.platform.monotonicUs() - this.#readUs) / 1000;
    if (restMs <= 0) void this.#read();
    else this.#readIn(restMs);
  }

  #readIn(ms: number): void {
    this.#timer?.cancel();
    this.#timer = this.#needs.platform.setTimer(ms, () => void this.#read(), false);
  }

  async #read(): Promise<void> {
    this.#timer?.cancel();
    this.#isReading = true;
    this.#readUs = this.#needs.platform.monotonicUs();
    const asked = [...this.#asked];
    let retryMs: number | null = null;
    try {
      const routes = await this.#needs.store.readRoutes();
      this.#backoff.succeeded();
      this.#trouble.over();
      this.#met = new Set([...routes.map(({ number }) => number), ...asked]);
      if (!this.#isStopped && this.#routes.learn(routes)) this.#learned();
    } catch (error) {
      retryMs = this.#backoff.failed();
      if (!this.#isStopped) this.#trouble.say({ inMs: Math.round(retryMs), error });
    }
    this.#isReading = false;
    for (const route of this.#asked) if (this.#met.has(route)) this.#asked.delete(route);
    if (this.#isStopped) return;
    if (retryMs !== null) this.#readIn(retryMs);
    else if (this.#asked.size > 0) this.#readAfterPause();
    else this.#readIn(Math.max(refreshMs, (this.#needs.store.partitions ?? 1) * refreshMsPerPartition));
  }
}
