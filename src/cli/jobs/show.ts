/**
 * `millrace show`: everything about one job, its life as a timeline, or the graph of one flow. Fields that the
 * definition of a job redacts stay redacted.
 */
import type { FlowNodeView, FlowView } from "../../client/flows/flows.ts";
import type { Millrace } from "../../client/millrace.ts";
import type { OutputView } from "../../client/open-frames.ts";
import type { JobView } from "../../client/jobs/job-view.ts";
import type { LogLine } from "../../client/jobs/jobs.ts";
import { isMillraceError } from "../../model/error.ts";
import { flag } from "../arguments/option-kinds.ts";
import { command } from "../command.ts";
import { escapeText, shorten } from "../output/escape.ts";
import { heldText } from "./held-text.ts";
import { jobShape } from "./job-shape.ts";
import { timelineOf } from "./timeline.ts";
import { flowText } from "../flows/show-flow.ts";
import { toJsonLine } from "../output/print-json.ts";
import { noSuchJob } from "./no-such-job.ts";

export const show = command({
  name: "show",
  words: "ID",
  summary: "one job: its timeline, errors, result, logs and output; or one flow: its graph",
  options: { stacks: flag("with the stack of every error, not only of the last one") },
  examples: ["show 0198c2…", "show 0198c2… --json"],
  async run({ platform, words: [id = ""], options, withStore, answer }) {
    const [job, logs, flow, run, output] = await withStore((mill) =>
      Promise.all([
        mill.jobs.get(id),
        readLogs(mill, id),
        readFlow(mill, id),
        mill.runs.get(id),
        readOutput(mill, id),
      ]),
    );
    const now = platform.now();
    if (flow !== null) return answer(flow, () => flowText(flow.flow, flow.nodes, now));
    if (job === null) throw noSuchJob(id);
    const { steps = [], unread = [] } = run ?? {};
    const parts = { ...(run === null ? {} : { run }), ...(output === null ? {} : { output }) };
    answer({ job: jobShape(job), logs, ...parts }, () =>
      [
        ...head(job, output),
        "",
        ...timelineOf(job, logs, { steps, unread, wantsStacks: options.stacks === true, now }),
      ].join("\n"),
    );
  },
});

async function readFlow(
  mill: Millrace,
  id: string,
): Promise<{ readonly flow: FlowView; readonly nodes: readonly FlowNodeView[] } | null> {
  const flow = await mill.flows.get(id);
  return flow === null ? null : { flow, nodes: await mill.flows.nodes(id) };
}

/** Null for a job without output, and for a flow. */
async function readOutput(
  mill: Millrace,
  id: string,
): Promise<Pick<OutputView, "frames" | "summary"> | null> {
  try {
    const { frames, summary } = await mill.output(id);
    return frames === 0 && summary === undefined ? null : { frames, summary };
  } catch (error) {
    const codes = ["job-not-found", "payload-unreadable", "unknown-key"] as const;
    if (codes.some((code) => isMillraceError(error, code))) return null;
    throw error;
  }
}

async function readLogs(mill: Millrace, id: string): Promise<readonly LogLine[]> {
  try {
    return await mill.jobs.logs(id);
  } catch (error) {
    // Encrypted with keys that the command line does not have: the rest of the job can still be shown.
    if (isMillraceError(error, "payload-unreadable") || isMillraceError(error, "unknown-key")) return [];
    throw error;
  }
}

const valueCharsMax = 2000;

function head(job: JobView, output: Awaited<ReturnType<typeof readOutput>>): readonly string[] {
  const line = (title: string, text: string): string => `${title.padEnd(9)} ${text}`;
  const value = (title: string, given: unknown): readonly string[] =>
    given === undefined ? [] : [line(title, shorten(toJsonLine(given), valueCharsMax))];
  const unlessEmpty = (texts: object): unknown => (Object.keys(texts).length === 0 ? undefined : texts);
  return [
    line("job", escapeText(job.id)),
    line("name", escapeText(job.name)),
    line("queue", escapeText(job.queue)),
    line("state", `${job.state}${job.reason === null ? "" : ` (${escapeText(job.reason)})`}`),
    line("attempts", `${job.attempt} of ${job.attemptsMax}`),
    ...(job.throttles === 0
      ? []
      : [line("throttled", job.throttles === 1 ? "once" : `${job.throttles} times`)]),
    ...Object.entries(job.spent).map(([budget, amount]) =>
      line("used", `${amount} of ${escapeText(budget)}`),
    ),
    ...(job.requires.length === 0 ? [] : [line("requires", job.requires.map(escapeText).join(", "))]),
    ...(job.group === null ? [] : [line("group", escapeText(job.group))]),
    ...(job.held === null ? [] : [line("held", heldText(job.held))]),
    ...(job.flow === null
      ? []
      : [line("flow", `${job.flow.id}, kept with it; node ${escapeText(job.flow.node)}`)]),
    ...(job.tags.length === 0 ? [] : [line("tags", job.tags.map(escapeText).join(", "))]),
    ...(job.uniqueKey === null ? [] : [line("unique", escapeText(job.uniqueKey))]),
    ...value("headers", unlessEmpty(job.headers)),
    ...value("trace", unlessEmpty(job.trace)),
    ...value("input", job.input),
    ...value("progress", job.progress),
    ...value("result", job.result),
    ...(output === null ? [] : [line("output", output.frames === 1 ? "1 frame" : `${output.frames} frames`)]),
    ...value("summary", output?.summary),
  ];
}
