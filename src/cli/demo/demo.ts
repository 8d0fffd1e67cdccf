/**
 * `millrace demo`, which `npm start` runs: a busy little shop on a new SQLite file, shown live, which ends by itself.
 * It does not read MILLRACE_STORE, because a demo must never write to a store that somebody uses.
 */
import { join } from "node:path";
import type { Millrace } from "../../client/millrace.ts";
import { text, whole } from "../arguments/option-kinds.ts";
import { command } from "../command.ts";
import type { Call } from "../command.ts";
import { Board, countTable, totalOf } from "./board.ts";
import type { Counts } from "./board.ts";
import { demoHandlers, slots } from "./demo-jobs.ts";
import { startScript } from "./script.ts";
import { escapeText } from "../output/escape.ts";
import { withMillrace } from "../store/open-store.ts";
import { waitMs } from "../wait.ts";

const secondsDefault = 15;
const frameMs = 120;
/** For this long before its end the demo enqueues nothing, so that waiting jobs can finish. */
const quietMs = 3000;

export const demo = command({
  name: "demo",
  summary: "a live demo on a new SQLite file: retries, delays, progress, a failure, a cancel",
  opensStore: false,
  options: {
    seconds: whole("N", `how long it runs, 1 to 3600; ${secondsDefault} by default`, 1, 3600),
    store: text("URL", "run on this store; default: a new file in the temporary folder"),
  },
  async run(call) {
    const { terminal, options, answer, wantsJson } = call;
    const { seconds = secondsDefault, store } = options;
    const url = store?.trim() || `sqlite:${join(terminal.makeTemporaryFolder("millrace-demo-"), "jobs.db")}`;
    if (!wantsJson)
      terminal.writeOut(`Millrace demo: one worker, six queues, on ${escapeText(url)}. Ctrl-C stops it.\n\n`);
    const outcome = await withMillrace(call, url, (mill) => runDemo(call, mill, seconds), { log: false });
    answer({ store: url, ...outcome }, describe(url, outcome, terminal.isTTY));
  },
});

interface Outcome {
  readonly seconds: number;
  readonly counts: Counts;
  readonly failedId: string;
  readonly waitingId: string;
}

async function runDemo(
  { terminal, platform, wantsJson }: Call,
  mill: Millrace,
  secondsMax: number,
): Promise<Outcome> {
  const ended = new AbortController();
  platform.onTermination(() => ended.abort());
  const board = new Board(terminal);
  const announce = (news: string): void => board.announce(news);
  const startUs = platform.monotonicUs();
  const elapsed = (): number => (platform.monotonicUs() - startUs) / 1000;
  const draw = async (): Promise<void> => {
    if (!wantsJson)
      board.draw({
        elapsedMs: elapsed(),
        secondsMax,
        counts: await mill.jobs.counts(),
        reports: await reportsOf(mill),
      });
  };

  const script = await startScript(mill, announce);
  const worker = await mill.work(demoHandlers(platform, announce), {
    queues: slots,
    shutdownGrace: "1s",
    abortGrace: "1s",
  });
  while (!ended.signal.aborted && elapsed() < secondsMax * 1000) {
    await script.play(elapsed(), elapsed() > Math.max(500, secondsMax * 1000 - quietMs));
    await draw();
    await waitMs(platform, frameMs, ended.signal).catch(() => undefined);
  }
  await worker.stop();
  await draw();
  const { failedId, waitingId } = script;
  return { seconds: Math.round(elapsed() / 100) / 10, counts: await mill.jobs.counts(), failedId, waitingId };
}

async function reportsOf(mill: Millrace): Promise<readonly { month: string; share: number }[]> {
  const { jobs } = await mill.jobs.list({ queue: "reports", state: "running", limit: 2 });
  return jobs.map(({ input, progress }) => ({
    month: (input as { month: string }).month,
    share: (progress as { value: number } | undefined)?.value ?? 0,
  }));
}

function describe(url: string, { seconds, counts, failedId, waitingId }: Outcome, hasTable: boolean): string {
  const millrace = import.meta.filename.endsWith(".ts") ? "npm run -s millrace --" : "npx millrace";
  const [completed, failed, cancelled] = (["completed", "failed", "cancelled"] as const).map((state) =>
    totalOf(counts, state),
  );
  return [
    ...(hasTable ? [] : ["", countTable(counts)]),
    "",
    `After ${seconds} s the file holds ${completed} completed, ${failed} failed and ${cancelled} cancelled jobs. Look around:`,
    "",
    `  export MILLRACE_STORE=${/^[\w:./-]+$/.test(url) ? url : `'${url}'`}`,
    `  ${millrace} list --state failed`,
    `  ${millrace} show ${failedId}`,
    `  ${millrace} explain ${waitingId}`,
    `  ${millrace} retry ${failedId}`,
    `  ${millrace} doctor`,
    `  ${millrace} demo --store $MILLRACE_STORE    # goes on with the same jobs`,
  ].join("\n");
}
