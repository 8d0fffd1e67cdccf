/**
 * One real thread for all stores of a test file that keep their connection in a thread: each gets a line of its own
 * into it. To start a thread and to load the sources there takes 80 ms of processor time, for each of hundreds of
 * cases.
 */
import { once } from "node:events";
import { MessageChannel, Worker } from "node:worker_threads";
import { afterAll, beforeAll } from "vitest";
import type { StartThread, StoreThread } from "../../src/stores/sqlite/connection/runner-thread.ts";

export function useOneThread(): StartThread {
  let worker: Worker;
  beforeAll(async () => {
    worker = new Worker(new URL("one-thread-main.ts", import.meta.url));
    await once(worker, "online");
  });
  afterAll(() => worker.terminate());
  return (start) => {
    const { port1: port, port2: served } = new MessageChannel();
    worker.postMessage({ start, port: served }, [served]);
    return {
      postMessage: (message) => port.postMessage(message),
      on: (event: string, listener: (value: never) => void) =>
        port.on(event === "exit" ? "close" : event, listener as (value: unknown) => void),
      ref: () => port.ref(),
      unref: () => port.unref(),
      terminate: async () => port.close(),
    } satisfies StoreThread;
  };
}
