/**
 * One timer for all timeouts of a worker. Most attempts end long before theirs, so adding and removing must cost next to nothing:
 * items wait in a set per tick, and only the earliest tick has a real timer. Precise to a tick.
 */
import type { Platform, Timer } from "../platform/platform.ts";

const tickUs = 10_000;

export interface WheelItem {
  /** The tick it waits for; -1 when it does not wait. Owned by the wheel. */
  wheelTick: number;
  rang(): void;
}

export class TimerWheel {
  readonly #platform: Platform;
  readonly #ticks = new Map<number, Set<WheelItem>>();
  #timer: Timer | null = null;
  #timerTick = Number.POSITIVE_INFINITY;

  constructor(platform: Platform) {
    this.#platform = platform;
  }

  /** An item waits for one time only: adding it again moves it. */
  add(item: WheelItem, atUs: number): void {
    this.remove(item);
    const tick = Math.ceil(atUs / tickUs);
    item.wheelTick = tick;
    const items = this.#ticks.get(tick);
    if (items === undefined) this.#ticks.set(tick, new Set([item]));
    else items.add(item);
    if (tick < this.#timerTick) this.#setTimer(tick);
  }

  remove(item: WheelItem): void {
    if (item.wheelTick < 0) return;
    const items = this.#ticks.get(item.wheelTick);
    if (items?.delete(item) === true && items.size === 0) this.#ticks.delete(item.wheelTick);
    item.wheelTick = -1;
    if (this.#ticks.size === 0) this.#clearTimer();
  }

  #setTimer(tick: number): void {
    this.#timer?.cancel();
    this.#timerTick = tick;
    const delayMs = Math.max(0, Math.ceil((tick * tickUs - this.#platform.monotonicUs()) / 1000));
    this.#timer = this.#platform.setTimer(delayMs, () => this.#turn(), false);
  }

  #clearTimer(): void {
    this.#timer?.cancel();
    this.#timer = null;
    this.#timerTick = Number.POSITIVE_INFINITY;
  }

  #turn(): void {
    this.#clearTimer();
    const nowTick = Math.floor(this.#platform.monotonicUs() / tickUs);
    const due = [...this.#ticks.keys()]
      .filter((tick) => tick <= nowTick)
      .toSorted((left, right) => left - right);
    for (const tick of due) {
      const items = this.#ticks.get(tick) ?? new Set();
      this.#ticks.delete(tick);
      for (const item of items) {
        item.wheelTick = -1;
        item.rang();
      }
    }
    let earliest = Number.POSITIVE_INFINITY;
    for (const tick of this.#ticks.keys()) if (tick < earliest) earliest = tick;
    if (earliest < this.#timerTick) this.#setTimer(earliest);
  }
}
