/**
 * Which process of a store answers a clock that rings: the leader, at once. The others answer only a clock that a
 * heartbeat finds unanswered, after a fallback delay in which the news of a promotion under way may come.
 * So a due job costs the fleet one promotion and not one per process. While there is no leader, or if it does not
 * answer, a due job starts at most 1.2 s late.
 *
 *  a hint, an answer ──► clock ──rings──► the leader: a pass
 *
 *  a heartbeat finds a clock that has rung ──► another process: fallback delay ──► a pass
 *                                                     │
 *                                        "promoted" ──┴──► nothing to do
 *
 * If the clock is answered by the end of the delay although no hint said so, the workers here claim: what was promoted
 * is not known to them. The longest sleep of the clock duty is the last resort, in every process.
 */
import type { Timer } from "../../platform/platform.ts";
import type { Duty, DutyPass } from "../duties/duty.ts";
import type { Needs } from "../services.ts";

type ClockAnswersNeeds = Needs<"platform" | "leadership">;

/** The spread keeps processes that found the same clock from answering it all at once. */
const fallbackMs = { least: 30, spread: 50 };
/**
 * A clock that has rung hides the next one of its partition from the clock duty, because a store tells only the
 * earliest. The duty that answers the clock wakes the clock duty again. If none can (a quarantined job, a partition
 * whose promotions fail, a duty switched off everywhere), the leader looks this often, and it bounds how late a due job
 * of that partition becomes ready.
 */
const hiddenRingMs = 250;
/** A pass tells the next clock, so only the clocks before it must be known; later ones than these are left out. */
const clocksMax = 64;

export class ClockAnswers {
  /** The clock duty, whose passes are seen here. */
  readonly duty: Duty;
  readonly #needs: ClockAnswersNeeds;
  readonly #answer: () => void;
  /** When the clocks ring that this process will answer, by the monotonic clock, in order. */
  #clocksUs: number[] = [];
  #timer: Timer | null = null;
  #timerUs = Number.POSITIVE_INFINITY;
  /** A clock that has rung was found, and nobody is known to have answered it. */
  #hasMetRung = false;
  /** The last pass was made after the fallback delay. */
  #hasStoodIn = false;
  /** The last pass found that another process had answered what was found here. */
  #isAnsweredUnheard = false;
  #isStopped = true;

  /** @param answer makes the clock duty pass. */
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

  /** Whether a ring that the last pass of the clock duty met and did not serve is for this process to answer. */
  get mayAnswer(): boolean {
    return this.#isLeader || this.#hasStoodIn;
  }

  /** Whether jobs may have become ready by a promotion of another process that no hint announced here. */
  get isAnsweredUnheard(): boolean {
    return this.#isAnsweredUnheard;
  }

  heardClock(inMs: number): void {
    // A pass comes before it anyway, and tells it again.
    if (this.#isLeader && inMs <= this.duty.sleepMaxMs) this.#note(Math.max(0, inMs));
  }

  /** A clock that has rung was found. */
  metRung(): void {
    this.#hasMetRung = true;
    const { least, spread } = fallbackMs;
    if (this.#isLeader) this.#note(0);
    else if (this.#clocksUs.length === 0) this.#note(least + this.#needs.platform.random() * spread);
  }

  /** Not for the leader: a clock that was set while others promoted may be one that they did not see. */
  heardPromoted(): void {
    if (this.#isLeader) return;
    this.#hasMetRung = false;
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
    // The answer is newer than all that was heard before; what is heard meanwhile is kept.
    this.#setClocks([]);
    const hadMetRung = this.#hasMetRung;
    this.#hasMetRung = false;
    const pass = await clockDuty.pass(isAsked);
    this.#hasStoodIn = hadMetRung;
    const isUnanswered = pass.nextInMs === 0;
    this.#isAnsweredUnheard = hadMetRung && !isUnanswered && pass.processed === 0;
    if (pass.hasMore || typeof pass.nextInMs !== "number") return pass;
    if (!isUnanswered) this.heardClock(pass.nextInMs);
    else if (this.#isLeader) this.heardClock(Math.min(hiddenRingMs, pass.hiddenInMs ?? hiddenRingMs));
    else if (!this.#hasStoodIn) this.metRung();
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
