/**
 * The store's time as this process tells it: the machine's clock, and by how much the store is ahead of it.
 *
 * What was written down is never taken back, so a clock that was an hour ahead for one call leaves the store an hour
 * ahead when it is set right. From there the store goes on at the machine's pace, in every process that has the file
 * open, because each learns the newest time from the file. A process that opens the file later starts at the newest
 * time that it finds: what the machine has caught up meanwhile is no longer ahead.
 */

export interface StoreClock {
  /** The time of the next call, unless the file says that it is later. */
  now(): number;
  /** The time that a call has really had: ahead of the clock's own where the machine's was set back. */
  observe(now: number): void;
  aheadMs(): number;
}

/**
 * A smaller step back is waited out, with the time standing still: many of them, as some machines keep their clocks
 * right by, would otherwise add up.
 */
const waitedOutMs = 1000;

export function openStoreClock(machine: { now(): number }): StoreClock {
  let aheadMs = 0;
  const now = (): number => machine.now() + aheadMs;
  return {
    now,
    observe(observed) {
      // The clock is read again, behind the call: the time that came with the call may be old.
      const behindMs = observed - now();
      if (behindMs > waitedOutMs) aheadMs += behindMs;
    },
    aheadMs: () => aheadMs,
  };
}
