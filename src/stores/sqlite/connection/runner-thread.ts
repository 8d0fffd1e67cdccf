/**
 * The connection in a thread of its own: the caller's event loop goes on while SQLite works and waits for the disk. A
 * commit crosses as one message and its answers come back as one, each as JSON: submit, claim and settle of a job
 * together take 3.6 us to write and read as JSON, 4.4 us as structured clones. The thread keeps the process alive
 * only while calls are pending.
 */
import { Worker } from "node:worker_threads";
import { MillraceError } from "../../../model/error.ts";
import { entryFileBeside } from "../../../platform/entry-file.ts";
import type { Entry } from "./epoch.ts";
import { receiveError } from "./errors.ts";
import type { SentError } from "./errors.ts";
import type { Runner } from "./executor.ts";
import type { Call, CallOutcome, CommitOutcome } from "./commit.ts";
import type { FileSettings } from "./open-file.ts";

export interface ThreadStart extends Entry {
  readonly settings: FileSettings;
  /** By the clock that comes with the calls. */
  readonly openedAt: number;
}

export interface RunRequest {
  readonly calls: readonly Call[];
  readonly machineNow: number;
}

export type ToThread =
  /** A `RunRequest` as JSON. */
  { readonly kind: "run"; readonly text: string } | { readonly kind: "close" };

export type FromThread =
  | { readonly kind: "open" }
  | { readonly kind: "failed"; readonly error: SentError }
  /** A `CommitOutcome` as JSON, with errors as they are sent. */
  | { readonly kind: "ran"; readonly text: string }
  | { readonly kind: "closed" };

/** The file that the thread runs, beside the file with this address. */
export function threadFileBeside(address: string | undefined): URL {
  const found = entryFileBeside(address, "thread-main");
  if (found.missing === undefined) return found.file;
  const sentence = `executor: "thread" needs the file ${found.missing} of Millrace, which is not there: this program was bundled. Keep millrace out of the bundle (as an external package), or leave executor out.`;
  throw new MillraceError("invalid-option", sentence);
}

/** What a runner needs of its thread, as a `Worker` has it. */
export interface StoreThread {
  postMessage(message: ToThread): void;
  on(event: "message", listener: (message: FromThread) => void): unknown;
  on(event: "error", listener: (error: unknown) => void): unknown;
  on(event: "exit", listener: (code: number) => void): unknown;
  ref(): void;
  unref(): void;
  terminate(): Promise<unknown>;
}

export type StartThread = (start: ThreadStart) => StoreThread;

const startWorker: StartThread = (start) =>
  new Worker(threadFileBeside(import.meta.url), { workerData: start });

/** @param startThread another way to a thread that serves the connection (serve-thread.ts). */
export async function threadRunner(
  start: ThreadStart,
  startThread: StartThread = startWorker,
): Promise<Runner> {
  const worker = startThread(start);
  let pending: { resolve: (message: FromThread) => void; reject: (error: unknown) => void } | null = null;
  let lost: MillraceError | null = null;
  const take = () => {
    const taken = pending;
    pending = null;
    worker.unref();
    return taken;
  };
  const lose = (cause: unknown): void => {
    lost ??= new MillraceError(
      "store-unavailable",
      "The thread that owns the SQLite connection has ended. Open the store again.",
      { cause },
    );
    take()?.reject(
      new MillraceError(
        "outcome-unknown",
        "The thread that owns the SQLite connection ended during the call, which may or may not have happened. Repeat it with the same ids.",
        { cause },
      ),
    );
  };
  worker.on("message", (message) => take()?.resolve(message));
  worker.on("error", lose);
  worker.on("exit", (code) => lose(new Error(`the thread ended with the code ${code}`)));
  const next = (): Promise<FromThread> =>
    new Promise((resolve, reject) => {
      if (lost !== null) return reject(lost);
      worker.ref();
      pending = { resolve, reject };
    });
  const ask = (message: ToThread): Promise<FromThread> => {
    const answer = next();
    if (lost === null) worker.postMessage(message);
    return answer;
  };

  const opened = await next();
  if (opened.kind === "failed") {
    await worker.terminate();
    throw receiveError(opened.error);
  }
  return {
    async run(calls, machineNow) {
      const plain = calls.map(({ operation, request }) => ({ operation, request }));
      const text = JSON.stringify({ calls: plain, machineNow } satisfies RunRequest);
      const message = await ask({ kind: "run", text });
      if (message.kind !== "ran") throw new Error(`the store's thread answered ${message.kind}`);
      const commit = JSON.parse(message.text) as CommitOutcome;
      return { ...commit, outcomes: commit.outcomes.map(receiveOutcome) };
    },
    async close() {
      if (lost === null) await ask({ kind: "close" });
      await worker.terminate();
    },
  };
}

function receiveOutcome(outcome: CallOutcome): CallOutcome {
  return outcome.kind === "error"
    ? { kind: "error", error: receiveError(outcome.error as SentError) }
    : outcome;
}
