/**
 * Delayed jobs: from the time a job is due until its handler starts, one job every few milliseconds, all enqueued
 * beforehand. A flood is many other jobs of another queue that are due at the moment of the first sample; nobody works
 * on them, so what competes is only that they are made ready. Samples that are due after the last of the flood was made
 * ready do not count.
 *
 *   flood enqueued │ samples enqueued │ worker starts │ warm-up samples │ the flood is due, samples │
 */
import { collectGarbage, waitMs, wallMs } from "../measure/clock.ts";
import { bulkJobs } from "../measure/contender.ts";
import type { Contender, ScheduledInput } from "../measure/contender.ts";
import { percentile } from "../figures.ts";
import { makeInput, numberOf } from "../measure/input.ts";

/** At no fixed beat, and far enough apart for a worker to fall idle in between. */
const gapMinMs = 5;
const gapStrayMs = 10;
/** After the last sample is due. A flood may hold it up, but not for so long. */
const giveUpMs = 120_000;

export interface DelayedOptions {
  readonly samples: number;
  readonly concurrency: number | null;
  /** So many others are due at once; 0 for an idle store. */
  readonly flood: number;
  /** For the samples to be enqueued and the worker to start before the first one is due. */
  readonly leadMs: number;
}

/** @returns null if the lead was too short. */
export async function measureDelayed(
  contender: Contender,
  { samples, concurrency, flood, leadMs }: DelayedOptions,
): Promise<{ readonly p50Ms: number; readonly p99Ms: number } | null> {
  const warmUp = Math.ceil(samples / 5);
  const warmUpMs = warmUp * (gapMinMs + gapStrayMs);
  const fromMs =
    flood === 0 ? wallMs() + leadMs + warmUpMs : await enqueueFlood(contender, flood, leadMs + warmUpMs);
  const jobs = [...spread(fromMs - warmUpMs, warmUp, 0), ...spread(fromMs, samples, warmUp)];
  await scheduleAll(contender, jobs, "worked");

  const startedAtMs: number[] = [];
  let started = 0;
  let promoted = 0;
  let floodEndedAtMs = Number.POSITIVE_INFINITY;
  const { promise: allStarted, resolve } = Promise.withResolvers<void>();
  const workers = await contender.work({
    concurrency,
    started: (input) => {
      startedAtMs[numberOf(input)] = wallMs();
      started += 1;
      if (started === jobs.length) resolve();
    },
    finished: () => {},
    promoted: (count) => {
      const isLast = promoted < flood && promoted + count >= flood;
      promoted += count;
      if (isLast) floodEndedAtMs = wallMs();
    },
  });
  collectGarbage();
  if (wallMs() > fromMs) {
    await workers.stop();
    return null;
  }
  const lastDueAtMs = jobs.at(-1)?.dueAtMs ?? fromMs;
  await Promise.race([allStarted, waitMs(lastDueAtMs - wallMs() + giveUpMs)]);
  if (started < jobs.length) throw new Error(`Only ${started} of ${jobs.length} delayed jobs were started.`);
  await workers.stop();

  const delaysMs = jobs
    .map(({ dueAtMs }, number) => ({ dueAtMs, delayMs: (startedAtMs[number] ?? 0) - dueAtMs }))
    .slice(warmUp)
    .filter(({ dueAtMs }) => dueAtMs < floodEndedAtMs)
    .map(({ delayMs }) => delayMs);
  return { p50Ms: percentile(delaysMs, 0.5), p99Ms: percentile(delaysMs, 0.99) };
}

/** Due times are whole milliseconds, as every system keeps them. */
function spread(fromMs: number, count: number, firstNumber: number): readonly ScheduledInput[] {
  let atMs = fromMs;
  return Array.from({ length: count }, (_, index) => {
    const dueAtMs = Math.round(atMs);
    atMs += gapMinMs + Math.random() * gapStrayMs;
    return { input: makeInput(firstNumber + index), dueAtMs };
  });
}

const dayMs = 86_400_000;

/**
 * Answers when the flood is due: in `restMs` and whatever time enqueueing it takes, because all of it must be in the
 * store by then. That time is estimated from a tenth as many jobs that do not come due, and allowed twice.
 */
async function enqueueFlood(contender: Contender, count: number, restMs: number): Promise<number> {
  const others = (length: number, dueAtMs: number): ScheduledInput[] =>
    Array.from({ length }, (_, index) => ({ input: makeInput(index), dueAtMs }));
  const beganMs = wallMs();
  const probeJobs = Math.ceil(count / 10);
  await scheduleAll(contender, others(probeJobs, Math.round(beganMs + dayMs)), "unworked");
  const allowedMs = (2 * (wallMs() - beganMs) * count) / probeJobs;
  const dueAtMs = Math.round(wallMs() + allowedMs + restMs);
  await scheduleAll(contender, others(count, dueAtMs), "unworked");
  return dueAtMs;
}

async function scheduleAll(
  contender: Contender,
  jobs: readonly ScheduledInput[],
  where: "worked" | "unworked",
): Promise<void> {
  if (contender.schedule === undefined) throw new Error("This system is not measured with delays.");
  for (let from = 0; from < jobs.length; from += bulkJobs)
    await contender.schedule(jobs.slice(from, from + bulkJobs), where);
}
