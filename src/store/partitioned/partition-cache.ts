/**
 * What this process knows of one partition: which routes had no ready job at the last claim, and when its next clock is
 * due, so that calls in vain are avoided. The cache is only ever a reason not to ask: a route that is not known to be
 * empty counts as having work, and a hint removes what was known.
 *
 * The answer to a call that was sent before a hint does not overrule that hint; it overrules every earlier one.
 */
import { earlier } from "../rules/timer.ts";

/** Hints may be lost, so an older cache is not trusted. */
const trustMs = 30_000;
/** More clocks than hints bring during one call; beyond it the earliest stands for all. */
const heardMax = 64;
/** Earlier than every real time. */
const neverMs = Number.MIN_SAFE_INTEGER;

/** The hints that came before a call was sent: its answer is newer than these, and older than later hints. */
export interface Heard {
  readonly ready: number;
  readonly due: number;
}

export class PartitionCache {
  readonly #empty = new Set<number>();
  /** When the first gate opens that held jobs of an empty route back; null for none. */
  #gateOpensAtMs: number | null = null;
  #askedAtMs: number | null = null;
  #clockSeenMs = neverMs;
  /** A promotion has met the due clock, so it is not that of a due job. A claim that meets one does not know that. */
  #isRungKnown = false;
  /** The next clock by the last answer. */
  #heardAtMs: number | null = null;
  /** Clocks from hints that came after the last answered call was sent, the earliest first. */
  #hinted: { readonly number: number; readonly atMs: number }[] = [];
  #readyHints = 0;
  #dueHints = 0;

  /** Read it before a call, and pass it with the answer. */
  get heard(): Heard {
    return { ready: this.#readyHints, due: this.#dueHints };
  }

  heardReady(routes: readonly number[]): void {
    this.#readyHints += 1;
    for (const route of routes) this.#empty.delete(route);
  }

  heardDue(inMs: number, nowMs: number): void {
    const number = ++this.#dueHints;
    // An earlier hint of a later clock adds nothing to this one.
    const earlier = this.#hinted.filter(({ atMs }) => atMs < nowMs + inMs);
    const [first] = earlier;
    const atMs = earlier.length < heardMax || first === undefined ? nowMs + inMs : first.atMs;
    this.#hinted = earlier.length < heardMax ? [...earlier, { number, atMs }] : [{ number, atMs }];
  }

  /**
   * Another process has promoted the due jobs here. It also handles due clocks of other kinds, so this process need not
   * ask because of a clock that became due since the last answer.
   */
  heardPromoted(nowMs: number): void {
    this.#hinted = this.#hinted.filter(({ atMs }) => atMs > nowMs);
    const hasRungSince =
      this.#heardAtMs !== null && this.#heardAtMs > this.#clockSeenMs && this.#heardAtMs <= nowMs;
    if (hasRungSince) this.#heardAtMs = null;
  }

  /** A gate that opens by its own clock held jobs back: until then their routes count as empty. */
  sawGate(opensAtMs: number): void {
    this.#gateOpensAtMs = earlier(this.#gateOpensAtMs, opensAtMs);
  }

  /** Call it before a claim: after a gate has opened, every route may have work again. */
  passTime(nowMs: number): void {
    if (this.#gateOpensAtMs === null || this.#gateOpensAtMs > nowMs) return;
    this.#gateOpensAtMs = null;
    this.#empty.clear();
  }

  /** Clears the cache, because hints were not received for a while. */
  clear(): void {
    this.#askedAtMs = null;
    this.#clockSeenMs = neverMs;
    this.#empty.clear();
  }

  /** Records that a claim has asked this partition. */
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

  /**
   * Records what a claim found for these routes: all ready jobs (`wereAllTaken`), or up to the number that it wanted.
   */
  found(routes: readonly number[], wereAllTaken: boolean, heard: Heard): void {
    for (const route of routes) {
      if (!wereAllTaken) this.#empty.delete(route);
      else if (heard.ready === this.#readyHints) this.#empty.add(route);
    }
  }

  /**
   * Records the next clock of the partition from the answer to a call. @param sentMs when the call went out.
   * @param promotes whether the call has promoted due jobs, so that a due clock is another one.
   */
  sawClock(inMs: number | null, sentMs: number, heard: Heard, promotes = false): void {
    // The answer to a call that was sent before the last answered one.
    if (sentMs < this.#clockSeenMs) return;
    this.#isRungKnown = inMs === 0 && (promotes || this.#isRungKnown);
    this.#heardAtMs = inMs === null ? null : sentMs + inMs;
    this.#hinted = this.#hinted.filter(({ number }) => number > heard.due);
    this.#clockSeenMs = sentMs;
  }

  /** When the last call was sent whose answer had the next clock; earlier than every real time if there was none. */
  get clockSeenMs(): number {
    return this.#clockSeenMs;
  }

  mayHaveRung(nowMs: number): boolean {
    const nextAtMs = this.#nextAtMs;
    return this.#clockSeenMs === neverMs || (nextAtMs !== null && nextAtMs <= nowMs);
  }

  /** Whether a clock is due that no promotion has looked at yet. */
  hasRungUnseen(nowMs: number): boolean {
    const nextAtMs = this.#nextAtMs;
    if (nextAtMs === null || nextAtMs > nowMs) return false;
    return nextAtMs > this.#clockSeenMs || !this.#isRungKnown;
  }

  /** Null if no clock is known to be set. */
  nextInMs(nowMs: number): number | null {
    const nextAtMs = this.#nextAtMs;
    return nextAtMs === null ? null : Math.max(0, nextAtMs - nowMs);
  }

  get #nextAtMs(): number | null {
    return earlier(this.#heardAtMs, this.#hinted[0]?.atMs ?? null);
  }
}
