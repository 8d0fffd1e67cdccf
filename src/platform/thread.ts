/** Threads with a child handle: texts go as messages. What a thread has started as processes is found by its mark. */
import { Worker } from "node:worker_threads";
import { environmentOf, newMark } from "./child-process.ts";
import type { ChildHandle, ChildListener } from "./child-handle.ts";
import { guardChild, unguardChild } from "./orphan-guard.ts";
import { endTree } from "./process-tree.ts";

export interface ThreadStart {
  readonly file: URL;
  /** Added to what it inherits. */
  readonly env: Readonly<Record<string, string>>;
  /** The whole environment of this process, or only what a program needs. */
  readonly inheritsEnv: boolean;
  readonly heapBytesMax: number;
}

const megabyte = 1024 * 1024;

export function startThread(start: ThreadStart, listener: ChildListener): ChildHandle {
  const mark = newMark();
  const worker = new Worker(start.file, {
    stdout: true,
    stderr: true,
    env: environmentOf(start, mark),
    resourceLimits: { maxOldGenerationSizeMb: Math.max(1, Math.floor(start.heapBytesMax / megabyte)) },
  });
  guardChild(null, mark);
  let died: Error | null = null;
  worker.on("message", (text: string) => listener.said(text));
  worker.on("messageerror", (error) => listener.broken(error as Error));
  worker.on("error", (error) => (died = error instanceof Error ? error : new Error(String(error))));
  worker.on("exit", (exitCode) => {
    unguardChild(null, mark);
    listener.ended({ exitCode, signal: null, error: died });
  });
  worker.stdout.on("data", (piece: Buffer) => listener.printed("stdout", Buffer.from(piece)));
  worker.stderr.on("data", (piece: Buffer) => listener.printed("stderr", Buffer.from(piece)));
  return {
    title: `thread ${worker.threadId}`,
    send: (text) => worker.postMessage(text),
    hangUp: () => {},
    // There are no signals for a thread.
    terminate: () => {},
    async kill() {
      await worker.terminate();
      await endTree(null, mark);
    },
    sweep: () => {},
    async memoryBytes() {
      try {
        // Buffers lie outside of the heap, so the limit of the heap does not bound them.
        const { used_heap_size: heap, external_memory: outside } = await worker.getHeapStatistics();
        return heap + outside;
      } catch {
        return null;
      }
    },
  };
}
