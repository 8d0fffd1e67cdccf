/**
 * The store's time in this process: the machine's clock, plus by how much the store is ahead of it.
 *
 * Written times never go back. So if a clock was an hour ahead for one call, the store stays an hour ahead after the
 * clock was corrected. It goes on at the machine's pace in every process that has the file open, because each reads the
 * newest time from the file. A process that opens the file later starts at the newest time that it finds, less what the
 * machine has caught up meanwhile.
 */

export interface StoreClock {
  /** The time of the next call, unless the file has a later one. */
  now(): number;
  /** Reports the time that a call really had: ahead of the machine's clock if that was set back. */
  observe(now: number): void;
  aheadMs(): number;
}

/**
 * A smaller step back is waited out, with the time standing still. Some machines correct their clocks by many such
 * steps, which would otherwise add up.
 */
const waitedOutMs = 1000;

export function openStoreClock(machine: { now(): number }): StoreClock {
  let aheadMs = 0;
  const now = (): number => machine.now() + aheadMs;
  return {
    now,
    observe(observed) {
      // The clock is read again after the call, because the time that came with the call may be old.
      const behindMs = observed - now();
      if (behindMs > waitedOutMs) aheadMs += behindMs;
    },
    aheadMs: () => aheadMs,
  };
}
