/**
 * One process of the simulation: a platform with a clock view of its own, a switch that kills it and one that pauses
 * it.
 *
 * Killed: its timers and everything on the way to it are dropped, so its pending promises never settle. Paused: nothing
 * is delivered for a while, then everything, while its clocks went on.
 */
import { compressAtOnce, nodePlatform } from "../../../src/platform/node-platform.ts";
import type { Platform, Timer } from "../../../src/platform/platform.ts";
import type { SeededRandom } from "../../../src/testing/seeded-random.ts";
import type { VirtualTime } from "../../../src/testing/virtual-time.ts";

export interface ClockView {
  /** What its wall clock is wrong by. */
  offsetMs: number;
  /** How much faster than real time its clocks run: 0.01 is one percent. */
  drift: number;
}

const timerMinUs = 1000;

export class SimProcess {
  readonly name: string;
  readonly platform: Platform;
  readonly clock: ClockView;
  readonly #time: VirtualTime;
  #isAlive = true;
  #held: (() => void)[] | null = null;
  #timers = 0;

  constructor(options: {
    name: string;
    time: VirtualTime;
    random: SeededRandom;
    clock: ClockView;
    processId: number;
  }) {
    const { name, time, random, clock, processId } = options;
    this.name = name;
    this.clock = clock;
    this.#time = time;
    this.platform = {
      now: () => Math.floor(time.now + clock.offsetMs + (time.elapsedUs / 1000) * clock.drift),
      monotonicUs: () => Math.floor(time.elapsedUs * (1 + clock.drift)),
      setTimer: (delayMs, run) =>
        this.deliver(Math.max((delayMs * 1000) / (1 + clock.drift), timerMinUs), run),
      defer: (run) => void this.deliver(0, run),
      random: () => random.next(),
      randomBytes: (count) => random.bytes(count),
      // As by other threads: anything may come between.
      compress: async (body, level) => {
        const bytes = await compressAtOnce(body, level);
        return new Promise((resolve) => void this.deliver(0, () => resolve(bytes)));
      },
      bootId: () => "simulated",
      onTermination: () => () => undefined,
      processId,
      readEnv: () => undefined,
      // Nothing here leads out of the test.
      resolveHost: () => Promise.resolve([]),
      memoryBytes: () => 0,
      // Its host is its own: nobody can ask for its processes.
      processKey: () => null,
      isProcessRunning: () => null,
      temporaryFolder: nodePlatform.temporaryFolder,
      hostName: name,
    };
  }

  get isAlive(): boolean {
    return this.#isAlive;
  }

  /** What is on its way to the process: timers, ends of flushes, replies, hints. */
  get pending(): number {
    return this.#isAlive ? this.#timers : 0;
  }

  /** Runs in this process after the delay, if it is alive then; a paused one gets it when it wakes. */
  deliver(delayUs: number, run: () => void): Timer {
    let isDone = false;
    const end = (): void => {
      if (isDone) return;
      isDone = true;
      this.#timers -= 1;
    };
    const arrive = (): void => {
      if (!this.#isAlive || isDone) return;
      if (this.#held !== null) return void this.#held.push(arrive);
      end();
      run();
    };
    this.#timers += 1;
    const event = this.#time.after(delayUs, arrive);
    return {
      cancel: () => {
        event.cancel();
        end();
      },
    };
  }

  kill(): void {
    this.#isAlive = false;
    this.#held = null;
  }

  pause(): void {
    this.#held ??= [];
  }

  resume(): void {
    const held = this.#held ?? [];
    this.#held = null;
    for (const arrive of held) this.#time.after(0, arrive);
  }

  /** A wait inside this process: it never ends once the process is killed. */
  sleep(ms: number): Promise<void> {
    return new Promise((resolve) => this.platform.setTimer(ms, resolve));
  }
}
