/**
 * plainjob with its fastest documented settings: better-sqlite3, a silent logger (its own writes several lines per job
 * to the console), no callback before a job, and for latency the shortest poll interval. It sets WAL and synchronous =
 * NORMAL by itself and offers no other; it has no concurrency inside a process, only several processes on one file.
 */
import Database from "better-sqlite3";
import { JobStatus, better, defineQueue, defineWorker } from "plainjob";
import type { Logger, Queue } from "plainjob";
import type { Contender, OpenOptions } from "../measure/contender.ts";

const type = "bench";
const eagerPollMs = 1;
const silent: Logger = { error() {}, warn() {}, info() {}, debug() {} };

export function openPlainjobContender({ place, isEager, isCounting }: OpenOptions): Contender {
  const database = new Database(place);
  const calls = { count: 0 };
  const defined = defineQueue({ connection: better(database), logger: silent });
  const queue = isCounting ? countCalls(defined, calls) : defined;
  return {
    durability: "relaxed",
    get storeCalls() {
      return calls.count;
    },
    enqueue: (input) => void queue.add(type, input),
    enqueueMany: (inputs) => void queue.addMany(type, inputs as unknown[]),
    schedule(jobs) {
      for (const { input, dueAtMs } of jobs)
        queue.add(type, input, { delay: Math.max(0, dueAtMs - Date.now()) });
    },
    work({ started, finished }) {
      const worker = defineWorker(type, async ({ data }) => started(data), {
        queue,
        logger: silent,
        onCompleted: () => finished(1),
        ...(isEager ? { pollIntervall: eagerPollMs } : {}),
      });
      const ended = worker.start();
      return { stop: () => Promise.all([worker.stop(), ended]) };
    },
    countFinished: () => queue.countJobs({ status: JobStatus.Done }),
    async finishAll() {
      // The very rows that working them off leaves behind: plainjob changes nothing but the status.
      database.exec(`UPDATE plainjob_jobs SET status = ${JobStatus.Done}`);
    },
    close: () => queue.close(),
  };
}

/** A call of its queue is what a call of the store is to Millrace: one transaction or one statement. */
function countCalls(queue: Queue, calls: { count: number }): Queue {
  const counted: Record<string, unknown> = {};
  for (const [name, call] of Object.entries(queue) as [string, (...values: unknown[]) => unknown][]) {
    counted[name] = (...values: unknown[]) => {
      calls.count += 1;
      return call(...values);
    };
  }
  return counted as unknown as Queue;
}
