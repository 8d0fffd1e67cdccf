/**
 * BullMQ as it ships, on the driver that Millrace uses too: a Queue and a Worker at the concurrency given, finished jobs kept (its default,
 * as Millrace's), no QueueEvents, no metrics, no telemetry. Its queue trims its events to about 10,000; it keeps no other history
 * than the finished jobs themselves.
 */
import { Queue, Worker } from "bullmq";
import { Redis } from "ioredis";
import type { Contender, OpenOptions } from "./contender.ts";
import { watchCommands } from "./driver-commands.ts";

const name = "bench";

export async function openBullmqContender({ place, isCounting }: OpenOptions): Promise<Contender> {
  const sent = isCounting ? watchCommands() : () => 0;
  const { searchParams } = new URL(place);
  const prefix = searchParams.get("prefix") ?? "bull";
  const url = place.split("?")[0] as string;
  // What BullMQ asks of a connection that is handed to it.
  const connection = new Redis(url, { maxRetriesPerRequest: null });
  const queue = new Queue(name, { connection, prefix });
  await queue.waitUntilReady();
  return {
    durability: "relaxed",
    get storeCalls() {
      return sent();
    },
    enqueue: (input) => queue.add(name, input),
    enqueueMany: (inputs) => queue.addBulk(inputs.map((data) => ({ name, data }))),
    async work({ concurrency, started, finished }) {
      const worker = new Worker(name, async ({ data }) => started(data), {
        connection,
        prefix,
        ...(concurrency === null ? {} : { concurrency }),
      });
      worker.on("error", (error) => console.error(error));
      // Said after the server has acknowledged the end.
      worker.on("completed", () => finished(1));
      return { stop: () => worker.close() };
    },
    countFinished: () => queue.getCompletedCount(),
    finishAll: () => Promise.reject(new Error("BullMQ is not measured beside finished jobs.")),
    async close() {
      await queue.close();
      connection.disconnect();
    },
  };
}
