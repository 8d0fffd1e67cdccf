/**
 * Decides which process of a store answers a due clock: the leader, at once. Other processes answer only a due clock
 * that a heartbeat finds, after a fallback delay in which the hint of a promotion may still arrive. So a due job costs
 * the fleet one promotion and not one per process. If there is no leader, or if it does not answer, a due job starts at
 * most 1.2 s late.
 *
 * a hint, an answer ──► clock ──due──► the leader: a pass
 *
 * a heartbeat finds a due clock ──► another process: fallback delay ──► a pass
 *                                               │
 *                                  "promoted" ──┴──► nothing to do
 *
 * If the clock turns out to be answered although no hint said so, the workers of this process claim, because they have
 * not heard of the promoted jobs. The longest sleep of the clock duty is the last resort, in every process.
 */
import type { Timer } from "../../platform/platform.ts";
import type { Duty, DutyPass } from "../duties/duty.ts";
import type { Needs } from "../services.ts";

type ClockAnswersNeeds = Needs<"platform" | "leadership">;

/** The spread keeps processes that found the same clock from answering it all at once. */
const fallbackMs = { least: 30, spread: 50 };
/**
 * A store returns only the earliest clock, so a due clock hides the next one of its partition from the clock duty. The
 * duty that serves the clock wakes the clock duty again. If none can (a quarantined job, a partition whose promotions
 * fail, a duty switched off everywhere), the leader looks at this interval. It bounds how late a due job of that
 * partition becomes ready.
 */
const hiddenDueMs = 250;
/** A pass returns the next clock, so only the clocks before it must be known; later ones are dropped. */
const clocksMax = 64;

export class ClockAnswers {
  /** The clock duty, whose passes are seen here. */
  readonly duty: Duty;
  readonly #needs: ClockAnswersNeeds;
  readonly #answer: () => void;
  /** When the clocks that this process will answer are due, by the monotonic clock, in order. */
  #clocksUs: number[] = [];
  #timer: Timer | null = null;
  #timerUs = Number.POSITIVE_INFINITY;
  /** A due clock was found, and no answer to it is known. */
  #hasFoundDue = false;
  /** The last pass was made after the fallback delay. */
  #hasStoodIn = false;
  /** The last pass found that another process had answered the due clock found here. */
  #isAnsweredUnheard = false;
  #isStopped = true;

  /** @param answer runs a pass of the clock duty. */
  constructor(needs: ClockAnswersNeeds, clockDuty: Duty, answer: () => void) {
    this.#needs = needs;
    this.#answer = answer;
    this.duty = { ...clockDuty, pass: (isAsked) => this.#pass(clockDuty, isAsked) };
  }

  start(): void {
    this.#isStopped = false;
  }

  stop(): void {
    this.#isStopped = true;
    this.#setClocks([]);
  }

  /** Whether this process must answer a due clock that the last pass met and did not serve. */
  get mayAnswer(): boolean {
    return this.#isLeader || this.#hasStoodIn;
  }

  /** Whether another process may have promoted jobs without a hint arriving here. */
  get isAnsweredUnheard(): boolean {
    return this.#isAnsweredUnheard;
  }

  heardClock(inMs: number): void {
    // A pass comes before it anyway and returns it again.
    if (this.#isLeader && inMs <= this.duty.sleepMaxMs) this.#note(Math.max(0, inMs));
  }

  /** A heartbeat or a pass has found a due clock. */
  foundDue(): void {
    this.#hasFoundDue = true;
    const { least, spread } = fallbackMs;
    if (this.#isLeader) this.#note(0);
    else if (this.#clocksUs.length === 0) this.#note(least + this.#needs.platform.random() * spread);
  }

  /** Ignored by the leader: a clock that was set during a promotion may not have been seen by it. */
  heardPromoted(): void {
    if (this.#isLeader) return;
    this.#hasFoundDue = false;
    this.#setClocks([]);
  }

  get #isLeader(): boolean {
    return this.#needs.leadership.isLeader;
  }

  #note(inMs: number): void {
    if (this.#isStopped) return;
    const atUs = this.#needs.platform.monotonicUs() + inMs * 1000;
    const place = this.#clocksUs.findLastIndex((clockUs) => clockUs <= atUs) + 1;
    if (place === clocksMax || this.#clocksUs[place - 1] === atUs) return;
    this.#setClocks(this.#clocksUs.toSpliced(place, 0, atUs).slice(0, clocksMax));
  }

  async #pass(clockDuty: Duty, isAsked?: boolean): Promise<DutyPass> {
    // The answer replaces all clocks known before; those heard during the pass are kept.
    this.#setClocks([]);
    const hadFoundDue = this.#hasFoundDue;
    this.#hasFoundDue = false;
    const pass = await clockDuty.pass(isAsked);
    this.#hasStoodIn = hadFoundDue;
    const isUnanswered = pass.nextInMs === 0;
    this.#isAnsweredUnheard = hadFoundDue && !isUnanswered && pass.processed === 0;
    if (pass.hasMore || typeof pass.nextInMs !== "number") return pass;
    if (!isUnanswered) this.heardClock(pass.nextInMs);
    else if (this.#isLeader) this.heardClock(Math.min(hiddenDueMs, pass.hiddenInMs ?? hiddenDueMs));
    else if (!this.#hasStoodIn) this.foundDue();
    return pass;
  }

  #setClocks(clocksUs: number[]): void {
    this.#clocksUs = clocksUs;
    const [firstUs = Number.POSITIVE_INFINITY] = clocksUs;
    const { platform } = this.#needs;
    if (firstUs === this.#timerUs) return;
    this.#timer?.cancel();
    this.#timer = null;
    this.#timerUs = firstUs;
    if (firstUs === Number.POSITIVE_INFINITY) return;
    const delayMs = Math.max(0, Math.ceil((firstUs - platform.monotonicUs()) / 1000));
    this.#timer = platform.setTimer(delayMs, this.#answer, false);
  }
}
