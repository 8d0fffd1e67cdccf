/**
 * Latency: from the call of enqueue until the handler starts, in one process, with nothing else waiting. The next job
 * is enqueued only after the store has acknowledged the end of the last one: at once, or, rested, when everything has
 * had a moment to fall asleep. At once the way of a job is measured; rested also how long the machine takes to wake up
 * and to fill its caches again, at every step of that way.
 *
 * Node fires timers in steps of a millisecond, all that are due together: an enqueue out of a timer would always meet a
 * worker that polls by timer at the same point of its interval. So the last stretch of the pause is spent turn by turn.
 */
import { collectGarbage, nowMs, spendMs, waitMs } from "../measure/clock.ts";
import type { Contender } from "../measure/contender.ts";
import { percentile } from "../figures.ts";
import { makeInput } from "../measure/input.ts";
import { latencyWarmUp } from "../measure/marks.ts";

const pauseMs = 3;
/** Longer than a timer's step. */
const strayMs = 2;

export async function measureLatency(
  contender: Contender,
  {
    samples,
    concurrency,
    isRested,
  }: { readonly samples: number; readonly concurrency: number | null; readonly isRested: boolean },
): Promise<{ readonly p50Ms: number; readonly p99Ms: number }> {
  let startedAtMs = 0;
  let finished = (): void => {};
  const workers = await contender.work({
    concurrency,
    started: () => void (startedAtMs = nowMs()),
    finished: () => finished(),
  });
  const run = async (number: number): Promise<number> => {
    const end = new Promise<void>((resolve) => void (finished = resolve));
    const enqueuedAtMs = nowMs();
    await contender.enqueue(makeInput(number));
    await end;
    return startedAtMs - enqueuedAtMs;
  };
  // One behind the other: what is compiled late is compiled while something is measured.
  const warmUp = latencyWarmUp(samples);
  for (let number = 0; number < warmUp; number++) await run(number);
  collectGarbage();
  const delaysMs: number[] = [];
  for (let sample = 0; sample < samples; sample++) {
    if (isRested) {
      await waitMs(pauseMs);
      await spendMs(Math.random() * strayMs);
    }
    delaysMs.push(await run(warmUp + sample));
  }
  await workers.stop();
  return { p50Ms: percentile(delaysMs, 0.5), p99Ms: percentile(delaysMs, 0.99) };
}
