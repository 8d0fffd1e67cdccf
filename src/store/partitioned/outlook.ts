/**
 * The outlook on one partition: which routes had no ready job when they were last asked for, and when its next clock
 * rings, so that nobody asks it in vain. An outlook is only ever a reason not to ask: a route that is not known to be
 * empty counts as having work, and a hint takes back what was known.
 *
 * An answer to a call that went out before a hint came does not overrule the hint.
 */

/** Hints may be lost, so an outlook that is older than this is not trusted any more. */
const trustMs = 30_000;
const awayFirstMs = 500;
const awayMaxMs = 10_000;
/** Earlier than every real time. */
const neverMs = Number.MIN_SAFE_INTEGER;

export class Outlook {
  readonly #empty = new Set<number>();
  #askedAtMs: number | null = null;
  #clockSeenMs = neverMs;
  #nextAtMs: number | null = null;
  #news = 0;
  #failures = 0;
  #awayUntilMs = 0;

  /**
   * Counts the hints. To be read before a call and given back with its answer, which is then known to be older or newer
   * than the last hint.
   */
  get news(): number {
    return this.#news;
  }

  heardReady(routes: readonly number[]): void {
    this.#news += 1;
    for (const route of routes) this.#empty.delete(route);
  }

  heardDue(inMs: number, nowMs: number): void {
    this.#news += 1;
    this.#nextAtMs = earlier(this.#nextAtMs, nowMs + inMs);
  }

  /** Forgets everything, because hints were not heard for a while. */
  forget(): void {
    this.#askedAtMs = null;
    this.#clockSeenMs = neverMs;
    this.#empty.clear();
  }

  /** Notes that a claim has asked this partition. */
  asked(nowMs: number): void {
    this.#askedAtMs = nowMs;
  }

  /** Whether the last claim is recent enough to be trusted. */
  isRecent(nowMs: number): boolean {
    return this.#askedAtMs !== null && nowMs - this.#askedAtMs < trustMs;
  }

  /** Whether one of these routes may have a ready job. */
  mayHave(routes: readonly number[]): boolean {
    return routes.some((route) => !this.#empty.has(route));
  }

  /** Notes what a claim found for these routes: all that was ready (`wereAllTaken`), or as many as it wanted. */
  found(routes: readonly number[], wereAllTaken: boolean, news: number): void {
    for (const route of routes) {
      if (!wereAllTaken) this.#empty.delete(route);
      else if (news === this.#news) this.#empty.add(route);
    }
  }

  /** Notes the next clock of the partition as the answer to a call told it. */
  sawClock(inMs: number | null, nowMs: number, news: number): void {
    this.#failures = 0;
    const atMs = inMs === null ? null : nowMs + inMs;
    this.#nextAtMs = news === this.#news ? atMs : earlier(atMs, this.#nextAtMs);
    this.#clockSeenMs = nowMs;
  }

  /** When a call last told the next clock; earlier than every real time if none did. */
  get clockSeenMs(): number {
    return this.#clockSeenMs;
  }

  mayHaveRung(nowMs: number): boolean {
    return this.#clockSeenMs === neverMs || (this.#nextAtMs !== null && this.#nextAtMs <= nowMs);
  }

  /** Null when no clock is known to be set. */
  nextInMs(nowMs: number): number | null {
    return this.#nextAtMs === null ? null : Math.max(0, this.#nextAtMs - nowMs);
  }

  /** Notes that the partition could not be reached: for a while calls leave it out instead of waiting for it. */
  failed(nowMs: number): void {
    this.#failures += 1;
    this.#awayUntilMs = nowMs + Math.min(awayMaxMs, awayFirstMs * 2 ** Math.min(this.#failures - 1, 10));
  }

  isAway(nowMs: number): boolean {
    return this.#failures > 0 && nowMs < this.#awayUntilMs;
  }
}

/** The earlier of two clocks; null is none. */
export function earlier(one: number | null, other: number | null): number | null {
  return one === null ? other : other === null ? one : Math.min(one, other);
}
