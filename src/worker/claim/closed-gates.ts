/**
 * Hands back jobs that were claimed ahead and still wait for a slot, if their queue was paused or one of their limits
 * cools down. So a pause holds for them too, and no attempt is used up. The store lets no claim pass a closed gate, but
 * it cannot know of jobs that were claimed before:
 *
 *   a hint names a route of a pool in which jobs wait (putting a gate hints its routes) ─┬─► read the gates, hand back
 *   a heartbeat, if the hint was lost                                                   ─┘
 *   a throttle of this process has closed one  ──► hand back at once
 *
 * At most one read runs at a time, and reads are at least `gapMs` apart, because the hints of new jobs look the same.
 */
import type { Needs } from "../../engine/services.ts";
import { isGroupGate } from "../../model/routing/lane.ts";
import type { Timer } from "../../platform/platform.ts";
import type { LeasedJob } from "../../store/records.ts";
import type { Attempt } from "../run/attempt.ts";
import type { Pool } from "./pool.ts";
import type { RouteMap } from "./route-map.ts";

type ClosedGatesNeeds = Needs<"store" | "platform" | "log" | "limits">;

/** Short enough for a pause; long enough that a busy queue costs at most twenty small reads a second. */
const gapMs = 50;

export class ClosedGates {
  readonly #needs: ClosedGatesNeeds;
  readonly #leave: () => void;
  readonly #routes: RouteMap;
  readonly #handBack: (attempt: Attempt) => void;
  readonly #suspects = new Set<Pool>();
  #isLooking = false;
  #isStopped = false;
  #gap: Timer | null = null;

  constructor(needs: ClosedGatesNeeds, routes: RouteMap, handBack: (attempt: Attempt) => void) {
    this.#needs = needs;
    this.#routes = routes;
    this.#handBack = handBack;
    this.#leave = needs.limits.gateClosed.add(this.#closed);
  }

  /** A gate of this pool may have been closed. */
  suspect(pool: Pool): void {
    if (pool.waiting === 0 || this.#isStopped) return;
    this.#suspects.add(pool);
    if (!this.#isLooking) void this.#look();
  }

  stop(): void {
    this.#isStopped = true;
    this.#leave();
    this.#gap?.cancel();
  }

  async #look(): Promise<void> {
    this.#isLooking = true;
    const pools = [...this.#suspects].filter(({ waiting }) => waiting > 0);
    this.#suspects.clear();
    try {
      if (pools.length > 0) await this.#sendBack(pools);
    } catch (error) {
      this.#needs.log.debug("the gates of waiting jobs could not be read", { error });
    }
    if (this.#isStopped) return;
    this.#gap = this.#needs.platform.setTimer(
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
    for (const pool of pools)
      for (const { job } of pool.backlog()) for (const key of limitKeysOf(job)) keys.add(key);
    const { gates, now } = await this.#needs.store.readGates({ keys: [...keys] });
    const closed = new Set(
      gates.filter(({ closedUntil }) => closedUntil !== null && closedUntil > now).map(({ key }) => key),
    );
    if (closed.size > 0) this.#sendBackBehind(pools, closed);
  }

  readonly #closed = (gate: string): void => this.#sendBackBehind(this.#routes.pools, new Set([gate]));

  #sendBackBehind(pools: readonly Pool[], closed: ReadonlySet<string>): void {
    const isHeld = ({ job }: Attempt): boolean =>
      [...this.#routes.gateKeysAt(job), ...limitKeysOf(job)].some((key) => closed.has(key));
    for (const pool of pools)
      if (pool.waiting > 0) for (const attempt of pool.takeIf(isHeld)) this.#handBack(attempt);
  }
}

/** The limit keys that a job takes from. The gate of a group is left out, because it is never closed. */
function limitKeysOf({ keyGates = [] }: LeasedJob): readonly string[] {
  return keyGates.filter((key) => !isGroupGate(key));
}
