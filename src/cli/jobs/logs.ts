/**
 * `millrace logs`: the log lines of one job, oldest first, and its output. With `--follow` new ones are shown as they
 * come, until the job has ended or a signal comes.
 */
import type { LogLine } from "../../client/jobs/jobs.ts";
import type { Millrace } from "../../client/millrace.ts";
import { isMillraceError } from "../../model/error.ts";
import { isTerminal } from "../../model/job/job-state.ts";
import { flag } from "../arguments/option-kinds.ts";
import { wrong } from "../arguments/wrong.ts";
import { command } from "../command.ts";
import type { Call } from "../command.ts";
import { escapeText } from "../output/escape.ts";
import { formatInstant } from "../output/format-time.ts";
import { toJson, toJsonLine } from "../output/print-json.ts";
import { FrameLines, readFrames } from "./frame-lines.ts";
import { noSuchJob } from "./no-such-job.ts";

const followMs = 500;

export const logs = command({
  name: "logs",
  words: "ID",
  summary: "the log lines and the output of one job",
  options: { follow: flag("go on until the job has ended, or Ctrl-C") },
  examples: ["logs 0198c2…", "logs 0198c2… --follow"],
  async run(call) {
    const { terminal, words, options, withStore, wantsJson } = call;
    const [id = ""] = words;
    if (options.follow && wantsJson) throw wrong("--follow and --json do not go together");
    await withStore(async (mill) => {
      if (options.follow) return follow(call, mill, id);
      const [lines] = await readLines(mill, id, 0);
      const frames = await readFrames(mill, id);
      const shown = new FrameLines();
      terminal.writeOut(
        wantsJson
          ? `${toJson({ id, logs: lines, frames })}\n`
          : [...lines.map(lineText), ...frames.map((frame) => shown.add(frame)), shown.end()].join(""),
      );
    });
  },
});

async function follow({ terminal, platform }: Call, mill: Millrace, id: string): Promise<void> {
  let isLast = false;
  let wake = (): void => undefined;
  const stopped = new AbortController();
  const unlisten = platform.onTermination(() => {
    isLast = true;
    stopped.abort();
    wake();
  });
  let output: Promise<void> | null = null;
  let after = 0;
  for (;;) {
    const [lines, isEnded] = await readLines(mill, id, after);
    after = lines.at(-1)?.number ?? after;
    terminal.writeOut(lines.map(lineText).join(""));
    output ??= followFrames(terminal, mill, id, stopped.signal);
    if (isEnded || isLast) break;
    await new Promise<void>((resolve) => {
      const timer = platform.setTimer(followMs, resolve);
      wake = () => {
        timer.cancel();
        resolve();
      };
    });
  }
  await output;
  unlisten();
}

async function followFrames(
  terminal: Call["terminal"],
  mill: Millrace,
  id: string,
  signal: AbortSignal,
): Promise<void> {
  const shown = new FrameLines();
  try {
    for await (const frame of mill.frames(id, { signal })) terminal.writeOut(shown.add(frame));
  } catch (error) {
    // Deleted or pruned meanwhile.
    if (!isMillraceError(error, "job-not-found")) throw error;
  }
  terminal.writeOut(shown.end());
}

/** The job is read before its lines, so that none of an ended job is missed. @returns also whether it has ended. */
async function readLines(
  mill: Millrace,
  id: string,
  after: number,
): Promise<[lines: readonly LogLine[], isEnded: boolean]> {
  const job = await mill.jobs.get(id);
  if (job === null) throw noSuchJob(id);
  return [await mill.jobs.logs(id, { after }), isTerminal(job.state)];
}

function lineText({ at, level, message, fields }: LogLine): string {
  const details = fields === undefined ? "" : ` ${toJsonLine(fields)}`;
  return `${formatInstant(at)}  ${escapeText(level)}: ${escapeText(message)}${details}\n`;
}
