/**
 * A wait for a result in a test that nobody drains. Nothing runs then, so the wait would last until the test runner
 * gives up, without a word about the cause. It is given up earlier: after some real time in which no drain ran, the
 * clock stood still and no job ran.
 */
import { MillraceError } from "../model/error.ts";
import { nodePlatform } from "../platform/node-platform.ts";
import type { Timer } from "../platform/platform.ts";

/** Below the 5 s after which most test runners give up a test. */
const patienceMs = 2000;

/** @param progress a text that changes whenever something happens; null while jobs may run. */
export function untilUndrained<Result>(
  wait: Promise<Result>,
  what: string,
  progress: () => string | null,
): Promise<Result> {
  return new Promise((resolve, reject) => {
    let timer: Timer;
    const watch = (seen: string | null): void => {
      timer = nodePlatform.setTimer(patienceMs, () => {
        const now = progress();
        if (now === null || now !== seen) return watch(now);
        reject(
          new MillraceError(
            "wait-timeout",
            `${what} waits, and nothing runs: in a test jobs run only in t.drain(), or at the enqueue with mode: "inline". A delayed job or a retry needs t.clock.advance() before.`,
          ),
        );
      });
    };
    watch(progress());
    wait.then(resolve, reject).finally(() => timer.cancel());
  });
}
