/**
 * `millrace show`: everything about one job, its life as a timeline, or the graph of one flow. Fields that the
 * definition of a job redacts stay redacted.
 */
import { reasonText } from "../../model/job/after-run.ts";
import type { FlowNodeView, FlowView } from "../../client/flows/flows.ts";
import type { Millrace } from "../../client/millrace.ts";
import type { JobView } from "../../client/jobs/job-view.ts";
import type { AttemptOutput, ErrorRecord } from "../../model/job/attempt-log.ts";
import { isMillraceError } from "../../model/error.ts";
import { flag } from "../arguments/option-kinds.ts";
import { command } from "../command.ts";
import { escapeText, shorten } from "../output/escape.ts";
import { heldText } from "./held-text.ts";
import { durationText } from "../../model/duration.ts";
import { formatAge, formatInstant } from "../output/format-time.ts";
import { jobShape } from "./job-shape.ts";
import { flowText } from "../flows/show-flow.ts";
import { toJsonLine } from "../output/print-json.ts";
import { noSuchJob } from "./no-such-job.ts";

export const show = command({
  name: "show",
  words: "ID",
  summary: "one job: its timeline, errors, result and logs; or one flow: its graph",
  options: { stacks: flag("with the stack of every error") },
  examples: ["show 0198c2…", "show 0198c2… --json"],
  async run({ platform, words: [id = ""], options, withStore, answer }) {
    const [job, logs, flow] = await withStore((mill) =>
      Promise.all([mill.jobs.get(id), readLogs(mill, id), readFlow(mill, id)]),
    );
    const now = platform.now();
    if (flow !== null) return answer(flow, () => flowText(flow.flow, flow.nodes, now));
    if (job === null) throw noSuchJob(id);
    answer({ job: jobShape(job), logs }, () =>
      [...head(job), "", ...timeline(job, logs, options.stacks === true, now)].join("\n"),
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

type Logs = Awaited<ReturnType<Millrace["jobs"]["logs"]>>;

async function readLogs(mill: Millrace, id: string): Promise<Logs> {
  try {
    return await mill.jobs.logs(id);
  } catch (error) {
    // Encrypted with keys that the command line does not have: the rest of the job can still be shown.
    if (isMillraceError(error, "payload-unreadable") || isMillraceError(error, "unknown-key")) return [];
    throw error;
  }
}

const valueCharsMax = 2000;

function head(job: JobView): readonly string[] {
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
  ];
}

interface Moment {
  readonly at: Date;
  readonly lines: readonly string[];
}

function timeline(job: JobView, logs: Logs, wantsStacks: boolean, now: number): readonly string[] {
  const moments: Moment[] = [
    { at: job.createdAt, lines: ["created"] },
    { at: job.dueAt, lines: [job.dueAt.getTime() > now ? `due ${formatAge(job.dueAt, now)}` : "due"] },
    ...job.attempts
      .filter(({ outcome, output }) => outcome !== "completed" || output !== undefined)
      .map(({ at, attempt, outcome, ranUs, worker, error, output }) => {
        const ran = ranUs === undefined ? "" : ` after ${durationText(ranUs / 1000)}`;
        const where = worker === undefined || worker === "" ? "" : ` on ${escapeText(worker)}`;
        return {
          at: new Date(at),
          lines: [
            `attempt ${attempt} ${outcome}${ran}${where}`,
            ...describe(error, wantsStacks),
            ...outputLines(output),
          ],
        };
      }),
    ...logs.map(({ at, level, message, fields }) => {
      const details = fields === undefined ? "" : ` ${toJsonLine(fields)}`;
      return { at, lines: [`log ${escapeText(level)}: ${escapeText(message)}${details}`] };
    }),
  ];
  const isRunning = job.state === "running";
  const where = job.worker === null ? "" : ` on ${escapeText(job.worker)}`;
  if (job.startedAt !== null)
    moments.push({ at: job.startedAt, lines: [`attempt ${job.attempt} started${where}`] });
  else if (job.claimedAt !== null && (isRunning || job.endedAt !== null))
    moments.push({ at: job.claimedAt, lines: [`attempt ${job.attempt} claimed${where}`] });
  if (job.deadlineAt !== null && job.endedAt === null)
    moments.push({ at: job.deadlineAt, lines: ["deadline"] });
  if (job.endedAt !== null)
    moments.push({
      at: job.endedAt,
      lines: [`${job.state}${job.reason === null ? "" : `: ${escapeText(reasonText(job))}`}`],
    });
  return moments
    .toSorted((left, right) => left.at.getTime() - right.at.getTime())
    .flatMap(({ at, lines }) =>
      lines.map((text, index) => `${index === 0 ? formatInstant(at) : " ".repeat(24)}  ${text}`),
    );
}

const outputLinesMax = 20;

/** How the attempt exited, and the last lines that it printed. */
function outputLines(output: AttemptOutput | undefined): readonly string[] {
  if (output === undefined) return [];
  const { exitCode, signal, stdout, stderr } = output;
  const exit =
    signal === undefined ? (exitCode === undefined ? [] : [`exit code ${exitCode}`]) : [`ended by ${signal}`];
  const printed = ([stream, text]: readonly [string, string | undefined]): readonly string[] =>
    (text ?? "")
      .trimEnd()
      .split("\n")
      .filter((line) => line !== "")
      .slice(-outputLinesMax)
      .map((line) => `${stream}: ${escapeText(line)}`);
  return [
    ...exit,
    ...(
      [
        ["stdout", stdout],
        ["stderr", stderr],
      ] as const
    ).flatMap(printed),
  ];
}

function describe(error: ErrorRecord | undefined, wantsStacks: boolean): readonly string[] {
  const lines: string[] = [];
  for (let each = error; each !== undefined; each = each.cause) {
    const code = each.code === undefined ? "" : ` [${escapeText(each.code)}]`;
    const prefix = lines.length === 0 ? "" : "caused by ";
    lines.push(`${prefix}${escapeText(each.name)}: ${shorten(each.message, valueCharsMax)}${code}`);
    if (!wantsStacks || each.stack === undefined) continue;
    lines.push(
      ...each.stack
        .split("\n")
        .filter((line) => /^\s+at /.test(line))
        .map(escapeText),
    );
  }
  return lines;
}
