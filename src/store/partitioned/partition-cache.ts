/**
 * What this process remembers of one partition: which routes had no ready job when they were last asked for, and when
 * its next clock rings, so that nobody asks it in vain. A cache is only ever a reason not to ask: a route that is not
 * known to be empty counts as having work, and a hint takes back what was known.
 *
 * An answer to a call that went out before a hint came does not overrule the hint; it overrules every earlier one.
 */
import { earlier } from "../rules/timer.ts";

/** Hints may be lost, so a cache that is older than this is not trusted any more. */
const trustMs = 30_000;
/** More clocks than are hinted at while one call is under way; beyond it the earliest of all is kept for all. */
const heardMax = 64;
/** Earlier than every real time. */
const neverMs = Number.MIN_SAFE_INTEGER;

/** What was heard before a call went out: its answer is newer than that, and older than what is heard later. */
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
  /** A promotion met the clock that has rung, so it is no due job's. A claim that meets one does not know. */
  #isRungKnown = false;
  /** The next clock as the last answer told it. */
  #toldAtMs: number | null = null;
  /** Clocks that were hinted at since a call went out whose answer is known, later ones behind earlier ones. */
  #hinted: { readonly number: number; readonly atMs: number }[] = [];
  #readyHints = 0;
  #dueHints = 0;

  /** To be read before a call and given back with its answer. */
  get heard(): Heard {
    return { ready: this.#readyHints, due: this.#dueHints };
  }

  heardReady(routes: readonly number[]): void {
    this.#readyHints += 1;
    for (const route of routes) this.#empty.delete(route);
  }

  heardDue(inMs: number, nowMs: number): void {
    const number = ++this.#dueHints;
    // An earlier hint at a later clock says nothing that this one does not say for longer.
    const earlier = this.#hinted.filter(({ atMs }) => atMs < nowMs + inMs);
    const [first] = earlier;
    const atMs = earlier.length < heardMax || first === undefined ? nowMs + inMs : first.atMs;
    this.#hinted = earlier.length < heardMax ? [...earlier, { number, atMs }] : [{ number, atMs }];
  }

  /**
   * Another process has promoted what is due here. It also sees to the clocks that have rung and are no due job's, so
   * nobody has to ask because of one that has rung since the last answer.
   */
  heardPromoted(nowMs: number): void {
    this.#hinted = this.#hinted.filter(({ atMs }) => atMs > nowMs);
    const hasRungSince =
      this.#toldAtMs !== null && this.#toldAtMs > this.#clockSeenMs && this.#toldAtMs <= nowMs;
    if (hasRungSince) this.#toldAtMs = null;
  }

  /** A gate held jobs back and opens by its own clock: until then their routes count as empty. */
  sawGate(opensAtMs: number): void {
    this.#gateOpensAtMs = earlier(this.#gateOpensAtMs, opensAtMs);
  }

  /** To be told before a claim: a gate that has opened makes every route worth asking for again. */
  passTime(nowMs: number): void {
    if (this.#gateOpensAtMs === null || this.#gateOpensAtMs > nowMs) return;
    this.#gateOpensAtMs = null;
    this.#empty.clear();
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
  found(routes: readonly number[], wereAllTaken: boolean, heard: Heard): void {
    for (const route of routes) {
      if (!wereAllTaken) this.#empty.delete(route);
      else if (heard.ready === this.#readyHints) this.#empty.add(route);
    }
  }

  /**
   * Notes the next clock of the partition as the answer to a call told it. @param sentMs when the call went out.
   * @param promotes whether the call has promoted what is due, so that a clock that has rung is another one.
   */
  sawClock(inMs: number | null, sentMs: number, heard: Heard, promotes = false): void {
    // The answer to a call that went out before one whose answer is known.
    if (sentMs < this.#clockSeenMs) return;
    this.#isRungKnown = inMs === 0 && (promotes || this.#isRungKnown);
    this.#toldAtMs = inMs === null ? null : sentMs + inMs;
    this.#hinted = this.#hinted.filter(({ number }) => number > heard.due);
    this.#clockSeenMs = sentMs;
  }

  /** When a call went out that told the next clock; earlier than every real time if none did. */
  get clockSeenMs(): number {
    return this.#clockSeenMs;
  }

  mayHaveRung(nowMs: number): boolean {
    const nextAtMs = this.#nextAtMs;
    return this.#clockSeenMs === neverMs || (nextAtMs !== null && nextAtMs <= nowMs);
  }

  /** Whether a clock has rung of which no promotion has seen yet whom it concerns. */
  hasRungUnseen(nowMs: number): boolean {
    const nextAtMs = this.#nextAtMs;
    if (nextAtMs === null || nextAtMs > nowMs) return false;
    return nextAtMs > this.#clockSeenMs || !this.#isRungKnown;
  }

  /** Null when no clock is known to be set. */
  nextInMs(nowMs: number): number | null {
    const nextAtMs = this.#nextAtMs;
    return nextAtMs === null ? null : Math.max(0, nextAtMs - nowMs);
  }

  get #nextAtMs(): number | null {
    return earlier(this.#toldAtMs, this.#hinted[0]?.atMs ?? null);
  }
}
