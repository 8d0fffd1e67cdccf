/**
 * Durable runs: workflows of four empty steps a hundred at a time (the shape of OpenWorkflow's own bench), one step
 * after the other in a run that has the worker for itself, from a signal until the handler that waited for it goes on,
 * an invoked job and back, suspends and resumes of a thousand runs at once, what suspended runs cost while they wait,
 * and the replay of a thousand records.
 */
import { collectGarbage, nowMs, waitMs } from "../measure/clock.ts";
import type { BenchRuns, Contender } from "../measure/contender.ts";
import { percentile } from "../figures.ts";

const inFlight = 100;
const stepsOfOne = 4;
const warmUps = 20;
/** Claims, duties and buffers of the work before have come to rest. */
const settleDownMs = 6000;

interface Percentiles {
  readonly p50Ms: number;
  readonly p99Ms: number;
}

async function withRuns<Answer>(
  contender: Contender,
  concurrency: number | null,
  run: (runs: BenchRuns) => Promise<Answer>,
): Promise<Answer> {
  if (contender.openRuns === undefined) throw new Error("This system is not measured with durable runs.");
  const runs = await contender.openRuns(concurrency ?? inFlight);
  const answer = await run(runs);
  await runs.close();
  return answer;
}

/** Workflows per second. */
export function measureSteps(
  contender: Contender,
  { jobs, concurrency }: { readonly jobs: number; readonly concurrency: number | null },
): Promise<{ readonly rate: number }> {
  return withRuns(contender, concurrency, async (runs) => {
    for (let at = 0; at < warmUps; at++) await runs.steps(stepsOfOne);
    collectGarbage();
    let left = jobs;
    const line = async (): Promise<void> => {
      while (left-- > 0) await runs.steps(stepsOfOne);
    };
    const startMs = nowMs();
    await Promise.all(Array.from({ length: inFlight }, line));
    return { rate: (jobs * 1000) / (nowMs() - startMs) };
  });
}

/** The time of one step, of runs of a hundred steps that run alone. */
export function measureSequentialSteps(contender: Contender, samples: number): Promise<Percentiles> {
  const stepsOfMany = 100;
  return withRuns(contender, 1, async (runs) => {
    await runs.steps(stepsOfMany);
    const timesMs: number[] = [];
    for (let at = 0; at < Math.max(1, Math.round(samples / stepsOfMany)); at++)
      timesMs.push(...(await runs.timedSteps(stepsOfMany)));
    return percentilesOf(timesMs);
  });
}

export function measureSignals(contender: Contender, samples: number): Promise<Percentiles> {
  return withRuns(contender, 10, (runs) => timesOf(samples, () => must(runs.signalDelay)()));
}

export function measureInvokes(contender: Contender, samples: number): Promise<Percentiles> {
  return withRuns(contender, 10, (runs) => timesOf(samples, () => must(runs.invokeTime)()));
}

/** Suspends and resumes per second, of a thousand runs that wait for one signal after the other. */
export function measureResumes(contender: Contender, jobs: number): Promise<{ readonly rate: number }> {
  const many = 1000;
  const rounds = Math.max(1, Math.round(jobs / many));
  return withRuns(contender, inFlight, async (runs) => ({ rate: await must(runs.resumes)(many, rounds) }));
}

/** Store calls per second of a worker whose runs all wait; as few as with no run (`idle`). */
export function measureSuspended(
  contender: Contender,
  { jobs, seconds }: { readonly jobs: number; readonly seconds: number },
): Promise<{ readonly rate: number }> {
  return withRuns(contender, inFlight, async (runs) => {
    await must(runs.suspend)(jobs);
    await waitMs(settleDownMs);
    const before = contender.storeCalls;
    await waitMs(seconds * 1000);
    return { rate: (contender.storeCalls - before) / seconds };
  });
}

/** What a suspended run leaves in the memory of its worker. */
export function measureSuspendedMemory(
  contender: Contender,
  jobs: number,
): Promise<{ readonly bytesPerJob: number }> {
  return withRuns(contender, inFlight, async (runs) => {
    await must(runs.suspend)(Math.max(1, Math.round(jobs / 10)));
    const before = await heapBytes();
    await must(runs.suspend)(jobs);
    return { bytesPerJob: ((await heapBytes()) - before) / jobs };
  });
}

async function heapBytes(): Promise<number> {
  await waitMs(settleDownMs);
  collectGarbage();
  const { heapUsed, external } = process.memoryUsage();
  return heapUsed + external;
}

/** From the call of the handler until its first step that is not recorded, after a thousand recorded ones. */
export function measureReplay(contender: Contender, samples: number): Promise<Percentiles> {
  return withRuns(contender, 10, (runs) => timesOf(samples, () => must(runs.replay)(1000), 1));
}

function must<Given>(given: Given | undefined): Given {
  if (given === undefined) throw new Error("This system is not measured with it.");
  return given;
}

async function timesOf(samples: number, run: () => Promise<number>, warm = 5): Promise<Percentiles> {
  for (let at = 0; at < warm; at++) await run();
  collectGarbage();
  const timesMs: number[] = [];
  for (let at = 0; at < samples; at++) timesMs.push(await run());
  return percentilesOf(timesMs);
}

function percentilesOf(timesMs: readonly number[]): Percentiles {
  return { p50Ms: percentile([...timesMs], 0.5), p99Ms: percentile([...timesMs], 0.99) };
}
