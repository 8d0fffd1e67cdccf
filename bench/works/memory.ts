/**
 * Memory: the heap after every slice of jobs that one process enqueues and works off, garbage collected each time. Flat
 * is right.
 */
import { collectGarbage } from "../measure/clock.ts";
import { enqueueInBulk } from "../measure/contender.ts";
import type { Contender } from "../measure/contender.ts";

export interface MemoryReport {
  readonly jobs: number;
  readonly samples: readonly {
    readonly jobs: number;
    readonly heapBytes: number;
    readonly rssBytes: number;
  }[];
  /** Growth of the heap per job from the first sample to the last. */
  readonly bytesPerJob: number;
}

const slices = 20;

export async function measureMemory(
  contender: Contender,
  { jobs, concurrency }: { readonly jobs: number; readonly concurrency: number | null },
): Promise<MemoryReport> {
  const slice = Math.ceil(jobs / slices);
  let left = 0;
  let sliceDone = (): void => {};
  const workers = await contender.work({
    concurrency,
    started: () => {},
    finished: (count) => {
      left -= count;
      if (left === 0) sliceDone();
    },
  });
  const samples: MemoryReport["samples"][number][] = [];
  for (let number = 0; number <= slices; number++) {
    left = slice;
    const done = new Promise<void>((resolve) => void (sliceDone = resolve));
    await enqueueInBulk(contender, slice);
    await done;
    collectGarbage();
    const { heapUsed, external, rss } = process.memoryUsage();
    samples.push({ jobs: number * slice, heapBytes: heapUsed + external, rssBytes: rss });
  }
  await workers.stop();
  const first = samples[0]?.heapBytes ?? 0;
  const last = samples.at(-1)?.heapBytes ?? 0;
  return { jobs: slice * slices, samples, bytesPerJob: (last - first) / (slice * slices) };
}
