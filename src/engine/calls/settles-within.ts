/** Waits with a limit. The timer is always cancelled, because a pending one would keep the process alive. */
import { durationText } from "../../model/duration.ts";
import { MillraceError } from "../../model/error.ts";
import type { Platform, Timer } from "../../platform/platform.ts";

/** @returns true if the promise settled in time, false if not. Never rejects. */
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
 * @returns the promise's value. If it takes longer, rejects with `late`, by default with `outcome-unknown`, so that a
 * call that never ends blocks nothing else.
 */
export function answersWithin<Value>(
  platform: Platform,
  promise: Promise<Value>,
  limitMs: number,
  late = (): MillraceError =>
    new MillraceError("outcome-unknown", `The store did not answer within ${durationText(limitMs)}.`),
): Promise<Value> {
  return new Promise((resolve, reject) => {
    const timer = platform.setTimer(limitMs, () => reject(late()), false);
    promise.then(resolve, reject).finally(() => timer.cancel());
  });
}
