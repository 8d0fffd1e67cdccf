/**
 * Calls that are at a real server. Virtual time must not run away from them: the world asks here how far it may go, and
 * waits for an answer when it may go no further. A store in memory answers before the flush is over, so its calls are
 * not counted.
 */
import type { Store } from "../../src/store/store.ts";
import { settleTurn } from "../../src/testing/virtual-time.ts";
import type { VirtualTime } from "../../src/testing/virtual-time.ts";

export class InFlight {
  readonly #time: VirtualTime;
  /** How far virtual time may go while calls are at the server: what happens in that span meets them there. */
  readonly #overlapUs: number;
  #calls = 0;
  /** Virtual time at which the first of those that are there now came. */
  #sinceUs = 0;
  #heldNow: number | null = null;
  #answered = Promise.withResolvers<void>();

  constructor(time: VirtualTime, overlapUs: number) {
    this.#time = time;
    this.#overlapUs = overlapUs;
  }

  get isEmpty(): boolean {
    return this.#calls === 0;
  }

  /** Until when events may run now; null when an answer must come first. */
  limitUs(untilUs: number): number | null {
    if (this.isEmpty) return untilUs;
    return this.#overlapUs === 0 ? null : Math.min(untilUs, this.#sinceUs + this.#overlapUs);
  }

  /**
   * The store's time, which each call takes along: it stands still while calls are at the server, as they may overtake
   * each other.
   */
  nowOf(clock: () => number): number {
    return this.isEmpty ? clock() : (this.#heldNow ??= clock());
  }

  /**
   * The next event of the world, as soon as the calls that are at the store allow it. @returns false when there is none
   * until then.
   */
  async step(untilUs: number): Promise<boolean> {
    for (;;) {
      const limitUs = this.limitUs(untilUs);
      if (limitUs !== null && (await this.#time.step(limitUs))) return true;
      if (this.isEmpty) {
        if (limitUs === untilUs) return false;
      } else {
        await this.#answered.promise;
        await settleTurn();
      }
    }
  }

  #begin(): void {
    if (this.#calls++ === 0) this.#sinceUs = this.#time.elapsedUs;
  }

  #end(): void {
    if (--this.#calls === 0) this.#heldNow = null;
    this.#answered.resolve();
    this.#answered = Promise.withResolvers<void>();
  }

  /** The same store, whose calls are counted here. */
  watch(store: Store): Store {
    const counted = (run: (request: unknown) => unknown) => async (request: unknown) => {
      this.#begin();
      try {
        return await run(request);
      } finally {
        this.#end();
      }
    };
    const entries = Object.entries(store).map(([kind, operation]: [string, unknown]) => [
      kind,
      typeof operation === "function" && !notCalls.has(kind) ? counted(operation as never) : operation,
    ]);
    return Object.fromEntries(entries) as Store;
  }
}

/** Members of a store that ask nothing of the server, or come when the run is over. */
const notCalls: ReadonlySet<string> = new Set<keyof Store>(["watch", "inTransaction", "close"]);
