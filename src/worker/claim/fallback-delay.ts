/**
 * Which of the processes that serve a route claims when a hint says that jobs became ready there. A process that keeps
 * coming too late stands by: it claims only if nobody tells within a moment that the jobs are taken. So one ready job
 * costs a fleet of fifty idle processes a claim or two, and not fifty.
 *
 *              a hinted claim brought jobs
 *           ┌───────────────────────────────┐
 *           ▼                               │
 *   at once ──── came too late twice ───► stands by ──the moment is over──► claims
 *                                           └────── "taken" ──────────────► nothing to do
 *
 * Where the one that claims at once has no free slot, is busy or was killed, the others are late by the moment and no
 * more, and the first of them claims at once from then on. On a store that cannot tell "taken" nobody stands by. A
 * claim that brought nothing came too late only where "taken" is heard: what waits at a gate nobody has taken, and
 * whoever stands by would start it late when the gate opens.
 */
import type { Engine } from "../../engine/engine.ts";
import type { Timer } from "../../platform/platform.ts";
import type { Pool } from "./pool.ts";

/** The spread lets the first that stands by tell the others before they claim, too. */
const standBy = { leastMs: 15, spreadMs: 100 };
const lateMax = 2;
/** Jobs that trickle in fast are told of together. */
const tellGapMs = 4;

interface Standing {
  /** How often in a row a claim that a hint asked for brought nothing, because another had taken it. */
  late: number;
  /** Of the last hint: another process has taken what it told; or a claim has brought nothing. */
  isTaken: boolean;
  isEmpty: boolean;
  /** The next claim answers a hint. */
  isAnswer: boolean;
  timer: Timer | null;
}

export class ClaimStandBy {
  readonly #engine: Engine;
  readonly #standings = new Map<Pool, Standing>();
  readonly #claim: (pool: Pool) => void;
  #toldUs = Number.NEGATIVE_INFINITY;

  /** @param claim wakes the pool. */
  constructor(engine: Engine, claim: (pool: Pool) => void) {
    this.#engine = engine;
    this.#claim = claim;
  }

  stop(): void {
    for (const standing of this.#standings.values()) standing.timer?.cancel();
    this.#standings.clear();
  }

  /** @returns whether the pool claims at once. */
  hinted(pool: Pool): boolean {
    const { store, platform } = this.#engine;
    if (store.tellTaken === undefined) return true;
    const standing = this.#standingOf(pool);
    standing.isTaken = standing.isEmpty = false;
    if (standing.late < lateMax) {
      standing.isAnswer = true;
      return true;
    }
    const waitMs = standBy.leastMs + platform.random() * standBy.spreadMs;
    standing.timer ??= platform.setTimer(waitMs, () => {
      standing.timer = null;
      standing.isAnswer = true;
      this.#claim(pool);
    });
    return false;
  }

  /** Another process has claimed all that was ready there. */
  taken(pool: Pool): void {
    const standing = this.#standings.get(pool);
    if (standing === undefined) return;
    this.#forget(standing);
    standing.isTaken = true;
    this.#count(standing);
  }

  /** A claim of the pool was answered. */
  claimed(pool: Pool, gotJobs: boolean): void {
    const standing = this.#standings.get(pool);
    if (standing === undefined) return;
    if (gotJobs) standing.late = 0;
    else if (standing.isAnswer) standing.isEmpty = true;
    standing.isAnswer = false;
    this.#forget(standing);
    this.#count(standing);
  }

  /** "Taken" and the empty answer come in any order. */
  #count(standing: Standing): void {
    if (!standing.isTaken || !standing.isEmpty) return;
    standing.late += 1;
    standing.isTaken = standing.isEmpty = false;
  }

  /** All that was ready on these routes was claimed here by a claim sent then: told only where others may stand by. */
  tell(routes: readonly number[], sentUs: number): void {
    const { store, platform, otherWorkers } = this.#engine;
    if (store.tellTaken === undefined || otherWorkers.count === 0 || routes.length === 0) return;
    const nowUs = platform.monotonicUs();
    if (nowUs - this.#toldUs < tellGapMs * 1000) return;
    this.#toldUs = nowUs;
    store.tellTaken(routes, sentUs);
  }

  #standingOf(pool: Pool): Standing {
    let standing = this.#standings.get(pool);
    if (standing === undefined) {
      standing = { late: 0, isTaken: false, isEmpty: false, isAnswer: false, timer: null };
      this.#standings.set(pool, standing);
    }
    return standing;
  }

  #forget(standing: Standing): void {
    standing.timer?.cancel();
    standing.timer = null;
  }
}
