/**
 * Which of the processes that serve a route claims when a hint says that jobs became ready there. A process that keeps
 * coming too late waits: it claims only if no hint says within the fallback delay that the jobs are taken. So one ready
 * job costs a fleet of fifty idle processes a claim or two, and not fifty.
 *
 *              a hinted claim brought jobs
 *           ┌───────────────────────────────┐
 *           ▼                               │
 *   at once ──── came too late twice ───► waits ──the delay is over──► claims
 *                                           └────── "taken" ─────────► nothing to do
 *
 * If the process that claims at once has no free slot, is busy or was killed, the others are late by the delay and no
 * more, and the first of them claims at once from then on. On a store that cannot announce "taken" no process waits. A
 * claim that brought nothing came too late only if "taken" is heard: a job that waits at a gate was taken by nobody,
 * and a process that waits would start it late when the gate opens.
 */
import type { Needs } from "../../engine/services.ts";
import type { Timer } from "../../platform/platform.ts";
import type { LeasedJob } from "../../store/records.ts";
import type { Pool } from "./pool.ts";

/** The spread lets the first process that waits announce its claim before the others claim, too. */
const delayMs = { least: 15, spread: 100 };
const lateMax = 2;
/** Jobs that trickle in fast are announced together. */
const announceGapMs = 4;

interface Standing {
  /** How often in a row a claim that a hint asked for brought nothing, because another process had taken the jobs. */
  late: number;
  /** Of the last hint: another process has taken its jobs; or a claim has brought nothing. */
  isTaken: boolean;
  isEmpty: boolean;
  /** The next claim answers a hint. */
  isAnswer: boolean;
  timer: Timer | null;
}

export class FallbackDelay {
  readonly #needs: Needs<"store" | "platform" | "otherWorkers">;
  readonly #standings = new Map<Pool, Standing>();
  readonly #over: (pool: Pool) => void;
  #announcedUs = Number.NEGATIVE_INFINITY;

  /** @param over called for a pool when its delay is over. */
  constructor(needs: Needs<"store" | "platform" | "otherWorkers">, over: (pool: Pool) => void) {
    this.#needs = needs;
    this.#over = over;
  }

  stop(): void {
    for (const standing of this.#standings.values()) standing.timer?.cancel();
    this.#standings.clear();
  }

  /** A hint has come. @returns whether the pool claims at once; if not, its delay runs. */
  claimsAtOnce(pool: Pool): boolean {
    const { store, platform } = this.#needs;
    if (store.announceTaken === undefined) return true;
    const standing = this.#standingOf(pool);
    standing.isTaken = standing.isEmpty = false;
    if (standing.late < lateMax) {
      standing.isAnswer = true;
      return true;
    }
    standing.timer ??= platform.setTimer(delayMs.least + platform.random() * delayMs.spread, () => {
      standing.timer = null;
      standing.isAnswer = true;
      this.#over(pool);
    });
    return false;
  }

  /** Another process has claimed all that was ready there. */
  taken(pool: Pool): void {
    const standing = this.#standings.get(pool);
    if (standing === undefined) return;
    endDelay(standing);
    standing.isTaken = true;
    countLate(standing);
  }

  /** A claim of the pool was answered. */
  claimed(pool: Pool, gotJobs: boolean): void {
    const standing = this.#standings.get(pool);
    if (standing === undefined) return;
    if (gotJobs) standing.late = 0;
    else if (standing.isAnswer) standing.isEmpty = true;
    standing.isAnswer = false;
    endDelay(standing);
    countLate(standing);
  }

  /**
   * All that was ready on the routes of these jobs was claimed here, by a claim that was sent then (monotonic). It is
   * announced only if other processes may wait for it.
   */
  announceTaken(jobs: readonly Pick<LeasedJob, "route">[], sentUs: number): void {
    const { store, platform, otherWorkers } = this.#needs;
    if (store.announceTaken === undefined || otherWorkers.count === 0) return;
    const nowUs = platform.monotonicUs();
    if (nowUs - this.#announcedUs < announceGapMs * 1000) return;
    this.#announcedUs = nowUs;
    store.announceTaken([...new Set(jobs.map(({ route }) => route))], sentUs);
  }

  #standingOf(pool: Pool): Standing {
    let standing = this.#standings.get(pool);
    if (standing === undefined) {
      standing = { late: 0, isTaken: false, isEmpty: false, isAnswer: false, timer: null };
      this.#standings.set(pool, standing);
    }
    return standing;
  }
}

/** "Taken" and the empty answer come in any order. */
function countLate(standing: Standing): void {
  if (!standing.isTaken || !standing.isEmpty) return;
  standing.late += 1;
  standing.isTaken = standing.isEmpty = false;
}

function endDelay(standing: Standing): void {
  standing.timer?.cancel();
  standing.timer = null;
}
