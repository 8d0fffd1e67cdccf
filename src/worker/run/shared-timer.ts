/**
 * One real timer for all timeouts of a worker. Most attempts end long before their timeout, so setting and clearing one
 * must cost next to nothing. Items that are due within the same ten milliseconds (a tick) share one set, and only the
 * earliest tick has a real timer. No item fires before its time; it may fire a tick late.
 */
import type { Platform, Timer } from "../../platform/platform.ts";

const tickUs = 10_000;

/** An item that can wait for a time. */
export interface Timed {
  /** The tick that it waits for; -1 if it does not wait. Set by the timer. */
  dueTick: number;
  rang(): void;
}

export class SharedTimer {
  readonly #platform: Platform;
  readonly #ticks = new Map<number, Set<Timed>>();
  #timer: Timer | null = null;
  #timerTick = Number.POSITIVE_INFINITY;

  constructor(platform: Platform) {
    this.#platform = platform;
  }

  /** An item has one time: setting another replaces it. */
  set(item: Timed, atUs: number): void {
    this.clear(item);
    const tick = Math.ceil(atUs / tickUs);
    item.dueTick = tick;
    const items = this.#ticks.get(tick);
    if (items === undefined) this.#ticks.set(tick, new Set([item]));
    else items.add(item);
    if (tick < this.#timerTick) this.#setTimer(tick);
  }

  clear(item: Timed): void {
    if (item.dueTick < 0) return;
    const items = this.#ticks.get(item.dueTick);
    if (items?.delete(item) === true && items.size === 0) this.#ticks.delete(item.dueTick);
    item.dueTick = -1;
    if (this.#ticks.size === 0) this.#clearTimer();
  }

  #setTimer(tick: number): void {
    this.#timer?.cancel();
    this.#timerTick = tick;
    const delayMs = Math.max(0, Math.ceil((tick * tickUs - this.#platform.monotonicUs()) / 1000));
    this.#timer = this.#platform.setTimer(delayMs, () => this.#ring(), false);
  }

  #clearTimer(): void {
    this.#timer?.cancel();
    this.#timer = null;
    this.#timerTick = Number.POSITIVE_INFINITY;
  }

  #ring(): void {
    this.#clearTimer();
    const nowTick = Math.floor(this.#platform.monotonicUs() / tickUs);
    const due = [...this.#ticks.keys()]
      .filter((tick) => tick <= nowTick)
      .toSorted((left, right) => left - right);
    for (const tick of due) {
      const items = this.#ticks.get(tick) ?? new Set();
      this.#ticks.delete(tick);
      for (const item of items) {
        item.dueTick = -1;
        item.rang();
      }
    }
    let earliest = Number.POSITIVE_INFINITY;
    for (const tick of this.#ticks.keys()) if (tick < earliest) earliest = tick;
    if (earliest < this.#timerTick) this.#setTimer(earliest);
  }
}
