/** Waiting for time to pass, which a signal can end. */
import type { Platform } from "../platform/platform.ts";

/** Waits; a signal that fires ends the wait by throwing its reason. */
export function waitMs(platform: Platform, delayMs: number, signal?: AbortSignal): Promise<void> {
  return new Promise((resolve, reject) => {
    const stop = (): void => {
      timer.cancel();
      reject(signal?.reason as Error);
    };
    const timer = platform.setTimer(delayMs, () => {
      signal?.removeEventListener("abort", stop);
      resolve();
    });
    if (signal?.aborted === true) stop();
    else signal?.addEventListener("abort", stop, { once: true });
  });
}
