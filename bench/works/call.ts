/**
 * Request and reply: from the call until its answer, while the worker is another process. Each call after a pause in
 * which both processes have fallen idle, one call behind the other, or N in flight, so that the worker is never idle.
 */
import { collectGarbage, nowMs, waitMs } from "../measure/clock.ts";
import type { Contender } from "../measure/contender.ts";
import { percentile } from "../figures.ts";
import { makeInput } from "../measure/input.ts";
import { latencyWarmUp } from "../measure/marks.ts";

/** Longer than Millrace coalesces hints on Postgres, and at no fixed interval. */
const pauseMs = 15;
const strayMs = 10;

interface CallWork {
  readonly samples: number;
  readonly inFlight: number;
  readonly isRested: boolean;
}

export async function measureCalls(
  contender: Contender,
  { samples, inFlight, isRested }: CallWork,
): Promise<{ readonly p50Ms: number; readonly p99Ms: number }> {
  if (contender.openCalls === undefined) throw new Error("This system is not measured with calls.");
  const calls = await contender.openCalls();
  let number = 0;
  const run = async (count: number, pauses: boolean): Promise<number[]> => {
    const tookMs: number[] = [];
    let left = count;
    const callOnAndOn = async (): Promise<void> => {
      while (left > 0) {
        left -= 1;
        if (pauses) await waitMs(pauseMs + Math.random() * strayMs);
        const calledAtMs = nowMs();
        await calls.call(makeInput(number++));
        tookMs.push(nowMs() - calledAtMs);
      }
    };
    await Promise.all(Array.from({ length: inFlight }, callOnAndOn));
    return tookMs;
  };
  await run(latencyWarmUp(samples), false);
  collectGarbage();
  const tookMs = await run(samples, isRested);
  await calls.close();
  return { p50Ms: percentile(tookMs, 0.5), p99Ms: percentile(tookMs, 0.99) };
}
