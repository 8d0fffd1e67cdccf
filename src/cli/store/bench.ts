/**
 * `millrace bench`: how fast the user's own store is from here. It enqueues jobs that do nothing, runs them in this
 * process, then sends some one by one. All of them are in a queue that no other worker serves, and are deleted however
 * the command ends. Its number of jobs and its time are bounded.
 */
import type { Millrace } from "../../client/millrace.ts";
import { handler, job } from "../../index.ts";
import { MillraceError } from "../../model/error.ts";
import { waitingStates } from "../../model/job/job-state.ts";
import type { Platform } from "../../platform/platform.ts";
import { whole } from "../arguments/option-kinds.ts";
import { command } from "../command.ts";
import { formatTable } from "../output/format-table.ts";
import { waitMs } from "../wait.ts";

export const benchQueue = "millrace-bench";
const definition = job<number>("millrace-bench", { queue: benchQueue, retry: { attempts: 1 } });

const jobsPerCall = 100;
const callsAtOnce = 4;
const lookMs = 5;
const columns = [
  { title: "WHAT" },
  { title: "JOBS", isNumber: true },
  { title: "PER SECOND", isNumber: true },
  { title: "P50 MS", isNumber: true },
  { title: "P99 MS", isNumber: true },
];

interface Measure {
  readonly jobs: number;
  readonly perSecond: number;
  /** Of single jobs, in milliseconds; null for a measure of many at once. */
  readonly p50: number | null;
  readonly p99: number | null;
}

export const bench = command({
  name: "bench",
  summary: `how fast the store is from here: jobs that do nothing, in the queue ${benchQueue}, deleted at the end`,
  options: {
    jobs: whole("N", "how many jobs are enqueued and run; 2000 by default", 1, 100_000),
    singles: whole("N", "how many are then sent one by one; 100 by default", 1, 10_000),
    concurrency: whole("N", "slots of the worker; 50 by default", 1, 1000),
    seconds: whole("N", "it ends after this time, whatever is left; 60 by default", 1, 3600),
  },
  examples: ["bench --store postgres://localhost/app", "bench --jobs 20000 --concurrency 200 --json"],
  async run({ platform, options, withStore, answer }) {
    const { jobs = 2000, singles = 100, concurrency = 50, seconds = 60 } = options;
    const over = new AbortController();
    const release = platform.onTermination(() => over.abort());
    const timer = platform.setTimer(seconds * 1000, () => over.abort(), false);
    const ended = { count: 0 };
    const openedWith = { metrics: false, onAttempt: () => void (ended.count += 1) };
    const plan = { platform, jobs, singles, concurrency, ended, signal: over.signal };
    const measured = await withStore((mill) => measure(mill, plan), openedWith).finally(() => {
      timer.cancel();
      release();
    });
    const isWhole = !over.signal.aborted;
    answer({ queue: benchQueue, isWhole, ...measured }, () => {
      const rows = Object.entries(measured).map(([what, { jobs: count, perSecond, p50, p99 }]) => [
        ...[what, String(count), String(Math.round(perSecond))],
        ...[p50, p99].map((ms) => (ms === null ? "" : ms.toFixed(2))),
      ]);
      return `${formatTable(columns, rows)}${isWhole ? "" : "\nIt was ended before all was done."}`;
    });
    return isWhole ? 0 : 1;
  },
});

interface Plan {
  readonly platform: Platform;
  readonly jobs: number;
  readonly singles: number;
  readonly concurrency: number;
  /** Counts attempts whose end the store has. */
  readonly ended: { count: number };
  readonly signal: AbortSignal;
}

async function measure(mill: Millrace, plan: Plan): Promise<Readonly<Record<string, Measure>>> {
  const { platform, concurrency, signal } = plan;
  const states = [...waitingStates, "running"] as const;
  const left = await mill.jobs.list({ queue: benchQueue, state: states, limit: 1 });
  if (left.jobs.length > 0)
    throw new MillraceError(
      "invalid-option",
      `The queue ${benchQueue} has jobs: another bench runs, or one was killed. Wait for it, or: millrace purge --queue ${benchQueue}.`,
    );
  // Its jobs are found again by the tag of this run alone.
  const tag = `bench-${[...platform.randomBytes(4)].map((byte) => byte.toString(16).padStart(2, "0")).join("")}`;
  const waits = new Map<number, (startedUs: number) => void>();
  const doNothing = handler(definition, ({ input }) => waits.get(input)?.(platform.monotonicUs()));
  try {
    const enqueued = await enqueueAll(mill, plan, tag);
    const beginUs = platform.monotonicUs();
    const worker = await mill.work([doNothing], { concurrency });
    await until(plan, () => plan.ended.count >= enqueued.jobs);
    const ran = rateOf(plan.ended.count, platform.monotonicUs() - beginUs);
    const singles = signal.aborted ? {} : await sendSingles(mill, plan, tag, waits);
    await worker.stop({ grace: "5s" });
    return { enqueue: enqueued, run: ran, ...singles };
  } finally {
    await mill.jobs.delete({ tag });
  }
}

async function enqueueAll(mill: Millrace, { platform, jobs, signal }: Plan, tag: string): Promise<Measure> {
  const beginUs = platform.monotonicUs();
  let next = 0;
  let done = 0;
  const send = async (): Promise<void> => {
    while (next < jobs && !signal.aborted) {
      const count = Math.min(jobsPerCall, jobs - next);
      next += count;
      await mill.enqueueMany(Array.from({ length: count }, () => definition.with(-1, { tags: [tag] })));
      done += count;
    }
  };
  await Promise.all(Array.from({ length: callsAtOnce }, send));
  return rateOf(done, platform.monotonicUs() - beginUs);
}

/** One job after the other: how long its enqueue takes, and how long until its handler starts. */
async function sendSingles(
  mill: Millrace,
  { platform, singles, signal }: Plan,
  tag: string,
  waits: Map<number, (startedUs: number) => void>,
): Promise<Readonly<Record<string, Measure>>> {
  const calls: number[] = [];
  const starts: number[] = [];
  const beginUs = platform.monotonicUs();
  for (let at = 0; at < singles && !signal.aborted; at++) {
    const { promise, resolve } = Promise.withResolvers<number>();
    const end = (): void => resolve(Number.NaN);
    waits.set(at, resolve);
    signal.addEventListener("abort", end, { once: true });
    const sentUs = platform.monotonicUs();
    await mill.enqueue(definition, at, { tags: [tag] });
    const answeredUs = platform.monotonicUs();
    const startedUs = await promise;
    signal.removeEventListener("abort", end);
    waits.delete(at);
    if (Number.isNaN(startedUs)) break;
    calls.push((answeredUs - sentUs) / 1000);
    starts.push((startedUs - sentUs) / 1000);
  }
  const rate = rateOf(starts.length, platform.monotonicUs() - beginUs);
  return {
    "enqueue one": { ...rate, p50: quantile(calls, 0.5), p99: quantile(calls, 0.99) },
    "enqueue to start": { ...rate, p50: quantile(starts, 0.5), p99: quantile(starts, 0.99) },
  };
}

async function until({ platform, signal }: Plan, isDone: () => boolean): Promise<void> {
  while (!isDone() && !signal.aborted) await waitMs(platform, lookMs, signal).catch(() => undefined);
}

function rateOf(jobs: number, tookUs: number): Measure {
  return { jobs, perSecond: tookUs === 0 ? 0 : (jobs * 1e6) / tookUs, p50: null, p99: null };
}

function quantile(values: readonly number[], share: number): number | null {
  const sorted = values.toSorted((one, other) => one - other);
  return sorted[Math.min(sorted.length - 1, Math.floor(sorted.length * share))] ?? null;
}
