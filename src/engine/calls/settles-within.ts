/** Waiting with a limit. No timer is left behind, because a forgotten one would keep the process alive. */
import { durationText } from "../../model/duration.ts";
import { MillraceError } from "../../model/error.ts";
import type { Platform, Timer } from "../../platform/platform.ts";

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

/**
 * The promise's own answer, or `outcome-unknown` when it takes longer: a call that never ends must not block everything
 * behind it.
 */
export function answersWithin<Value>(
  platform: Platform,
  promise: Promise<Value>,
  limitMs: number,
): Promise<Value> {
  return new Promise((resolve, reject) => {
    const late = (): void =>
      reject(
        new MillraceError("outcome-unknown", `The store did not answer within ${durationText(limitMs)}.`),
      );
    const timer = platform.setTimer(limitMs, late, false);
    promise.then(resolve, reject).finally(() => timer.cancel());
  });
}
