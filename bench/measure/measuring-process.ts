/**
 * One measurement in a process of its own: opens one system on one file, does one work, says what came out. Nothing of
 * an earlier measurement (heap, compiled code, open files) can reach into it.
 */
import { enqueueInBulk } from "./contender.ts";
import type { Contender } from "./contender.ts";
import { nowMs } from "./clock.ts";
import { jobsBeside } from "../figures.ts";
import { fillFinished } from "./finished-jobs.ts";
import { makeInput } from "./input.ts";
import type { BenchInput } from "./input.ts";
import { attemptsOf, isDrain } from "./job-kind.ts";
import { jobsToDrain } from "./marks.ts";
import { costsSince } from "./measurement.ts";
import type { FromProcess, Measurement, Outcome, ToProcess } from "./measurement.ts";
import { measureAcknowledge, measureSteady, measureTakeOver } from "../works/bucket.ts";
import { measureCalls } from "../works/call.ts";
import { measureDelayed } from "../works/delayed.ts";
import { drainPart } from "../works/drain.ts";
import { enqueueBulk, enqueueConcurrent, enqueueSingle, measureEnqueue } from "../works/enqueue.ts";
import { measureCancel } from "../works/cancel.ts";
import { measureFrameDelay, measureFrameReaders, measureFrames } from "../works/frames.ts";
import { listenWhile, measureEventDelay, measureEventRead } from "../works/events.ts";
import { measureIdle } from "../works/idle.ts";
import { measureLatency } from "../works/latency.ts";
import { measureMemory } from "../works/memory.ts";
import { measureDueSchedules, measureIdleSchedules } from "../works/schedules.ts";
import {
  measureChainAlone,
  measureChains,
  measureFans,
  measureFirstWins,
  measureFlowSubmit,
} from "../works/flows.ts";
import {
  measureInvokes,
  measureReplay,
  measureSuspended,
  measureSuspendedMemory,
  measureResumes,
  measureSequentialSteps,
  measureSignals,
  measureSteps,
} from "../works/durable.ts";
import { measureStalls } from "../works/stall.ts";
import { measureTopics } from "../works/topics.ts";

const enqueues = {
  "enqueue-single": enqueueSingle,
  "enqueue-concurrent": enqueueConcurrent,
  "enqueue-bulk": enqueueBulk,
};

/** How long the opening took. */
let openMs = 0;

/** One opening in a process of its own. */
function openedIn(): { readonly p50Ms: number; readonly p99Ms: number } {
  return { p50Ms: openMs, p99Ms: openMs };
}

function say(message: FromProcess): Promise<void> {
  return new Promise((resolve) => void process.send?.(message, undefined, {}, () => resolve()));
}

function heard(word: ToProcess): Promise<void> {
  return new Promise((resolve) => {
    process.on("message", (message) => {
      if (message === word) resolve();
    });
  });
}

async function open(measurement: Measurement): Promise<Contender> {
  const { system, store, place, mode, jobKind, work } = measurement;
  const isCounting = work === "idle" || work === "suspended";
  const options = {
    place,
    mode,
    jobKind,
    // Only a connection in this thread can be watched for the store's own reads.
    executor: store === "sqlite" && isCounting ? ("inline" as const) : measurement.executor,
    jobs: isDrain(work) ? jobsToDrain(measurement.jobs) : 0,
    isBesideClosed: jobsBeside(measurement.backlog).closed > 0,
    isEager: ["latency", "call", "permit", "delayed"].some((prompt) => work.startsWith(prompt)),
    isCounting,
  };
  // Only what is measured is loaded.
  switch (system) {
    case "millrace":
      return (await import("../millrace/millrace-contender.ts")).openMillraceContender(store, options);
    case "millrace-sqlite": {
      const { fileBeside } = await import("../scratch/scratch-buckets.ts");
      const { openMillraceContender } = await import("../millrace/millrace-contender.ts");
      return openMillraceContender("sqlite", { ...options, place: fileBeside(place) });
    }
    case "plainjob":
      return (await import("../peers/plainjob-contender.ts")).openPlainjobContender(options);
    case "pg-boss":
      return (await import("../peers/pg-boss-contender.ts")).openPgBossContender(options);
    case "graphile-worker":
      return (await import("../peers/graphile-contender.ts")).openGraphileContender(options);
    case "bullmq":
      return (await import("../peers/bullmq-contender.ts")).openBullmqContender(options);
    case "@dbos-inc/dbos-sdk":
      return (await import("../peers/dbos-contender.ts")).openDbosContender(options);
    case "openworkflow":
      return (await import("../peers/openworkflow-contender.ts")).openOpenWorkflowContender(store, options);
  }
}

async function measure(contender: Contender, measurement: Measurement): Promise<Outcome> {
  const { work, jobs, concurrency } = measurement;
  const { durability } = contender;
  switch (work) {
    case "enqueue-single":
    case "enqueue-concurrent":
    case "enqueue-bulk": {
      const figures = await measureEnqueue(contender, enqueues[work], { jobs, inFlight: concurrency ?? 1 });
      return { kind: "figures", figures, durability };
    }
    case "drain":
    case "retry":
    case "unique":
    case "tagged":
    case "limited":
    case "rated":
    case "grouped":
    case "fifo":
    case "keyed":
    case "budget":
    case "closed":
    case "metrics":
    case "tracing":
    case "events":
    case "thread":
    case "process":
    case "pool": {
      const [go, stop] = [heard("go"), heard("stop")];
      void say({ kind: "ready" });
      const progress = (total: number): void => void say({ kind: "progress", total });
      const filled = jobsToDrain(jobs);
      const before = await contender.costs?.();
      const ends = filled * attemptsOf(measurement.jobKind);
      const book = await drainPart(contender, { concurrency, ends, go, stop, progress });
      const inStore = await contender.countFinished(filled + jobsBeside(measurement.backlog).waiting);
      const costs = costsSince(before, await contender.costs?.());
      return { kind: "drained", marks: book.marks, total: book.total, costs, inStore, durability };
    }
    case "latency": {
      const figures = await measureLatency(contender, {
        samples: jobs,
        concurrency,
        isRested: measurement.mode === "rested",
      });
      return { kind: "figures", figures, durability };
    }
    case "delayed": {
      const { due: flood } = jobsBeside(measurement.backlog);
      const { leadMs } = measurement;
      const figures = await measureDelayed(contender, { samples: jobs, concurrency, flood, leadMs });
      return figures === null ? { kind: "late" } : { kind: "figures", figures, durability };
    }
    case "latency-enqueuer":
      await reportWhenAsked(async (input) => {
        const calledAtMs = nowMs();
        await contender.enqueue(input);
        return calledAtMs;
      });
      return { kind: "done" };
    case "permit-holder": {
      if (contender.openPermits === undefined) throw new Error("The system is not measured with permits.");
      const permits = await contender.openPermits();
      await reportWhenAsked((input) => permits.pass(input));
      await permits.close();
      return { kind: "done" };
    }
    case "permit-taker":
    case "latency-worker":
      await reportStarts(contender, concurrency);
      return { kind: "done" };
    case "call-worker":
      await workUntilStopped(contender, concurrency);
      return { kind: "done" };
    case "call": {
      const figures = await measureCalls(contender, {
        samples: jobs,
        inFlight: concurrency ?? 1,
        isRested: measurement.mode === "rested",
      });
      return { kind: "figures", figures, durability };
    }
    case "permit":
      throw new Error("Permits pass between two processes.");
    case "cancel": {
      const figures = await measureCancel(contender, jobs);
      return { kind: "figures", figures, durability };
    }
    case "stall":
      return { kind: "figures", figures: await measureStalls(contender, jobs), durability };
    case "idle": {
      const told = heard("go");
      const go = async (): Promise<void> => {
        if (!measurement.isFleet) return;
        await say({ kind: "ready" });
        await told;
      };
      const isInPartitions = measurement.mode.startsWith("partitions");
      const seconds = measurement.idleSeconds;
      const figures = await measureIdle(contender, { seconds, concurrency, isInPartitions, go });
      return { kind: "figures", figures, durability };
    }
    case "schedules": {
      const figures = await measureDueSchedules(contender, { schedules: jobs, leadMs: measurement.leadMs });
      return figures === null ? { kind: "late" } : { kind: "figures", figures, durability };
    }
    case "topics": {
      const byTopic = measurement.mode !== "plain-jobs";
      const figures = await measureTopics(contender, { jobs, inFlight: concurrency ?? 1, byTopic });
      return { kind: "figures", figures, durability };
    }
    case "flow-chain":
      return { kind: "figures", figures: await measureChains(contender, { jobs, concurrency }), durability };
    case "flow-alone": {
      const figures = await measureChainAlone(contender, { samples: jobs, concurrency });
      return { kind: "figures", figures, durability };
    }
    case "flow-fan":
      return { kind: "figures", figures: await measureFans(contender, { jobs, concurrency }), durability };
    case "first-wins": {
      const figures = await measureFirstWins(contender, { samples: jobs, concurrency });
      return { kind: "figures", figures, durability };
    }
    case "flow-submit": {
      const figures = await measureFlowSubmit(contender, { nodes: 10_000, samples: jobs });
      return { kind: "figures", figures, durability };
    }
    case "steps":
      return { kind: "figures", figures: await measureSteps(contender, { jobs, concurrency }), durability };
    case "steps-sequential":
      return { kind: "figures", figures: await measureSequentialSteps(contender, jobs), durability };
    case "signal-resume":
      return { kind: "figures", figures: await measureSignals(contender, jobs), durability };
    case "invoke":
      return { kind: "figures", figures: await measureInvokes(contender, jobs), durability };
    case "suspend-resume":
      return { kind: "figures", figures: await measureResumes(contender, jobs), durability };
    case "suspended": {
      const seconds = measurement.idleSeconds;
      return { kind: "figures", figures: await measureSuspended(contender, { jobs, seconds }), durability };
    }
    case "suspended-memory":
      return { kind: "figures", figures: await measureSuspendedMemory(contender, jobs), durability };
    case "replay":
      return { kind: "figures", figures: await measureReplay(contender, jobs), durability };
    case "schedules-idle": {
      const seconds = measurement.idleSeconds;
      const figures = await measureIdleSchedules(contender, { schedules: jobs, seconds });
      return { kind: "figures", figures, durability };
    }
    case "listener": {
      const ready = (): void => void say({ kind: "ready" });
      const waiting = jobsToDrain(jobs);
      await listenWhile(contender, { mode: measurement.mode, jobs: waiting, ready, stop: heard("stop") });
      return { kind: "done" };
    }
    case "events-delay":
      return { kind: "figures", figures: await measureEventDelay(contender, jobs), durability };
    case "events-read":
      return { kind: "figures", figures: await measureEventRead(contender, jobs), durability };
    case "frames":
      return { kind: "figures", figures: await measureFrames(contender, jobs), durability };
    case "frames-delay":
      return { kind: "figures", figures: await measureFrameDelay(contender, jobs), durability };
    case "frames-readers":
      return { kind: "figures", figures: await measureFrameReaders(contender, jobs), durability };
    case "acknowledge":
      return { kind: "figures", figures: await measureAcknowledge(contender, jobs), durability };
    case "steady":
      return { kind: "figures", figures: await measureSteady(contender, { jobs, concurrency }), durability };
    case "take-over": {
      const figures = await measureTakeOver(contender, jobs);
      return { kind: "figures", figures, durability };
    }
    case "reopen":
      return { kind: "figures", figures: openedIn(), durability };
    case "memory":
      return { kind: "memory", report: await measureMemory(contender, { jobs, concurrency }) };
    case "fill":
    case "footprint":
      await fill(contender, measurement);
      return { kind: "done" };
  }
}

/** @param enqueue enqueues the job. @returns when the clock of its sample begins. */
async function reportWhenAsked(enqueue: (input: BenchInput) => Promise<number>): Promise<void> {
  let number = 0;
  const stop = heard("stop");
  process.on("message", (message) => {
    if (message !== "enqueue") return;
    const own = number++;
    void enqueue(makeInput(own)).then((atMs) => say({ kind: "enqueued", number: own, atMs }));
  });
  void say({ kind: "ready" });
  await stop;
}

async function reportStarts(contender: Contender, concurrency: number | null): Promise<void> {
  const started = (input: unknown): void => {
    const atMs = nowMs();
    void say({ kind: "started", number: (input as BenchInput).orderId, atMs });
  };
  const stop = heard("stop");
  const workers = await contender.work({ concurrency, started, finished: () => {} });
  void say({ kind: "ready" });
  await stop;
  await workers.stop();
}

/** As many slots as calls are in flight, and never fewer than a worker that was told nothing has. */
async function workUntilStopped(contender: Contender, inFlight: number | null): Promise<void> {
  const concurrency = Math.max(10, inFlight ?? 1);
  const stop = heard("stop");
  const workers = await contender.work({ concurrency, started: () => {}, finished: () => {} });
  void say({ kind: "ready" });
  await stop;
  await workers.stop();
}

async function fill(contender: Contender, { backlog, jobs, store, place }: Measurement): Promise<void> {
  const { waiting, finished, closed } = jobsBeside(backlog);
  if (closed > 0) {
    if (contender.closeKeys === undefined) throw new Error("This system has no gates per key.");
    await contender.closeKeys(closed);
  } else if (finished > 0 && store === "postgres") {
    await fillFinished(contender, place, finished);
  } else if (finished > 0) {
    await enqueueInBulk(contender, finished);
    await contender.finishAll(finished);
  }
  await enqueueInBulk(contender, jobs + waiting);
}

try {
  const measurement = JSON.parse(process.argv[2] ?? "") as Measurement;
  const startMs = nowMs();
  const contender = await open(measurement);
  openMs = nowMs() - startMs;
  const outcome = await measure(contender, measurement);
  await contender.close();
  await say({ kind: "done", outcome });
  process.exit(0);
} catch (error) {
  await say({
    kind: "failed",
    message: error instanceof Error ? (error.stack ?? error.message) : String(error),
  });
  process.exit(1);
}
