/**
 * Flows: chains of ten (how many per second many at a time, and how long one alone takes), one job that fans out to a
 * thousand that join in one, a race of which the first of a thousand wins, and how long the submit of a large one
 * takes. A flow counts when its submitter has heard of its end.
 */
import { collectGarbage, nowMs } from "../measure/clock.ts";
import type { BenchFlows, Contender } from "../measure/contender.ts";
import { percentile } from "../figures.ts";

const chainNodes = 10;
const fanNodes = 1000;
const warmUpFlows = 20;

async function withFlows<Figures>(
  contender: Contender,
  concurrency: number | null,
  run: (flows: BenchFlows) => Promise<Figures>,
): Promise<Figures> {
  if (contender.openFlows === undefined) throw new Error("This system is not measured with flows.");
  const workers = await contender.work({ concurrency, started: () => {}, finished: () => {} });
  const flows = await contender.openFlows();
  const figures = await run(flows);
  await flows.close();
  await workers.stop();
  return figures;
}

/** So many chains, a hundred at a time. Jobs per second. */
export function measureChains(
  contender: Contender,
  { jobs, concurrency }: { readonly jobs: number; readonly concurrency: number | null },
): Promise<{ readonly rate: number }> {
  return withFlows(contender, concurrency, async (flows) => {
    const count = Math.ceil(jobs / chainNodes);
    let left = count;
    const line = async (): Promise<void> => {
      while (left-- > 0) await flows.chain(chainNodes);
    };
    for (let at = 0; at < warmUpFlows; at++) await flows.chain(chainNodes);
    collectGarbage();
    const startMs = nowMs();
    await Promise.all(Array.from({ length: 100 }, line));
    return { rate: (count * chainNodes * 1000) / (nowMs() - startMs) };
  });
}

/** One chain behind the other, each alone. */
export function measureChainAlone(
  contender: Contender,
  { samples, concurrency }: { readonly samples: number; readonly concurrency: number | null },
): Promise<{ readonly p50Ms: number; readonly p99Ms: number }> {
  return withFlows(contender, concurrency, (flows) => timesOf(samples, () => flows.chain(chainNodes)));
}

/** 1 to 1,000 to 1, one behind the other. Jobs per second. */
export function measureFans(
  contender: Contender,
  { jobs, concurrency }: { readonly jobs: number; readonly concurrency: number | null },
): Promise<{ readonly rate: number }> {
  return withFlows(contender, concurrency, async (flows) => {
    const count = Math.ceil(jobs / (fanNodes + 2));
    await flows.fan(fanNodes);
    collectGarbage();
    const startMs = nowMs();
    for (let at = 0; at < count; at++) await flows.fan(fanNodes);
    return { rate: (count * (fanNodes + 2) * 1000) / (nowMs() - startMs) };
  });
}

/** From the end of the winner until the last of the others is cancelled. */
export function measureFirstWins(
  contender: Contender,
  { samples, concurrency }: { readonly samples: number; readonly concurrency: number | null },
): Promise<{ readonly p50Ms: number; readonly p99Ms: number }> {
  return withFlows(contender, concurrency, async (flows) => {
    if (flows.race === undefined) throw new Error("This system is not measured with races.");
    const delaysMs: number[] = [];
    for (let at = 0; at < samples; at++) delaysMs.push(await flows.race(fanNodes));
    return { p50Ms: percentile(delaysMs, 0.5), p99Ms: percentile(delaysMs, 0.99) };
  });
}

/** How long the submit of one flow of N nodes takes. */
export async function measureFlowSubmit(
  contender: Contender,
  { nodes, samples }: { readonly nodes: number; readonly samples: number },
): Promise<{ readonly p50Ms: number; readonly p99Ms: number }> {
  if (contender.openFlows === undefined) throw new Error("This system is not measured with flows.");
  const flows = await contender.openFlows();
  await flows.submit(fanNodes);
  const times = await timesOf(samples, () => flows.submit(nodes));
  await flows.close();
  return times;
}

async function timesOf(
  samples: number,
  run: () => Promise<void>,
): Promise<{ readonly p50Ms: number; readonly p99Ms: number }> {
  const timesMs: number[] = [];
  for (let at = 0; at < Math.min(samples, 5); at++) await run();
  collectGarbage();
  for (let at = 0; at < samples; at++) {
    const startMs = nowMs();
    await run();
    timesMs.push(nowMs() - startMs);
  }
  return { p50Ms: percentile(timesMs, 0.5), p99Ms: percentile(timesMs, 0.99) };
}
