/**
 * Millrace as it ships: the store's own durability, feed, fences, history and duties on, everything at its default.
 * Opened by hand instead of by `Millrace.open` only so that a counting store fits between the engine and its store.
 */
import { StatementSync } from "node:sqlite";
import { Millrace } from "../../src/client/millrace.ts";
import { readMillraceOptions } from "../../src/client/millrace-options.ts";
import { job } from "../../src/engine/submit/job-definition.ts";
import type { JobOptions } from "../../src/engine/submit/job-definition.ts";
import { createServices } from "../../src/engine/services.ts";
import type { EnqueueOptions } from "../../src/engine/submit/job-options.ts";
import { budget } from "../../src/engine/budgets/budget-definition.ts";
import { limit } from "../../src/engine/limits/limit-definition.ts";
import { topic } from "../../src/engine/topics/topic-definition.ts";
import type { Limit } from "../../src/engine/limits/limit-definition.ts";
import { openStore } from "../../src/open.ts";
import { nodePlatform } from "../../src/platform/node-platform.ts";
import type { Store } from "../../src/store/store.ts";
import { handler } from "../../src/worker/handler.ts";
import { openBucketStore } from "../../src/stores/bucket/bucket-store.ts";
import { openBucket } from "./bucket-objects.ts";
import type { BenchBucket } from "./bucket-objects.ts";
import { bulkJobs } from "../measure/contender.ts";
import type { Contender, OpenOptions } from "../measure/contender.ts";
import { sandboxHandler, isSandboxed } from "../measure/sandbox-handlers.ts";
import { countingStore } from "./counting-store.ts";
import type { Counts } from "./counting-store.ts";
import type { Mode, StoreName } from "../figures.ts";
import { makeInput } from "../measure/input.ts";
import type { BenchInput } from "../measure/input.ts";
import { limitedTo, limitedWidelyTo, ratedPerSecond, tagsOf, uniqueKeyOf } from "../measure/job-kind.ts";
import type { JobKind } from "../measure/job-kind.ts";
import { closedOptions, keyedOptionsOf } from "./keyed-options.ts";
import { openMillraceCancels } from "./millrace-cancels.ts";
import { openMillraceStalls } from "./millrace-stalls.ts";
import { openMillraceFlows } from "./millrace-flows.ts";
import { openMillraceFrames } from "./millrace-frames.ts";
import { openMillraceRuns } from "./millrace-runs.ts";
import { openMillracePermits } from "./millrace-permits.ts";
import { openStubStore } from "./stub-store.ts";

const finishSlots = 500;
/** Of a queue that a fleet shares. */
const totalSlots = 100;
const definedAtOnce = 200;

/** @param again opens another writer of a bucket in place of the first one. */
export async function openMillraceContender(
  store: StoreName,
  options: OpenOptions,
  again: BenchBucket["again"] | null = null,
): Promise<Contender> {
  const { place, mode, jobKind, executor } = options;
  const failsOnce = jobKind === "fails-once";
  const {
    settings,
    duties,
    log,
    store: storeOptions,
  } = readMillraceOptions(nodePlatform, {
    ...(executor === null ? {} : { sqlite: { executor } }),
    // A line on standard error for each of 100,000 planned failures would measure the terminal.
    ...(failsOnce ? { log: false } : {}),
    ...(mode === "no-metrics" ? { metrics: false } : {}),
    // Only where it is measured is it loaded.
    ...(mode === "api-only" || mode === "sdk"
      ? { telemetry: (await import("./telemetry.ts")).telemetryOf(mode) }
      : {}),
    ...(mode.startsWith("partitions-16") ? { redis: { partitions: 16 } } : {}),
  });
  const benchJob = job<BenchInput, void>("bench", definitionOptionsOf(mode, jobKind));
  const benchTopic = topic<BenchInput>("bench");
  const closedJob = options.isBesideClosed ? job<BenchInput, void>("bench-closed", closedOptions()) : null;
  /** Of another queue, on which nobody works. */
  const unworkedJob = job<BenchInput, void>("bench-flood", { queue: "flood" });
  const { name } = benchJob;
  const queue = "default";
  const input = settings.coder.encode(makeInput(0), "input");
  const counts: Counts = { calls: 0, settled: () => {}, promoted: () => {} };
  const storeCalls = options.isCounting ? await countCalls(store, counts) : () => 0;
  const bucket = store === "bucket" ? await bucketOf(place, again) : null;
  const open = (): Promise<Store> =>
    bucket !== null
      ? openBucketStore({ objects: bucket.objects, platform: nodePlatform, whenHeld: "take" })
      : openStore(nodePlatform, store === "sqlite" ? `sqlite:${place}` : place, storeOptions);
  const opened: Store =
    store === "stub" ? openStubStore({ queue, name, count: options.jobs, input }) : await open();
  const millrace = new Millrace(
    createServices(countingStore(opened, counts), nodePlatform, settings, log),
    duties,
  );
  const { durability } = await millrace.describe();

  const contender: Contender = {
    durability,
    get storeCalls() {
      return storeCalls();
    },
    enqueue: (value) =>
      millrace.enqueue(benchJob, value as BenchInput, enqueueOptionsOf(jobKind, value as BenchInput)),
    enqueueMany: (values) =>
      millrace.enqueueMany(
        (values as readonly BenchInput[]).map((value) =>
          benchJob.with(value, enqueueOptionsOf(jobKind, value)),
        ),
      ),
    schedule(jobs, where) {
      const definition = where === "worked" ? benchJob : unworkedJob;
      return millrace.enqueueMany(
        jobs.map(({ input: value, dueAtMs }) => definition.with(value, { runAt: dueAtMs })),
      );
    },
    repeat: {
      async define(count, tickMs) {
        for (let from = 0; from < count; from += definedAtOnce) {
          const numbers = Array.from({ length: Math.min(definedAtOnce, count - from) }, (_, at) => from + at);
          const rule = { every: "1h", anchor: tickMs } as const;
          await Promise.all(
            numbers.map((number) => millrace.schedule(`bench-${number}`, benchJob, makeInput(number), rule)),
          );
        }
      },
      start: () => millrace.duties.start(),
      async countJobs() {
        const stateCounts = await opened.countJobs();
        return stateCounts.reduce((sum, { count }) => sum + count, 0);
      },
    },
    topics: {
      async subscribe(count) {
        for (let number = 0; number < count; number++)
          await millrace.topics.subscribe(benchTopic, benchJob, { name: `s${number}` });
      },
      publish: (value) => millrace.publish(benchTopic, value as BenchInput),
    },
    openRuns: (concurrency) => openMillraceRuns(millrace, concurrency),
    openFrames: () =>
      openMillraceFrames(millrace, async () => {
        const store = await open();
        let reads = 0;
        const counting: Store = {
          ...store,
          readFrames: (asked) => {
            reads += 1;
            return store.readFrames(asked);
          },
        };
        const mill = new Millrace(createServices(counting, nodePlatform, settings, log), duties);
        return { mill, reads: () => reads };
      }),
    openFlows: () => openMillraceFlows(millrace, benchJob),
    work({ concurrency, started, finished, promoted = () => {} }) {
      counts.settled = finished;
      counts.promoted = promoted;
      const noOp = handler(benchJob, async (context) => {
        started(context.input);
        if (failsOnce && context.attempt === 1) throw new Error("fails once");
        if (jobKind === "budget") await context.usage.report(benchBudget, budgetUsed);
      });
      if (isSandboxed(jobKind))
        return millrace.work(
          [sandboxHandler(benchJob, jobKind, mode)],
          concurrency === null ? {} : { concurrency },
        );
      const handlers = closedJob === null ? [noOp] : [noOp, handler(closedJob, async () => {})];
      const slots = mode.endsWith("totals") ? { queues: { [queue]: { total: totalSlots } } } : {};
      return millrace.work(handlers, { ...(concurrency === null ? {} : { concurrency }), ...slots });
    },
    async closeKeys(count) {
      if (closedJob === null) throw new Error("Opened without jobs that wait at closed gates.");
      // The first job of a key takes its only token, and the second waits for the next.
      for (const round of [0, 1]) {
        for (let from = 0; from < count; from += bulkJobs) {
          const length = Math.min(bulkJobs, count - from);
          await millrace.enqueueMany(
            Array.from({ length }, (_, index) => closedJob.with(makeInput(from + index))),
          );
        }
        if (round === 0) await contender.finishAll(count);
      }
    },
    async listen(from, what = "all") {
      const listener = new Millrace(createServices(await open(), nodePlatform, settings, log), duties);
      const ended = new AbortController();
      const wanted = what === "all" ? {} : { kinds: ["failed", "retry-scheduled"] as const };
      return {
        async events() {
          const events = listener.events({ from, signal: ended.signal, ...wanted });
          if (from === "now") await listener.describe();
          return events;
        },
        async close() {
          ended.abort();
          await listener.close();
        },
      };
    },
    async openCancels() {
      const operator = new Millrace(createServices(await open(), nodePlatform, settings, log), duties);
      return openMillraceCancels(millrace, operator);
    },
    openStalls: () => openMillraceStalls(millrace),
    openPermits: () => openMillracePermits(millrace, benchJob, aloneLimit),
    openCalls: async () => ({
      call: (value) => millrace.call(benchJob, value as BenchInput),
      close: async () => {},
    }),
    async countFinished(filled) {
      const stateCounts = await opened.countJobs();
      const completed = stateCounts.reduce(
        (sum, { state, count }) => (state === "completed" ? sum + count : sum),
        0,
      );
      const known = stateCounts.reduce((sum, { count }) => sum + count, 0);
      return mode === "no-history" ? filled - known : completed;
    },
    async finishAll(count) {
      let left = count;
      const { promise, resolve } = Promise.withResolvers<void>();
      const finished = (more: number): void => {
        left -= more;
        if (left <= 0) resolve();
      };
      const worker = await contender.work({ concurrency: finishSlots, started: () => {}, finished });
      await promise;
      await worker.stop();
    },
    async costs() {
      const { requests } = await millrace.describe();
      return requests === undefined ? null : { puts: requests.put, putBytes: requests.bytesPut };
    },
    ...(bucket === null ? {} : { openAgain: () => openMillraceContender(store, options, bucket.again) }),
    close: () => millrace.close(),
  };
  return contender;
}

async function bucketOf(place: string, again: BenchBucket["again"] | null): Promise<BenchBucket> {
  return again === null ? openBucket(place) : { objects: await again(), again };
}

const aloneLimit = limit("bench", { concurrency: 1 });
const limits: Partial<Record<JobKind, Limit>> = {
  alone: aloneLimit,
  limited: limit("bench", { concurrency: limitedTo }),
  "limited-widely": limit("bench", { concurrency: limitedWidelyTo }),
  rated: limit("bench", { rate: { max: ratedPerSecond, per: "1s" } }),
};

/** What all attempts of a run use is far below it. */
const benchBudget = budget("bench", { hard: 1_000_000_000_000, reset: { every: "30d" } });
const budgetUsed = 7;

function definitionOptionsOf(
  mode: Mode,
  kind: JobKind,
): Pick<JobOptions, "retention" | "retry" | "limits" | "budgets"> {
  const used = limits[kind];
  return {
    ...(used === undefined ? {} : { limits: [used] }),
    ...(kind === "budget" ? { budgets: [benchBudget] } : {}),
    ...keyedOptionsOf(kind),
    ...(mode === "no-history" ? { retention: { completed: 0 } } : {}),
    ...(kind === "fails-once" ? { retry: { attempts: 2, backoff: 0 } } : {}),
  };
}

function enqueueOptionsOf(kind: JobKind, input: BenchInput): EnqueueOptions | undefined {
  if (kind === "unique") return { unique: uniqueKeyOf(input) };
  return kind === "tagged" ? { tags: tagsOf(input) } : undefined;
}

interface Statements {
  get: (this: StatementSync, ...values: never[]) => unknown;
}

/** On a server what counts is what it is asked, whoever asks. Only the driver in use is loaded. */
async function countCalls(store: StoreName, counts: Counts): Promise<() => number> {
  if (store === "sqlite") return countOwnReads(counts);
  if (store === "bucket") return () => counts.calls;
  if (store === "redis") return (await import("../peers/driver-commands.ts")).watchCommands();
  let queries = 0;
  (await import("../peers/driver-queries.ts")).watchQueries({ sent: () => (queries += 1) });
  return () => queries;
}

/** The store's own look at the file goes through no call of the contract; its statement gives it away. */
function countOwnReads(counts: Counts): () => number {
  let looks = 0;
  const statements = StatementSync.prototype as unknown as Statements;
  const { get } = statements;
  statements.get = function (...values) {
    if (this.sourceSQL === "PRAGMA data_version") looks += 1;
    return get.apply(this, values);
  };
  return () => counts.calls + looks;
}
