/**
 * One supervisor runs the duties: each in a loop of its own, so that one that hangs or crashes stops no other. A full batch runs
 * again at once; else the duty sleeps until the next clock it knows of, until it is woken, or until its upper bound, with jitter.
 * A crashed run is started again with backoff. Stopping is bounded and says how many did not stop.
 *
 * The alarm: the promote duty learns from the store when the next clock of any job rings. If a clock has rung and promoting did not
 * serve it, the duties that answer the other clocks (leases, timeouts, deadlines) are woken. So an idle store is asked once per
 * interval, not once per duty.
 */
import { MillraceError } from "../model/error.ts";
import type { Timer } from "../platform/platform.ts";
import type { Unwatch } from "../store/store.ts";
import { addRuns, idleRun } from "./duties/duty.ts";
import type { Duty, DutyRun } from "./duties/duty.ts";
import type { Engine } from "./engine.ts";
import { answersWithin, settlesWithin } from "./race.ts";

const backoffFirstMs = 100;
const backoffMaxMs = 30_000;
/** A run that takes longer is given up: the loop goes on without it. */
const runMaxMs = 60_000;
const runsPerCallMax = 10_000;

export class Supervisor {
  readonly #engine: Engine;
  readonly #loops: DutyLoop[];
  #unwatch: Unwatch | null = null;

  constructor(engine: Engine, duties: readonly Duty[]) {
    this.#engine = engine;
    this.#loops = duties.map((duty) => new DutyLoop(engine, duty, (nextInMs) => this.#alarm(nextInMs)));
  }

  start(): void {
    this.#unwatch = this.#engine.store.watch((hint) => {
      if (hint.kind !== "due") return;
      for (const loop of this.#loops) if (loop.duty.wakes === "clock") loop.wakeIn(hint.inMs);
    });
    for (const loop of this.#loops) loop.start();
  }

  /** Runs one duty until it has nothing more to do, and reports. */
  async runOnce(name: string): Promise<DutyRun> {
    const loop = this.#loops.find(({ duty }) => duty.name === name);
    if (loop === undefined) {
      const known = this.#loops.map(({ duty }) => duty.name).join(", ");
      throw new MillraceError(
        "invalid-option",
        `There is no duty ${JSON.stringify(name)}; known are ${known}.`,
      );
    }
    let report = idleRun;
    for (let run = 0; run < runsPerCallMax; run++) {
      report = addRuns(report, await loop.duty.run());
      if (!report.hasMore) break;
    }
    return report;
  }

  get dutyNames(): readonly string[] {
    return this.#loops.map(({ duty }) => duty.name);
  }

  /** @returns how many duties did not stop within the grace. */
  async stop(graceMs: number): Promise<number> {
    this.#unwatch?.();
    this.#unwatch = null;
    let left = this.#loops.length;
    const all = Promise.all(this.#loops.map((loop) => loop.stop().then(() => void (left -= 1))));
    await settlesWithin(this.#engine.platform, all, graceMs);
    return left;
  }

  #alarm(nextInMs: number): void {
    if (nextInMs > 0) return;
    for (const loop of this.#loops) if (loop.duty.wakes === "alarm") loop.wakeIn(0);
  }
}

class DutyLoop {
  readonly duty: Duty;
  readonly #engine: Engine;
  readonly #alarm: (nextInMs: number) => void;
  #isStopping = false;
  #ended: Promise<void> = Promise.resolve();
  #wake: (() => void) | null = null;
  #timer: Timer | null = null;
  #wakeAtUs = Number.POSITIVE_INFINITY;

  constructor(engine: Engine, duty: Duty, alarm: (nextInMs: number) => void) {
    this.#engine = engine;
    this.duty = duty;
    this.#alarm = alarm;
  }

  start(): void {
    this.#ended = this.#loop();
  }

  stop(): Promise<void> {
    this.#isStopping = true;
    this.#wake?.();
    return this.#ended;
  }

  /** Wakes the duty then, if it would sleep longer. */
  wakeIn(inMs: number): void {
    const atUs = this.#engine.platform.monotonicUs() + Math.max(0, inMs) * 1000;
    if (atUs >= this.#wakeAtUs) return;
    this.#wakeAtUs = atUs;
    if (this.#wake !== null) this.#setTimer();
  }

  async #loop(): Promise<void> {
    let failures = 0;
    while (!this.#isStopping) {
      this.#wakeAtUs = Number.POSITIVE_INFINITY;
      try {
        const run = await answersWithin(this.#engine.platform, this.duty.run(), runMaxMs);
        failures = 0;
        if (this.duty.wakes === "clock" && typeof run.nextInMs === "number" && !run.hasMore)
          this.#alarm(run.nextInMs);
        if (!run.hasMore) await this.#sleep(this.#sleepMs(run));
        else if (run.pauseMs !== undefined) await this.#sleep(run.pauseMs);
        else await new Promise<void>((resolve) => this.#engine.platform.defer(resolve));
      } catch (error) {
        failures += 1;
        if (this.#isStopping) return;
        this.#engine.log.warn(`duty ${this.duty.name} failed and starts again`, { failures, error });
        await this.#sleep(
          Math.min(backoffFirstMs * 2 ** Math.min(failures, 20), backoffMaxMs) * this.#jitter(),
        );
      }
    }
  }

  #sleepMs(run: DutyRun): number {
    // A clock that has rung already belongs to another duty: asking again at once would be a busy loop.
    const nextInMs =
      typeof run.nextInMs === "number" && run.nextInMs > 0 ? run.nextInMs : Number.POSITIVE_INFINITY;
    return Math.min(nextInMs, this.duty.sleepMaxMs * this.#jitter());
  }

  #jitter(): number {
    return 0.85 + this.#engine.platform.random() * 0.15;
  }

  #sleep(delayMs: number): Promise<void> {
    const atUs = this.#engine.platform.monotonicUs() + delayMs * 1000;
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
    const { platform } = this.#engine;
    this.#timer?.cancel();
    const delayMs = Math.max(0, Math.ceil((this.#wakeAtUs - platform.monotonicUs()) / 1000));
    this.#timer = platform.setTimer(delayMs, () => this.#wake?.(), false);
  }
}
