/**
 * The events that are going to happen, by virtual time: a binary heap ordered by (time, tie). The tie decides between
 * events of one instant: the order of insertion, or a seeded number that tries other interleavings.
 */

export interface HeapEvent {
  readonly atUs: number;
  readonly tie: number;
  run: (() => void) | null;
}

function isBefore(one: HeapEvent, other: HeapEvent): boolean {
  return one.atUs < other.atUs || (one.atUs === other.atUs && one.tie < other.tie);
}

export class EventHeap {
  readonly #events: HeapEvent[] = [];
  #cancelled = 0;

  /** Events that will run, cancelled ones left out. */
  get size(): number {
    return this.#events.length - this.#cancelled;
  }

  push(event: HeapEvent): void {
    const events = this.#events;
    let at = events.push(event) - 1;
    while (at > 0) {
      const parent = (at - 1) >> 1;
      if (!isBefore(event, events[parent] as HeapEvent)) break;
      events[at] = events[parent] as HeapEvent;
      at = parent;
    }
    events[at] = event;
  }

  cancel(event: HeapEvent): void {
    if (event.run === null) return;
    event.run = null;
    this.#cancelled += 1;
  }

  peek(): HeapEvent | undefined {
    while (this.#events[0]?.run === null) {
      this.#removeFirst();
      this.#cancelled -= 1;
    }
    return this.#events[0];
  }

  take(): HeapEvent | undefined {
    return this.peek() === undefined ? undefined : this.#removeFirst();
  }

  #removeFirst(): HeapEvent | undefined {
    const events = this.#events;
    const first = events[0];
    const last = events.pop();
    if (first === undefined || last === undefined || events.length === 0) return first;
    let at = 0;
    for (;;) {
      let child = 2 * at + 1;
      if (child >= events.length) break;
      const right = child + 1;
      if (right < events.length && isBefore(events[right] as HeapEvent, events[child] as HeapEvent))
        child = right;
      if (!isBefore(events[child] as HeapEvent, last)) break;
      events[at] = events[child] as HeapEvent;
      at = child;
    }
    events[at] = last;
    return first;
  }
}
