/** Idle: what a worker with nothing to do asks of its store, duties and the store's own periodic reads included. */
import { waitMs } from "../measure/clock.ts";
import type { Contender } from "../measure/contender.ts";
import { costsSince, perJob } from "../measure/measurement.ts";
import type { Costs } from "../measure/measurement.ts";

/**
 * The first claims, the first run of every duty (but for the walk of the index audit) and the first look at the file
 * belong to the start.
 */
const settleDownMs = 6000;
/** A claim trusts hints of partitions only once they have been listened to for ten seconds. */
const settlePartitionsMs = 14_000;

interface IdleOptions {
  readonly seconds: number;
  readonly concurrency: number | null;
  readonly isInPartitions: boolean;
  /** Resolves when all processes of a fleet work. */
  readonly go: () => Promise<void>;
}

export async function measureIdle(
  contender: Contender,
  { seconds, concurrency, isInPartitions, go }: IdleOptions,
): Promise<{ readonly rate: number } & Partial<Costs>> {
  const workers = await contender.work({ concurrency, started: () => {}, finished: () => {} });
  await go();
  await waitMs(isInPartitions ? settlePartitionsMs : settleDownMs);
  const costsBefore = await contender.costs?.();
  const before = contender.storeCalls;
  await waitMs(seconds * 1000);
  const rate = (contender.storeCalls - before) / seconds;
  const costs = costsSince(costsBefore, await contender.costs?.());
  await workers.stop();
  return { rate, ...perJob(costs, seconds / 60) };
}
