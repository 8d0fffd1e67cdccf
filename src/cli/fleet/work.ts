/**
 * `millrace work`: runs the handlers of a jobs file until it is told to stop, by a signal or by `millrace workers
 * stop`. The first SIGTERM or SIGINT stops it gracefully (no new claims, running handlers finish, the rest goes back);
 * a second one ends the process at once, and leases expire by themselves.
 */
import type { Handler, Millrace, WorkerOptions } from "../../index.ts";
import { isMillraceError } from "../../model/error.ts";
import type { Platform } from "../../platform/platform.ts";
import { isBucketUrl } from "../../stores/bucket/bucket-url.ts";
import { storeOption } from "../command.ts";
import type { Command } from "../command.ts";
import { escapeText } from "../output/escape.ts";
import { loadHandlers } from "./load-handlers.ts";
import { storeUrl, withMillrace } from "../store/open-store.ts";
import { toJson } from "../output/print-json.ts";
import { readList, readWhole } from "../arguments/read-args.ts";
import { workLines } from "./work-lines.ts";

export const work: Command = {
  name: "work",
  usage: "work JOBS-FILE [--queues a,b] [--concurrency 10] [--capabilities gpu,eu] [--quiet]",
  summary: "run the handlers that a file exports, until SIGTERM or Ctrl-C",
  words: [1, 1],
  options: {
    ...storeOption,
    queues: { value: "A,B", meaning: "the queues to serve; default: those of the handlers" },
    concurrency: { value: "N", meaning: "jobs at once per queue; 10 by default" },
    capabilities: { value: "A,B", meaning: "what it offers to jobs that require it, such as gpu" },
    lease: {
      value: "DURATION",
      meaning: "how long a job stays with a worker that is not heard of; 15s by default",
    },
    grace: {
      value: "DURATION",
      meaning: "how long running handlers may finish when it stops; 30s by default",
    },
    label: { value: "NAME", meaning: "shown in lists and logs" },
    quiet: { meaning: "say nothing of jobs that end well, nor what handlers log" },
  },
  examples: [
    "work ./jobs.ts --store sqlite:./jobs.db",
    "work ./jobs.ts --queues email,default --concurrency 20",
  ],
  async run(call) {
    const { terminal, platform, words, options, wantsJson } = call;
    const url = storeUrl(call);
    const workerOptions = readOptions(options);
    const handlers = await loadHandlers(words[0] as string);
    const say = (text: string): void => (wantsJson ? terminal.writeErr(text) : terminal.writeOut(text));
    const lines = options.has("quiet") ? null : workLines(say, () => platform.now());
    const run = async (mill: Millrace, told = whenTold(platform)): Promise<number> => {
      const worker = await mill.work(handlers, workerOptions);
      say(`millrace: worker ${escapeText(worker.id)} runs ${describeHandlers(handlers)}; Ctrl-C stops it\n`);
      const ended = await Promise.race([told, worker.stopped]);
      // A supervisor starts it again, and it stands by.
      if (ended?.lost !== undefined) throw ended.lost;
      terminal.writeErr(
        "millrace: stopping when the running handlers have ended; a second signal ends it at once\n",
      );
      const { notStopped } = await worker.stop();
      const left =
        notStopped === 0 ? "every handler ended" : `${notStopped} ignored the stop; their jobs went back`;
      if (wantsJson) terminal.writeOut(`${toJson({ worker: worker.id, notStopped })}\n`);
      else say(`millrace: worker stopped, ${left}\n`);
      return notStopped === 0 ? 0 : 1;
    };
    // A worker stands by while another process writes to a bucket.
    if (!isBucketUrl(url)) return withMillrace(call, url, (mill) => run(mill), { ...lines });
    const told = whenTold(platform);
    const ends = new AbortController();
    void told.then(() => ends.abort());
    const bucket = { whenHeld: options.has("take") ? "take" : "wait", signal: ends.signal } as const;
    try {
      return await withMillrace(call, url, (mill) => run(mill, told), { bucket, ...lines });
    } catch (error) {
      if (!isMillraceError(error, "aborted") || !ends.signal.aborted) throw error;
      if (wantsJson) terminal.writeOut(`${toJson({ worker: null, notStopped: 0 })}\n`);
      else say("millrace: stopped while it stood by\n");
      return 0;
    }
  },
};

function readOptions(options: ReadonlyMap<string, string>): WorkerOptions {
  const read: WorkerOptions = {};
  const queues = readList(options, "queues");
  if (queues !== undefined) read.queues = queues;
  const capabilities = readList(options, "capabilities");
  if (capabilities !== undefined) read.capabilities = capabilities;
  const concurrency = readWhole(options, "concurrency", [1, 10_000]);
  if (concurrency !== undefined) read.concurrency = concurrency;
  const [lease, grace, label] = [options.get("lease"), options.get("grace"), options.get("label")];
  if (lease !== undefined) read.lease = lease;
  if (grace !== undefined) read.shutdownGrace = grace;
  if (label !== undefined) read.label = label;
  return read;
}

/**
 * Resolves on the first signal. From the call on a signal stops the worker instead of ending the process, also while
 * the worker is still starting.
 */
function whenTold(platform: Platform): Promise<void> {
  return new Promise((resolve) => {
    platform.onTermination(resolve);
  });
}

const namesShown = 8;

function describeHandlers(handlers: readonly Handler[]): string {
  const names = handlers.map(({ definition }) => escapeText(definition.name));
  const more = names.length > namesShown ? ` and ${names.length - namesShown} more` : "";
  return `${names.slice(0, namesShown).join(", ")}${more}`;
}
