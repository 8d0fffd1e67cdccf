/** What only a bucket is asked: how soon it acknowledges, opens and is taken over, and what a steady load costs. */
import { collectGarbage, nowMs, waitMs } from "../measure/clock.ts";
import type { Contender } from "../measure/contender.ts";
import { percentile } from "../figures.ts";
import { makeInput } from "../measure/input.ts";
import { costsSince, perJob } from "../measure/measurement.ts";
import type { Costs } from "../measure/measurement.ts";

interface Times {
  readonly p50Ms: number;
  readonly p99Ms: number;
}

const timesOf = (timesMs: readonly number[]): Times => ({
  p50Ms: percentile(timesMs, 0.5),
  p99Ms: percentile(timesMs, 0.99),
});

const pauseMs = 5;

/** Lone enqueues, each after a pause. Nobody works on them. */
export async function measureAcknowledge(contender: Contender, samples: number): Promise<Times> {
  const timesMs: number[] = [];
  const warmUp = Math.ceil(samples / 5);
  for (let number = 0; number < warmUp + samples; number++) {
    if (number === warmUp) collectGarbage();
    await waitMs(pauseMs);
    const startMs = nowMs();
    await contender.enqueue(makeInput(number));
    if (number >= warmUp) timesMs.push(nowMs() - startMs);
  }
  return timesOf(timesMs);
}

const steadyPerSecond = 4000;
const stepMs = 5;

/** Enqueues one by one at a fixed pace, while a worker takes what comes. */
export async function measureSteady(
  contender: Contender,
  { jobs, concurrency }: { readonly jobs: number; readonly concurrency: number | null },
): Promise<{ readonly rate: number } & Partial<Costs>> {
  let finished = 0;
  const all = Promise.withResolvers<void>();
  const workers = await contender.work({
    concurrency,
    started: () => {},
    finished(count) {
      finished += count;
      if (finished >= jobs) all.resolve();
    },
  });
  const before = await contender.costs?.();
  const enqueued: unknown[] = [];
  const startMs = nowMs();
  while (enqueued.length < jobs) {
    await waitMs(stepMs);
    const wanted = Math.min(jobs, Math.floor(((nowMs() - startMs) * steadyPerSecond) / 1000));
    while (enqueued.length < wanted) enqueued.push(contender.enqueue(makeInput(enqueued.length)));
  }
  await Promise.all(enqueued);
  await all.promise;
  const rate = (jobs * 1000) / (nowMs() - startMs);
  const costs = costsSince(before, await contender.costs?.());
  await workers.stop();
  return { rate, ...perJob(costs, jobs) };
}

export async function measureTakeOver(first: Contender, samples: number): Promise<Times> {
  const timesMs: number[] = [];
  let writer = first;
  for (let sample = 0; sample < samples; sample++) {
    let isFenced = false;
    const old = writer;
    const writing = (async (): Promise<void> => {
      // It writes until it is fenced.
      for (let number = 0; !isFenced; number++) await old.enqueue(makeInput(number));
    })().catch(() => undefined);
    await waitMs(200);
    const startMs = nowMs();
    if (old.openAgain === undefined) throw new Error("Only a bucket is taken over.");
    writer = await old.openAgain();
    await writer.enqueue(makeInput(0));
    timesMs.push(nowMs() - startMs);
    isFenced = true;
    await writing;
    if (old !== first) await old.close();
  }
  await writer.close();
  return timesOf(timesMs);
}
