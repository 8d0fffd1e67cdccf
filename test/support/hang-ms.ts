/**
 * The only bounds on real time in tests. A test never asserts how fast something was: a promise about time is checked
 * on the virtual clock or by the order of events, and the figure belongs to `bench/`.
 */

/** Whatever takes this long on a busy machine hangs. */
export const hangMs = 120_000;
/** Of a test or a hook: longer than the waits in it, so that the wait that hangs is the one that is named. */
export const testMaxMs = 300_000;
