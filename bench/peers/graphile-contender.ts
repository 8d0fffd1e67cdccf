/**
 * graphile-worker in two modes. default: every slot fetches and completes its own job. local-queue: its fastest
 * documented settings, a local queue of 500 jobs or of 2,000, and completions batched without delay; it then says that
 * a job is complete before the database has, so the end of a job is taken from the database's own answer. It deletes
 * finished jobs and checks no fence.
 */
import { Logger, makeWorkerUtils, run } from "graphile-worker";
import type { Contender, OpenOptions } from "../measure/contender.ts";
import { watchQueries } from "./driver-queries.ts";
import type { Mode } from "../figures.ts";
import type { BenchInput } from "../measure/input.ts";
import { groupKeyOf } from "../measure/job-kind.ts";
import type { JobKind } from "../measure/job-kind.ts";

const task = "bench";
const localQueueSizes: Partial<Record<Mode, number>> = { "local-queue": 500, "local-queue-2000": 2000 };
const poolSize = 10;
/** A job of a named queue is deleted by a statement that frees the queue as well, one row of it per job. */
const completion = /^(with j as \(\s*)?delete from/;
const silent = new Logger(() => () => {});

export async function openGraphileContender(options: OpenOptions): Promise<Contender> {
  const { place, mode, jobKind, isCounting } = options;
  const localQueueSize = localQueueSizes[mode];
  let queries = 0;
  let ended = (_count: number): void => {};
  // Every completed job is logged otherwise, by the worker and in its events.
  process.env["NO_LOG_SUCCESS"] = "1";
  watchQueries({
    sent: () => (queries += 1),
    ...(isCounting
      ? {}
      : {
          answered: ({ text }, { rowCount }) => {
            if (completion.test(text)) ended(rowCount ?? 0);
          },
        }),
  });
  const utils = await makeWorkerUtils({ connectionString: place, maxPoolSize: poolSize, logger: silent });
  await utils.migrate();
  return {
    durability: "strict",
    get storeCalls() {
      return queries;
    },
    enqueue: (input) => utils.addJob(task, input, queueOf(jobKind, input)),
    enqueueMany: (inputs) =>
      utils.addJobs(inputs.map((payload) => ({ identifier: task, payload, ...queueOf(jobKind, payload) }))),
    async work({ concurrency, started, finished }) {
      ended = finished;
      const runner = await run({
        logger: silent,
        noHandleSignals: true,
        taskList: { [task]: (payload) => started(payload) },
        preset: {
          worker: {
            connectionString: place,
            ...(concurrency === null ? {} : { concurrentJobs: concurrency }),
            ...(localQueueSize === undefined
              ? {}
              : { localQueue: { size: localQueueSize }, completeJobBatchDelay: 0, failJobBatchDelay: 0 }),
          },
        },
      });
      return { stop: () => runner.stop() };
    },
    async countFinished(filled) {
      const { rows } = await utils.withPgClient((client) =>
        client.query<{ count: number }>("SELECT count(*)::int AS count FROM graphile_worker._private_jobs"),
      );
      return filled - (rows[0]?.count ?? 0);
    },
    finishAll: () => Promise.reject(new Error("graphile-worker keeps no finished jobs.")),
    close: () => utils.release(),
  };
}

/** Jobs of one named queue run one at a time, in their order. */
function queueOf(kind: JobKind, input: unknown): { queueName?: string } {
  return kind === "fifo" ? { queueName: groupKeyOf(kind, input as BenchInput) } : {};
}
