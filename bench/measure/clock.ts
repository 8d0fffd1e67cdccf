/** Time as the measuring processes see it: monotonic and the same in every process of the machine. */
import { setFlagsFromString } from "node:v8";
import { runInNewContext } from "node:vm";

export function nowMs(): number {
  return Number(process.hrtime.bigint()) / 1e6;
}

/** The machine's clock in milliseconds and their fractions. Every store of this machine decides by it what is due. */
export function wallMs(): number {
  return performance.timeOrigin + performance.now();
}

export function waitMs(delayMs: number): Promise<void> {
  return new Promise((resolve) => void setTimeout(resolve, delayMs));
}

/**
 * Spends some time turn by turn, leaving as little garbage as can be: what is measured must not pay for the wait before
 * it.
 */
export function spendMs(lengthMs: number): Promise<void> {
  const untilMs = performance.now() + lengthMs;
  return new Promise((resolve) => {
    const turn = (): void => {
      if (performance.now() < untilMs) setImmediate(turn);
      else resolve();
    };
    turn();
  });
}

/**
 * A heap without garbage of the set-up. Not by `--expose-gc` on the command line: BullMQ hands the process's flags to
 * its worker threads, which refuse that one, so that each of its jobs would fail.
 */
export function collectGarbage(): void {
  setFlagsFromString("--expose-gc");
  (runInNewContext("gc") as () => void)();
}
