/**
 * Decides which of the processes that serve a route claims when a hint says that jobs became ready there. A process
 * that came too late twice waits for the fallback delay, and claims only if no hint says meanwhile that the jobs are
 * taken. So one ready job costs a fleet of fifty idle processes one or two claims, not fifty.
 *
 *              a hinted claim brought jobs
 *           ┌───────────────────────────────┐
 *           ▼                               │
 *   at once ──── came too late twice ───► waits ──the delay is over──► claims
 *                                           └────── "taken" ─────────► nothing to do
 *
 * If the process that claims at once has no free slot or was killed, the others are late by at most the delay, and the
 * first of them claims at once from then on. On a store that cannot announce "taken" no process waits. A claim that
 * brought nothing came too late only if "taken" is heard: a job that waits at a gate was taken by no process, and a
 * process with a delay would start it late when the gate opens.
 */
import type { Needs } from "../../engine/services.ts";
import type { Timer } from "../../platform/platform.ts";
import type { LeasedJob } from "../../store/records.ts";
import type { Pool } from "./pool.ts";

/** The spread lets the first waiting process announce its claim before the others claim too. */
const delayMs = { least: 15, spread: 100 };
const lateMax = 2;
/** Claims that follow each other faster than this are announced once. */
const announceGapMs = 4;

interface Standing {
  /** How many hinted claims in a row brought nothing because another process had taken the jobs. */
  late: number;
  /** Since the last hint: another process has taken its jobs (`isTaken`); a claim has brought nothing (`isEmpty`). */
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

  /** @param over called with a pool when its delay has ended. */
  constructor(needs: Needs<"store" | "platform" | "otherWorkers">, over: (pool: Pool) => void) {
    this.#needs = needs;
    this.#over = over;
  }

  stop(): void {
    for (const standing of this.#standings.values()) standing.timer?.cancel();
    this.#standings.clear();
  }

  /** A hint has come. @returns whether the pool claims at once; if not, its delay starts. */
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

  /** Another process has claimed everything that was ready for the pool. */
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
   * A claim of this process took everything that was ready on the routes of these jobs. It is announced only if there
   * are other workers.
   *
   * @param sentUs when the claim was sent (monotonic).
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

/** "Taken" and the empty answer may come in either order. */
function countLate(standing: Standing): void {
  if (!standing.isTaken || !standing.isEmpty) return;
  standing.late += 1;
  standing.isTaken = standing.isEmpty = false;
}

function endDelay(standing: Standing): void {
  standing.timer?.cancel();
  standing.timer = null;
}
