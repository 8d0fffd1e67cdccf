/**
 * Virtual time: one clock and one heap of events. Nothing happens unless somebody steps: then one event is called,
 * everything that follows from it by promises settles, and the next event is called. Time jumps from event to event.
 */
import { nodePlatform } from "../platform/node-platform.ts";
import type { Timer } from "../platform/platform.ts";
import { EventHeap } from "./event-heap.ts";
import type { HeapEvent } from "./event-heap.ts";

export interface VirtualTimeOptions {
  /** Epoch milliseconds at which the clock starts. */
  readonly startAt?: number;
  /** Orders the events of one instant; the order of insertion when left out. */
  readonly tieBreak?: () => number;
}

export const defaultStartAt = Date.UTC(2026, 0, 1);

export class VirtualTime {
  readonly #startAt: number;
  readonly #tieBreak: (() => number) | null;
  readonly #heap = new EventHeap();
  #elapsedUs = 0;
  #inserted = 0;

  constructor(options: VirtualTimeOptions = {}) {
    this.#startAt = options.startAt ?? defaultStartAt;
    this.#tieBreak = options.tieBreak ?? null;
  }

  /** Microseconds since the start; never goes back. */
  get elapsedUs(): number {
    return this.#elapsedUs;
  }

  /** Epoch milliseconds. */
  get now(): number {
    return this.#startAt + Math.floor(this.#elapsedUs / 1000);
  }

  /** Events that wait for their time. */
  get pending(): number {
    return this.#heap.size;
  }

  after(delayUs: number, run: () => void): Timer {
    const atUs = this.#elapsedUs + Math.max(0, Math.ceil(delayUs));
    const event: HeapEvent = { atUs, tie: this.#tieBreak?.() ?? this.#inserted++, run };
    this.#heap.push(event);
    return { cancel: () => this.#heap.cancel(event) };
  }

  /** Runs the next event and what follows from it. @returns false when there is none until then. */
  async step(untilUs: number = Number.POSITIVE_INFINITY): Promise<boolean> {
    const event = this.#heap.peek();
    if (event === undefined || event.atUs > untilUs) return false;
    this.#heap.take();
    this.#elapsedUs = event.atUs;
    const { run } = event;
    event.run = null;
    run?.();
    await settleTurn();
    return true;
  }

  /** Runs everything that is due within this span and leaves the clock at its end. */
  async advance(us: number): Promise<void> {
    const untilUs = this.#elapsedUs + us;
    await settleTurn();
    while (await this.step(untilUs));
    this.#elapsedUs = untilUs;
  }
}

/**
 * Resolves once all promises that can settle by themselves have settled: after a turn of the real event loop. Counting
 * promise ticks instead would mean to know the longest chain in the engine.
 */
export function settleTurn(): Promise<void> {
  return new Promise((resolve) => nodePlatform.defer(resolve));
}
