/**
 * Enqueueing: one by one, many promises at a time, and in bulk. Every job counted was acknowledged before the clock
 * stopped.
 */
import { collectGarbage, nowMs } from "../measure/clock.ts";
import { bulkJobs } from "../measure/contender.ts";
import type { Contender } from "../measure/contender.ts";
import { makeInputs } from "../measure/input.ts";
import { warmUpJobs } from "../measure/marks.ts";
import { costsSince, perJob } from "../measure/measurement.ts";
import type { Costs } from "../measure/measurement.ts";

type EnqueueAll = (contender: Contender, inputs: readonly unknown[], inFlight: number) => Promise<void>;

export const enqueueSingle: EnqueueAll = async (contender, inputs) => {
  for (const input of inputs) {
    const acknowledged = contender.enqueue(input);
    if (acknowledged !== undefined) await acknowledged;
  }
};

export const enqueueConcurrent: EnqueueAll = async (contender, inputs, inFlight) => {
  for (let from = 0; from < inputs.length; from += inFlight) {
    await Promise.all(inputs.slice(from, from + inFlight).map(async (input) => contender.enqueue(input)));
  }
};

export const enqueueBulk: EnqueueAll = async (contender, inputs) => {
  for (let from = 0; from < inputs.length; from += bulkJobs) {
    const acknowledged = contender.enqueueMany(inputs.slice(from, from + bulkJobs));
    if (acknowledged !== undefined) await acknowledged;
  }
};

export async function measureEnqueue(
  contender: Contender,
  enqueueAll: EnqueueAll,
  { jobs, inFlight }: { readonly jobs: number; readonly inFlight: number },
): Promise<{ readonly rate: number } & Partial<Costs>> {
  const inputs = makeInputs(jobs);
  await warmUp(contender, enqueueAll, { jobs: warmUpJobs(jobs), inFlight });
  collectGarbage();
  const before = await contender.costs?.();
  const startMs = nowMs();
  await enqueueAll(contender, inputs, inFlight);
  const rate = (jobs * 1000) / (nowMs() - startMs);
  return { rate, ...perJob(costsSince(before, await contender.costs?.()), jobs) };
}

/** A system that takes five hundred single enqueues a second need not be waited for until it has taken two thousand. */
const warmUpMaxMs = 1000;
const pieceMin = 100;

async function warmUp(
  contender: Contender,
  enqueueAll: EnqueueAll,
  { jobs, inFlight }: { readonly jobs: number; readonly inFlight: number },
): Promise<void> {
  const inputs = makeInputs(jobs);
  const size = enqueueAll === enqueueBulk ? jobs : Math.max(inFlight, pieceMin);
  const untilMs = nowMs() + warmUpMaxMs;
  for (let from = 0; from < jobs && nowMs() < untilMs; from += size)
    await enqueueAll(contender, inputs.slice(from, from + size), inFlight);
}
