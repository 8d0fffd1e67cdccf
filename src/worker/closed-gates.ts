/**
 * Jobs that were claimed ahead and wait here for a slot, while their queue is paused or one of their limits cools down:
 * they go back, without burning an attempt, so that a pause holds for them too. In the store no claim passes a closed
 * gate; what was claimed before the gate was closed is found out here:
 *
 *   a hint names a route of a pool in which jobs wait (putting a gate hints its routes)  ──┐
 *   a claim for such a pool brought less than was asked for                               ├──► read the gates, hand back
 *   the slow poll of the claimer, where the hint was lost                                 ──┘
 *
 * Always true: one read at a time, and between two reads at least `gapMs`, because hints of new jobs look the same.
 */
import type { Engine } from "../engine/engine.ts";
import type { Timer } from "../platform/platform.ts";
import type { Attempt } from "./attempt.ts";
import type { Pool } from "./pool.ts";
import type { RouteMap } from "./route-map.ts";

/** Short enough for a pause, long enough that a busy queue pays some twenty small reads a second at most. */
const gapMs = 50;

export class ClosedGates {
  readonly #engine: Engine;
  readonly #routes: RouteMap;
  readonly #handBack: (attempt: Attempt) => void;
  readonly #suspects = new Set<Pool>();
  #isLooking = false;
  #isStopped = false;
  #gap: Timer | null = null;

  constructor(engine: Engine, routes: RouteMap, handBack: (attempt: Attempt) => void) {
    this.#engine = engine;
    this.#routes = routes;
    this.#handBack = handBack;
  }

  /** A gate of this pool may have been closed. */
  suspect(pool: Pool): void {
    if (pool.waiting === 0 || this.#isStopped) return;
    this.#suspects.add(pool);
    if (!this.#isLooking) void this.#look();
  }

  stop(): void {
    this.#isStopped = true;
    this.#gap?.cancel();
  }

  async #look(): Promise<void> {
    this.#isLooking = true;
    const pools = [...this.#suspects].filter(({ waiting }) => waiting > 0);
    this.#suspects.clear();
    try {
      if (pools.length > 0) await this.#sendBack(pools);
    } catch (error) {
      this.#engine.log.debug("the gates of waiting jobs could not be read", { error });
    }
    if (this.#isStopped) return;
    this.#gap = this.#engine.platform.setTimer(
      gapMs,
      () => {
        this.#isLooking = false;
        if (this.#suspects.size > 0) void this.#look();
      },
      false,
    );
  }

  async #sendBack(pools: readonly Pool[]): Promise<void> {
    const keys = new Set(pools.flatMap((pool) => this.#routes.gateKeysOf(pool)));
    const { gates, now } = await this.#engine.store.readGates({ keys: [...keys] });
    const closed = new Set(
      gates.filter(({ closedUntil }) => closedUntil !== null && closedUntil > now).map(({ key }) => key),
    );
    if (closed.size === 0) return;
    const isHeld = ({ job }: Attempt): boolean => this.#routes.gateKeysAt(job).some((key) => closed.has(key));
    for (const pool of pools) for (const attempt of pool.takeIf(isHeld)) this.#handBack(attempt);
  }
}
