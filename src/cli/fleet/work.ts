/**
 * `millrace work`: runs the handlers of a jobs file until it is asked to stop, by a signal or by `millrace workers
 * stop`. The first SIGTERM or SIGINT stops it gracefully (no new claims, running handlers finish, the rest goes back);
 * a second one ends the process at once, and leases expire by themselves.
 */
import type { Handler, Millrace, MillraceOptions, WorkerOptions } from "../../index.ts";
import type { Declared } from "../../client/millrace-config.ts";
import { isMillraceError } from "../../model/error.ts";
import type { Platform } from "../../platform/platform.ts";
import { isBucketUrl } from "../../stores/bucket/bucket-url.ts";
import { duration, flag, list, text, whole } from "../arguments/option-kinds.ts";
import { command } from "../command.ts";
import { escapeText } from "../output/escape.ts";
import { declaredBy } from "../load-config.ts";
import { storeUrl, withMillrace } from "../store/open-store.ts";
import { workLines } from "./work-lines.ts";

export const work = command({
  name: "work",
  words: "[JOBS-FILE]",
  summary: "run what a file or the config declares (handlers, schedules), until SIGTERM or Ctrl-C",
  options: {
    queues: list("A,B", "the queues to serve; default: those of the handlers"),
    concurrency: whole("N", "jobs at once per queue; 10 by default", 1, 10_000),
    capabilities: list("A,B", "what it offers to jobs that require it, such as gpu"),
    lease: duration("how long a job stays with a worker that is not heard of; 15s by default"),
    grace: duration("how long running handlers may finish when it stops; 30s by default"),
    label: text("NAME", "shown in lists and logs"),
    quiet: flag("say nothing of jobs that end well, nor what handlers log"),
  },
  examples: [
    "work ./jobs.ts --store sqlite:./jobs.db",
    "work ./jobs.ts --queues email,default --concurrency 20",
    "work --config ./millrace.config.ts",
  ],
  async run(call) {
    const { terminal, platform, words, options, answer, wantsJson } = call;
    const url = storeUrl(call);
    const { quiet, grace, ...others } = options;
    const { handlers, queues: queueDefaults, ...declared } = await declaredBy(words[0], call.config);
    const { work: configured = {}, open = {} } = call.config?.config ?? {};
    const workerOptions: WorkerOptions = {
      ...configured,
      ...others,
      ...(grace === undefined ? {} : { shutdownGrace: grace }),
      ...{ ...declared, queueDefaults },
    };
    const say = (line: string): void => (wantsJson ? terminal.writeErr(line) : terminal.writeOut(line));
    const lines = shownBy(open, quiet ? null : workLines(say, () => platform.now()));
    const run = async (mill: Millrace, signalled = firstSignal(platform)): Promise<number> => {
      const worker = await mill.work(handlers, workerOptions);
      say(`millrace: worker ${escapeText(worker.id)} runs ${describeHandlers(handlers)}; Ctrl-C stops it\n`);
      const also = describeDeclared({ ...declared, queues: queueDefaults });
      if (also !== "") say(`millrace: declared ${also}\n`);
      const ended = await Promise.race([signalled, worker.stopped]);
      // A supervisor starts it again, and it waits until it may write.
      if (ended?.lost !== undefined) throw ended.lost;
      terminal.writeErr(
        "millrace: stopping when the running handlers have ended; a second signal ends it at once\n",
      );
      const { notStopped } = await worker.stop();
      const left =
        notStopped === 0 ? "every handler ended" : `${notStopped} ignored the stop; their jobs went back`;
      answer({ worker: worker.id, notStopped }, `millrace: worker stopped, ${left}`);
      return notStopped === 0 ? 0 : 1;
    };
    // A worker waits while another process writes to a bucket.
    if (!isBucketUrl(url)) return withMillrace(call, url, (mill) => run(mill), lines);
    const signalled = firstSignal(platform);
    const ends = new AbortController();
    void signalled.then(() => ends.abort());
    const bucket = { whenHeld: call.store.take ? "take" : "wait", signal: ends.signal } as const;
    try {
      return await withMillrace(call, url, (mill) => run(mill, signalled), { bucket, ...lines });
    } catch (error) {
      if (!isMillraceError(error, "aborted") || !ends.signal.aborted) throw error;
      answer({ worker: null, notStopped: 0 }, "millrace: stopped while it waited for the bucket");
      return 0;
    }
  },
});

/** What the command shows, beside the sink and in place of the log of a config. */
function shownBy(
  { log, onAttempt }: Pick<MillraceOptions, "log" | "onAttempt">,
  lines: ReturnType<typeof workLines> | null,
): Pick<MillraceOptions, "log" | "onAttempt"> {
  if (lines === null) return {};
  return {
    log: log ?? lines.log,
    onAttempt(report) {
      lines.onAttempt(report);
      return onAttempt?.(report);
    },
  };
}

/**
 * Resolves on the first signal. From the call on a signal stops the worker instead of ending the process, also while
 * the worker is still starting.
 */
function firstSignal(platform: Platform): Promise<void> {
  return new Promise((resolve) => {
    platform.onTermination(resolve);
  });
}

const namesShown = 8;

function describeHandlers(handlers: readonly Handler[]): string {
  return listNames(handlers.map(({ definition }) => definition.name));
}

function describeDeclared({ schedules, subscriptions, queues }: Omit<Declared, "handlers">): string {
  const parts = [
    ["schedule", schedules.map(({ name }) => name)],
    ["subscription", subscriptions.map(({ topic, name }) => `${topic}/${name}`)],
    ["queue", queues.map(({ queue }) => queue)],
  ] as const;
  return parts
    .filter(([, names]) => names.length > 0)
    .map(([title, names]) => `the ${title}${names.length === 1 ? "" : "s"} ${listNames(names)}`)
    .join(" and ");
}

function listNames(given: readonly string[]): string {
  const names = given.map(escapeText);
  const more = names.length > namesShown ? ` and ${names.length - namesShown} more` : "";
  return `${names.slice(0, namesShown).join(", ")}${more}`;
}
