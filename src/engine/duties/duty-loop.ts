/**
 * The loop of one duty: a pass, a sleep, the next pass. After a full batch the next pass follows at once. Otherwise the
 * duty sleeps until it is woken, or for its `sleepMaxMs` at most, with jitter. A failed pass is repeated with backoff,
 * every two seconds at the latest while the store is away.
 */
import { isMillraceError } from "../../model/error.ts";
import { Backoff } from "../../platform/backoff.ts";
import type { Timer } from "../../platform/platform.ts";
import type { Duty, DutyPass } from "./duty.ts";
import { DutyCount } from "./duty-figures.ts";
import type { DutyFigures } from "./duty-figures.ts";
import { errorText, failuresBefore, isStoreAway } from "./quarantine.ts";
import type { QuarantineCase } from "./quarantine.ts";
import type { Needs } from "../services.ts";
import { answersWithin } from "../calls/settles-within.ts";
import { RepeatedLine } from "../log/repeated-line.ts";

type DutyLoopNeeds = Needs<"platform" | "log">;

/** The waits between failed passes. */
const failedMs = { firstMs: 200, maxMs: 30_000 };
/** The longest wait while the store is away, so that the duties are back soon after it. */
const awayMaxMs = 2000;
/** A pass that takes longer counts as failed, and the loop goes on. */
const passMaxMs = 60_000;

interface Trouble {
  readonly failures: number;
  readonly error: string;
  readonly until: number;
  /** If the store is away, the failure is not shown: it is not the duty's fault, and it could not be written anyway. */
  readonly isStoreAway: boolean;
}

export class DutyLoop {
  readonly duty: Duty;
  readonly #count: DutyCount;
  readonly #needs: DutyLoopNeeds;
  readonly #ended: (loop: DutyLoop, pass: DutyPass | null) => void;
  readonly #takeUnreadable: () => number;
  readonly #backoff: Backoff;
  readonly #line: RepeatedLine;
  #isStopping = false;
  #whenStopped: Promise<void> = Promise.resolve();
  #trouble: Trouble | null = null;
  #wake: (() => void) | null = null;
  #timer: Timer | null = null;
  #wakeAtUs = Number.POSITIVE_INFINITY;
  /** The time of the next pass was set from outside. */
  #isWoken = false;

  /**
   * @param ended called after every pass, with null for a failed one.
   * @param takeUnreadable how many unreadable records were met since it was called last: errors of the pass.
   */
  constructor(
    needs: DutyLoopNeeds,
    duty: Duty,
    ended: (loop: DutyLoop, pass: DutyPass | null) => void,
    takeUnreadable: () => number,
  ) {
    this.#needs = needs;
    this.duty = duty;
    this.#count = new DutyCount(needs.platform);
    this.#backoff = new Backoff(needs.platform, failedMs);
    this.#line = new RepeatedLine(needs, "warn", `duty ${duty.name} failed and starts again`);
    this.#ended = ended;
    this.#takeUnreadable = takeUnreadable;
  }

  start(): void {
    this.#whenStopped = this.#loop();
  }

  stop(): Promise<void> {
    this.#isStopping = true;
    this.#wake?.();
    return this.#whenStopped;
  }

  /** Wakes the duty after `inMs`, if it would sleep longer. */
  wakeIn(inMs: number): void {
    const atUs = this.#needs.platform.monotonicUs() + Math.max(0, inMs) * 1000;
    if (atUs >= this.#wakeAtUs) return;
    this.#isWoken = true;
    this.#wakeAtUs = atUs;
    if (this.#wake === null) return;
    // Not by a timer, which would cost a millisecond: a job whose clock is due should start at once.
    if (inMs <= 0) this.#wake();
    else this.#setTimer();
  }

  /**
   * Another process has just seen what a pass would find, so the sleep starts again, unless an earlier time was set.
   */
  sleepOn(): void {
    if (this.#wake === null || this.#isWoken || this.#trouble !== null) return;
    this.#count.seen();
    this.#wakeAtUs = this.#needs.platform.monotonicUs() + this.#sleepMs() * 1000;
    this.#setTimer();
  }

  /** A pass is running, or begins in this flush. */
  get isAtWork(): boolean {
    return this.#wake === null;
  }

  get figures(): DutyFigures {
    return this.#count.read(this.cases, this.duty.quarantine?.failuresIn ?? {});
  }

  /** The quarantined items, and the duty's own failure as a case without an item. */
  get cases(): readonly (Omit<QuarantineCase, "item"> & { readonly item: string | null })[] {
    const items = this.duty.quarantine?.list() ?? [];
    if (this.#trouble === null) return items;
    const { failures, error, until, isStoreAway: isAway } = this.#trouble;
    return isAway || failures < failuresBefore ? items : [{ item: null, failures, error, until }, ...items];
  }

  async #loop(): Promise<void> {
    while (!this.#isStopping) {
      this.#wakeAtUs = Number.POSITIVE_INFINITY;
      this.#isWoken = false;
      try {
        const own = await answersWithin(this.#needs.platform, this.duty.pass(), passMaxMs);
        const pass = { ...own, errors: own.errors + this.#takeUnreadable() };
        this.#trouble = null;
        this.#line.over();
        this.#backoff.succeeded();
        this.#count.ended(pass);
        this.#ended(this, pass);
        if (!pass.hasMore) await this.#sleep(this.#sleepMs());
        else if (pass.pauseMs !== undefined) await this.#sleep(pass.pauseMs);
        else await new Promise<void>((resolve) => this.#needs.platform.defer(resolve));
      } catch (error) {
        if (this.#isStopping) return;
        const delayMs = this.#failed(error);
        this.#count.ended(null);
        this.#ended(this, null);
        await this.#sleep(delayMs);
      }
    }
  }

  /** @returns how long to wait before the next try. */
  #failed(error: unknown): number {
    const failures = (this.#trouble?.failures ?? 0) + 1;
    const isAway = isMillraceError(error) && error.retryable;
    const delayMs = Math.min(this.#backoff.failed(), isAway ? awayMaxMs : Infinity);
    this.#trouble = {
      failures,
      error: errorText(error),
      until: Math.round(this.#needs.platform.now() + delayMs),
      isStoreAway: isStoreAway(error),
    };
    this.#line.say({ failures, error });
    return delayMs;
  }

  #sleepMs(): number {
    return this.duty.sleepMaxMs * (0.85 + this.#needs.platform.random() * 0.15);
  }

  #sleep(delayMs: number): Promise<void> {
    const atUs = this.#needs.platform.monotonicUs() + delayMs * 1000;
    this.#wakeAtUs = Math.min(this.#wakeAtUs, atUs);
    return new Promise((resolve) => {
      this.#wake = () => {
        this.#timer?.cancel();
        this.#timer = null;
        this.#wake = null;
        resolve();
      };
      if (this.#isStopping) return this.#wake();
      this.#setTimer();
    });
  }

  #setTimer(): void {
    const { platform } = this.#needs;
    this.#timer?.cancel();
    const delayMs = Math.max(0, Math.ceil((this.#wakeAtUs - platform.monotonicUs()) / 1000));
    this.#timer = platform.setTimer(delayMs, () => this.#wake?.(), false);
  }
}
