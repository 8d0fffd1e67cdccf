/**
 * Which of the processes of a store answers a clock that rings: the holder of the term of the clocks at once; the
 * others stand by for a quarter second and answer only if no hint has told meanwhile that due jobs were promoted. So a
 * due job costs the fleet one promotion and not one per process, and a holder that died or was stopped makes it late by
 * the quarter second until another has its term, and no more.
 *
 *  a hint, an answer ──► clock ──rings──┬──► the holder: a pass
 *                          │            └──► another: stands by ──► a pass, and the term if it is free
 *                          └──────────────────── "promoted" ──► nothing to do
 *
 * A claim that meets a clock that has rung says that nobody was in time, perhaps because every hint was lost: then the
 * others stand by only for as long as the news of a promotion under way takes. Where the clock is answered by then, and
 * no hint said so, the workers here claim, because what was promoted is not known to them.
 *
 * The term only saves calls. It is taken at the start; who has lost it to another process learns so from its book of
 * terms when a clock rings.
 * Behind all of it stands the longest sleep of the clock duty, in every process.
 */
import type { Timer } from "../platform/platform.ts";
import type { Duty, DutyPass } from "./duties/duty.ts";
import { Term } from "./duties/term.ts";
import type { Engine } from "./engine.ts";
import { answersWithin } from "./race.ts";

/** The spread keeps processes that stand by for the same clock from answering it all at once. */
const standBy = { leastMs: 250, spreadMs: 50 };
/** The least time to stand by behind a claim that has met a clock that has rung. */
const standByMetMs = 30;
/**
 * A clock that has rung hides the next one of its partition from the clock duty, because a store tells only the
 * earliest. The duty that answers the clock wakes the clock duty again; where none can (a quarantined job, a partition
 * whose promotions fail, a duty switched off everywhere), the holder looks this often, and it bounds how late a due job
 * of that partition becomes ready.
 */
const hiddenRingMs = 250;
/**
 * A clock that rings so soon was meant, too: this process may have heard of it late and count it as later than it is.
 */
const meantMs = 50;
/** A pass tells the next clock, so only the clocks before it must be known; later ones than these are left out. */
const clocksMax = 64;
/** The least time between two tries to take the term from another process. */
const tryAgainMs = 500;
const takeMaxMs = 5000;

export class StandingBy {
  /** The clock duty, whose passes are told here. */
  readonly duty: Duty;
  readonly #engine: Engine;
  readonly #term: Term;
  readonly #answer: () => void;
  /** When the clocks ring that nobody is known to have answered, by the monotonic clock, in order. */
  #clocksUs: number[] = [];
  #timer: Timer | null = null;
  #timerUs = Number.POSITIVE_INFINITY;
  #isHolder = false;
  #hasStoodBy = false;
  /** A claim has met a clock that has rung, and nobody is known to have answered it. */
  #hasMetRung = false;
  /** The last pass found that another process had answered what a claim here has met. */
  #isAnsweredUnheard = false;
  #isStopped = true;
  #triedUs = Number.NEGATIVE_INFINITY;
  #taking: Promise<void> | null = null;

  /** @param answer makes the clock duty pass. */
  constructor(engine: Engine, clockDuty: Duty, answer: () => void) {
    this.#engine = engine;
    this.#term = new Term(engine, "clocks");
    this.#term.whenTaken(() => this.#hold(true));
    this.#answer = answer;
    this.duty = { ...clockDuty, pass: (isAsked) => this.#pass(clockDuty, isAsked) };
  }

  start(): void {
    this.#isStopped = false;
    this.#take();
  }

  async stop(): Promise<void> {
    this.#isStopped = true;
    this.#clocksUs = [];
    this.#arm();
    await this.#taking;
  }

  /** Whether a ring that the last pass of the clock duty met and did not serve is for this process to answer. */
  get mayAnswer(): boolean {
    return this.#isHolder || this.#hasStoodBy;
  }

  /** Whether jobs may have become ready by a promotion of another process of which the last pass told first. */
  get isAnsweredUnheard(): boolean {
    return this.#isAnsweredUnheard;
  }

  heardClock(inMs: number): void {
    // A pass comes before it anyway, and tells it again.
    if (this.#isStopped || inMs > this.duty.sleepMaxMs) return;
    this.#note(Math.max(0, inMs));
  }

  /** A claim has met a clock that has rung. It counts as one that rang a while ago. */
  metRung(): void {
    if (this.#isStopped) return;
    this.#hasMetRung = true;
    this.#note(standByMetMs - standBy.leastMs);
  }

  #note(inMs: number): void {
    const atUs = this.#engine.platform.monotonicUs() + inMs * 1000;
    const place = this.#clocksUs.findLastIndex((clockUs) => clockUs <= atUs) + 1;
    if (place === clocksMax || this.#clocksUs[place - 1] === atUs) return;
    this.#clocksUs.splice(place, 0, atUs);
    this.#clocksUs.length = Math.min(this.#clocksUs.length, clocksMax);
    this.#arm();
  }

  /** Not for the holder: a clock that was set while others promoted may be one that they did not see. */
  heardPromoted(): void {
    if (this.#isHolder) return;
    const untilUs = this.#engine.platform.monotonicUs() + meantMs * 1000;
    this.#clocksUs = this.#clocksUs.filter((clockUs) => clockUs > untilUs);
    this.#hasMetRung = false;
    this.#arm();
  }

  async #pass(clockDuty: Duty, isAsked?: boolean): Promise<DutyPass> {
    const rangForMs = (this.#engine.platform.monotonicUs() - (this.#clocksUs[0] ?? Infinity)) / 1000;
    // The answer is newer than all that was heard before; what is heard meanwhile is kept.
    this.#clocksUs = [];
    this.#arm();
    const hadMetRung = this.#hasMetRung;
    this.#hasMetRung = false;
    const pass = await clockDuty.pass(isAsked);
    this.#hasStoodBy = !this.#isHolder && rangForMs >= standBy.leastMs;
    const isUnanswered = pass.nextInMs === 0;
    this.#isAnsweredUnheard = hadMetRung && !isUnanswered && pass.processed === 0;
    const isHolderLate = pass.processed > 0 ? rangForMs > meantMs : isUnanswered && this.#hasStoodBy;
    if (this.#isHolder ? rangForMs >= 0 : isHolderLate) this.#take();
    if (pass.hasMore || typeof pass.nextInMs !== "number") return pass;
    if (!isUnanswered) this.heardClock(pass.nextInMs);
    else if (this.#isHolder) this.heardClock(Math.min(hiddenRingMs, pass.hiddenInMs ?? hiddenRingMs));
    else if (!this.#hasStoodBy) this.heardClock(0);
    return pass;
  }

  #arm(): void {
    const [firstUs = Number.POSITIVE_INFINITY] = this.#clocksUs;
    const { platform } = this.#engine;
    // A timer that is set for the same clock stays, with its share of the spread.
    if (firstUs === this.#timerUs) return;
    this.#timer?.cancel();
    this.#timer = null;
    this.#timerUs = firstUs;
    if (firstUs === Number.POSITIVE_INFINITY) return;
    const waitMs = this.#isHolder ? 0 : standBy.leastMs + platform.random() * standBy.spreadMs;
    const delayMs = Math.max(0, Math.ceil((firstUs - platform.monotonicUs()) / 1000 + waitMs));
    this.#timer = platform.setTimer(delayMs, this.#answer, false);
  }

  /** Takes the term, or makes it longer; beside the passes, because none should wait for it. */
  #take(): void {
    const nowUs = this.#engine.platform.monotonicUs();
    const isTooSoon = !this.#isHolder && nowUs - this.#triedUs < tryAgainMs * 1000;
    if (this.#taking !== null || this.#isStopped || isTooSoon) return;
    this.#triedUs = nowUs;
    this.#taking = this.#tryTerm().finally(() => (this.#taking = null));
  }

  async #tryTerm(): Promise<void> {
    const { platform, log } = this.#engine;
    try {
      this.#hold(await answersWithin(platform, this.#term.take(), takeMaxMs));
    } catch (error) {
      log.debug("the term of the clocks could not be taken", { error });
    }
  }

  #hold(isHolder: boolean): void {
    if (isHolder === this.#isHolder || this.#isStopped) return;
    this.#isHolder = isHolder;
    this.#timerUs = Number.POSITIVE_INFINITY;
    this.#arm();
  }
}
