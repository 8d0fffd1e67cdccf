/** Waiting with a limit, leaving no timer behind: a forgotten one would keep the process alive. */
import type { Platform, Timer } from "../platform/platform.ts";

/** @returns true when the promise settled first, false when the time was over first. Never rejects. */
export function settlesWithin(
  platform: Platform,
  promise: Promise<unknown>,
  limitMs: number,
): Promise<boolean> {
  return new Promise((resolve) => {
    const timer: Timer = platform.setTimer(limitMs, () => resolve(false));
    const settled = (): void => {
      timer.cancel();
      resolve(true);
    };
    promise.then(settled, settled);
  });
}
