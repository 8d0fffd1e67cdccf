/**
 * BullMQ as it ships, on the driver that Millrace uses too: a Queue and a Worker at the concurrency given, finished
 * jobs kept (its default, as Millrace's), no QueueEvents, no metrics, no telemetry. Its queue trims its events to about
 * 10,000; it keeps no other history than the finished jobs themselves.
 */
import { FlowProducer, Queue, QueueEvents, Worker } from "bullmq";
import type { FlowJob, JobsOptions } from "bullmq";
import { Redis } from "ioredis";
import type { Contender, OpenOptions } from "../measure/contender.ts";
import { watchCommands } from "./driver-commands.ts";
import { handlerFile, isSandboxed } from "../measure/sandbox-handlers.ts";
import { makeInput } from "../measure/input.ts";
import type { BenchInput } from "../measure/input.ts";
import { limitedTo, ratedPerSecond, uniqueKeyOf } from "../measure/job-kind.ts";
import type { JobKind } from "../measure/job-kind.ts";

const name = "bench";

export async function openBullmqContender(options: OpenOptions): Promise<Contender> {
  const { place, mode, jobKind, isCounting } = options;
  const sent = isCounting ? watchCommands() : () => 0;
  const { searchParams } = new URL(place);
  const prefix = searchParams.get("prefix") ?? "bull";
  const url = place.split("?")[0] as string;
  // What BullMQ asks of a connection that is handed to it.
  const connection = new Redis(url, { maxRetriesPerRequest: null });
  const queue = new Queue(name, { connection, prefix });
  await queue.waitUntilReady();
  const bulkOf = (inputs: readonly unknown[]) =>
    inputs.map((data) => ({ name, data, opts: optionsOf(jobKind, data as BenchInput) }));
  return {
    durability: "relaxed",
    get storeCalls() {
      return sent();
    },
    enqueue: (input) => queue.add(name, input, optionsOf(jobKind, input as BenchInput)),
    enqueueMany: (inputs) => queue.addBulk(bulkOf(inputs)),
    schedule(jobs) {
      const timestamp = Date.now();
      const delayOf = (dueAtMs: number) => Math.max(0, dueAtMs - timestamp);
      return queue.addBulk(
        jobs.map(({ input, dueAtMs }) => ({
          name,
          data: input,
          opts: { timestamp, delay: delayOf(dueAtMs) },
        })),
      );
    },
    async work({ concurrency, started, finished }) {
      const failsOnce = jobKind === "fails-once";
      const handle = async ({ data, attemptsMade }: { data: unknown; attemptsMade: number }) => {
        started(data);
        if (failsOnce && attemptsMade === 0) throw new Error("fails once");
      };
      if (jobKind === "limited") await queue.setGlobalConcurrency(limitedTo);
      const worker = new Worker(name, isSandboxed(jobKind) ? handlerFile(mode) : handle, {
        ...(jobKind === "thread" ? { useWorkerThreads: true } : {}),
        connection,
        prefix,
        ...(jobKind === "rated" ? { limiter: { max: ratedPerSecond, duration: 1000 } } : {}),
        ...(concurrency === null ? {} : { concurrency }),
      });
      worker.on("error", (error) => console.error(error));
      // Said after the server has acknowledged the end.
      worker.on("completed", () => finished(1));
      if (failsOnce) worker.on("failed", () => finished(1));
      return { stop: () => worker.close() };
    },
    async openCalls() {
      const events = new QueueEvents(name, { connection: connection.duplicate(), prefix });
      await events.waitUntilReady();
      return {
        async call(input) {
          const job = await queue.add(name, input);
          return job.waitUntilFinished(events);
        },
        close: () => events.close(),
      };
    },
    async openFlows() {
      const flows = new FlowProducer({ connection, prefix });
      const events = new QueueEvents(name, { connection: connection.duplicate(), prefix });
      await events.waitUntilReady();
      const node = (children: readonly FlowJob[] = []): FlowJob => ({
        ...{ name, queueName: name, data: makeInput(0) },
        ...(children.length === 0 ? {} : { children: [...children] }),
      });
      const run = async (flow: FlowJob): Promise<void> => {
        const { job } = await flows.add(flow);
        await job.waitUntilFinished(events);
      };
      // A job has one parent, so all that a fan can begin with is a job behind each of its nodes.
      const fanOf = (width: number): FlowJob => node(Array.from({ length: width }, () => node()));
      return {
        chain(nodes) {
          let chain = node();
          for (let at = 1; at < nodes; at++) chain = node([chain]);
          return run(chain);
        },
        fan: (width) => run(fanOf(width + 1)),
        submit: async (nodes) => void (await flows.add(fanOf(nodes - 1))),
        async close() {
          await events.close();
          await flows.close();
        },
      };
    },
    countFinished: () => queue.getCompletedCount(),
    finishAll: () => Promise.reject(new Error("BullMQ is not measured beside finished jobs.")),
    async close() {
      await queue.close();
      connection.disconnect();
    },
  };
}

/** What Millrace's jobs of the kind say too: a second try at once, or a key that is held until the end. */
function optionsOf(kind: JobKind, input: BenchInput): JobsOptions | undefined {
  if (kind === "fails-once") return { attempts: 2 };
  if (kind === "unique") return { deduplication: { id: uniqueKeyOf(input) } };
  return undefined;
}
