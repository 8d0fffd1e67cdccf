/**
 * Latency from one process to another: one enqueues, the other works, and this one sets the pace. The clock of a sample
 * runs from the call of enqueue until the handler starts, or, of a job that waits for a permit, from the end of the
 * handler that holds it; both processes read the machine's monotonic clock. The next job is enqueued only after the
 * last has started and the worker has had a moment to fall idle.
 */
import { waitMs } from "./clock.ts";
import { percentile } from "../figures.ts";
import type { Figures } from "../figures.ts";
import type { FromProcess, Measurement } from "./measurement.ts";
import { latencyWarmUp } from "./marks.ts";
import { startPart } from "./processes.ts";

const pauseMs = 15;
/** A worker that polls must not always be met at the same point of its interval. */
const strayMs = 10;
const giveUpMs = 30_000;

export async function measureLatencyAcross(
  measurement: Measurement,
  profileFolder: string | null,
): Promise<Figures> {
  const enqueuedAtMs: number[] = [];
  const startedAtMs: number[] = [];
  let noted = (): void => {};
  const heard = (message: FromProcess): void => {
    if (message.kind === "enqueued") enqueuedAtMs[message.number] = message.atMs;
    if (message.kind === "started") startedAtMs[message.number] = message.atMs;
    noted();
  };
  const [from, to] =
    measurement.work === "permit"
      ? (["permit-holder", "permit-taker"] as const)
      : (["latency-enqueuer", "latency-worker"] as const);
  const worker = startPart({ ...measurement, work: to }, profileFolder, heard);
  // The tables are there before the second process comes.
  await Promise.race([worker.outcome, worker.ready]);
  const enqueuer = startPart({ ...measurement, work: from }, profileFolder, heard);
  const outcomes = Promise.all([enqueuer.outcome, worker.outcome]);
  await Promise.race([outcomes, enqueuer.ready]);

  const warmUp = latencyWarmUp(measurement.jobs);
  const sample = async (number: number): Promise<void> => {
    if (number >= warmUp) await waitMs(pauseMs + Math.random() * strayMs);
    const both = new Promise<void>((resolve) => {
      noted = () => {
        if (enqueuedAtMs[number] !== undefined && startedAtMs[number] !== undefined) resolve();
      };
    });
    enqueuer.say("enqueue");
    await within(giveUpMs, both, `Job ${number} was not started within ${giveUpMs} ms.`);
  };
  const sampling = (async () => {
    for (let number = 0; number < warmUp + measurement.jobs; number++) await sample(number);
  })();
  await Promise.race([outcomes, sampling]);
  enqueuer.say("stop");
  worker.say("stop");
  await outcomes;
  const delaysMs = startedAtMs.slice(warmUp).map((atMs, index) => atMs - (enqueuedAtMs[warmUp + index] ?? 0));
  return { p50Ms: percentile(delaysMs, 0.5), p99Ms: percentile(delaysMs, 0.99) };
}

async function within<Value>(limitMs: number, promise: Promise<Value>, message: string): Promise<Value> {
  let timer: NodeJS.Timeout | undefined;
  const late = new Promise<never>((_, reject) => {
    timer = setTimeout(() => reject(new Error(message)), limitMs);
  });
  try {
    return await Promise.race([promise, late]);
  } finally {
    clearTimeout(timer);
  }
}
