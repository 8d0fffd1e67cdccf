/**
 * What one partition is known to hold, so that nobody asks it in vain: which routes had no ready job when they were last asked for, and when its
 * next clock rings. Only ever a reason not to ask: what is not known counts as work, and hints take it back.
 *
 * An answer that was given before a hint came does not overrule it.
 */

/** Hints may be lost: after this long, what is known is not trusted any more. */
const trustMs = 30_000;
const awayFirstMs = 500;
const awayMaxMs = 10_000;
/** Before every time there is. */
const neverMs = Number.MIN_SAFE_INTEGER;

export class Outlook {
  readonly #empty = new Set<number>();
  #askedAtMs: number | null = null;
  #clockSeenMs = neverMs;
  #nextAtMs: number | null = null;
  #news = 0;
  #failures = 0;
  #awayUntilMs = 0;

  /** Grows with every hint: take it before a call, and give it back with the answer. */
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

  /** Begins anew: hints were not heard for a while. */
  forget(): void {
    this.#askedAtMs = null;
    this.#clockSeenMs = neverMs;
    this.#empty.clear();
  }

  /** A claim has been here. */
  asked(nowMs: number): void {
    this.#askedAtMs = nowMs;
  }

  /** Whether what was found by the last claim still says something. */
  isRecent(nowMs: number): boolean {
    return this.#askedAtMs !== null && nowMs - this.#askedAtMs < trustMs;
  }

  /** Whether one of these routes may have a ready job. */
  mayHave(routes: readonly number[]): boolean {
    return routes.some((route) => !this.#empty.has(route));
  }

  /** A claim asked for these routes, and took all or as many as it wanted. */
  found(routes: readonly number[], wereAllTaken: boolean, news: number): void {
    for (const route of routes) {
      if (!wereAllTaken) this.#empty.delete(route);
      else if (news === this.#news) this.#empty.add(route);
    }
  }

  /** The next clock, as a call saw it behind itself. */
  sawClock(inMs: number | null, nowMs: number, news: number): void {
    this.#failures = 0;
    const atMs = inMs === null ? null : nowMs + inMs;
    this.#nextAtMs = news === this.#news ? atMs : earlier(atMs, this.#nextAtMs);
    this.#clockSeenMs = nowMs;
  }

  /** When a call last saw its next clock; before all time if none did. */
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

  /** The partition could not be reached: the others are not to wait for it in every call. */
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
