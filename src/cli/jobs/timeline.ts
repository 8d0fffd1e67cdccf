/** The life of one job as `millrace show` prints it: one line for each moment, with its errors and what it printed. */
import type { AttemptView, JobView } from "../../client/jobs/job-view.ts";
import type { RunStepView, RunView } from "../../client/durable/runs.ts";
import type { LogLine } from "../../client/jobs/jobs.ts";
import { durationText } from "../../model/duration.ts";
import { reasonText } from "../../model/job/after-run.ts";
import type { AttemptOutput, ErrorRecord } from "../../model/job/attempt-log.ts";
import { escapeText, shorten } from "../output/escape.ts";
import { formatAge, formatInstant } from "../output/format-time.ts";
import { toJsonLine } from "../output/print-json.ts";

interface Moment {
  readonly at: Date;
  /** Its place in the timeline, if that is not its time. */
  readonly sortedAt?: number;
  readonly lines: readonly string[];
}

export interface TimelineOptions {
  /** Of a durable run; empty for any other job. */
  readonly steps?: readonly RunStepView[];
  /** Signals of a durable run that no wait has taken. */
  readonly unread?: RunView["unread"];
  readonly wantsStacks: boolean;
  readonly now: number;
}

/** In the order of time. Of equal times the cause comes first. */
export function timelineOf(
  job: JobView,
  logs: readonly LogLine[],
  { steps = [], unread = [], wantsStacks, now }: TimelineOptions,
): readonly string[] {
  const { attempts, attempt, createdAt, deadlineAt, dueAt, endedAt } = job;
  const shown = attempts.filter(({ outcome, output }) => outcome !== "completed" || output !== undefined);
  const [ofThis = [], ofEarlier = []] = [true, false].map((isThis) =>
    shown
      .filter((entry) => (entry.attempt === attempt) === isThis)
      // The last one is what people look for.
      .map((entry, at, ends) => endOfAttempt(entry, wantsStacks || (isThis && at === ends.length - 1))),
  );
  const moments: Moment[] = [
    { at: createdAt, lines: ["created"] },
    { at: dueAt, lines: [dueAt.getTime() > now ? `due ${formatAge(dueAt, now)}` : "due"] },
    ...ofEarlier,
    ...startOfAttempt(job),
    ...logs.map(logged),
    ...steps.flatMap((step) => momentsOf(step, now)),
    ...unread.map(unreadSignal),
    ...ofThis,
  ];
  if (endedAt !== null) moments.push(endOfJob(job, endedAt, [...ofEarlier, ...ofThis, ...logs]));
  else if (deadlineAt !== null) moments.push({ at: deadlineAt, lines: ["deadline"] });
  const placeOf = ({ at, sortedAt = at.getTime() }: Moment): number => sortedAt;
  return moments
    .toSorted((left, right) => placeOf(left) - placeOf(right))
    .flatMap(({ at, lines }) =>
      lines.map((text, index) => `${index === 0 ? formatInstant(at) : " ".repeat(24)}  ${text}`),
    );
}

/**
 * The end comes after everything that a worker wrote about the job, even if its own time is earlier: a worker only
 * estimates the clock of the store.
 */
function endOfJob(job: JobView, endedAt: Date, written: readonly { readonly at: Date }[]): Moment {
  const why = job.reason === null ? "" : `: ${escapeText(reasonText(job))}`;
  const sortedAt = Math.max(...[endedAt, ...written.map(({ at }) => at)].map(Number));
  return { at: endedAt, sortedAt, lines: [`${job.state}${why}`] };
}

function endOfAttempt(entry: AttemptView, wantsStacks: boolean): Moment {
  const { at, attempt, outcome, output, ranMs, worker, error, count = 1, limit } = entry;
  const ran = ranMs === undefined ? "" : ` after ${durationText(ranMs)}`;
  const where = worker === undefined || worker === "" ? "" : ` on ${escapeText(worker)}`;
  const by = limit === undefined ? "" : ` by ${escapeText(limit)}`;
  const times = count === 1 ? "" : ` ${count} times, last`;
  const what = `attempt ${attempt} ${outcome}${by}${times}${ran}${where}`;
  return { at: new Date(at), lines: [what, ...describe(error, wantsStacks), ...outputLines(output)] };
}

function startOfAttempt({
  attempt,
  claimedAt,
  endedAt,
  startedAt,
  state,
  worker,
}: JobView): readonly Moment[] {
  const where = worker === null ? "" : ` on ${escapeText(worker)}`;
  // A run that rests has set its attempt back.
  const started = attempt === 0 ? "resumed" : `attempt ${attempt} started`;
  if (startedAt !== null) return [{ at: startedAt, lines: [`${started}${where}`] }];
  if (claimedAt === null || (state !== "running" && endedAt === null)) return [];
  return [{ at: claimedAt, lines: [`attempt ${attempt} claimed${where}`] }];
}

/** A step is one moment, or two if it was waited for. */
function momentsOf(step: RunStepView, now: number): readonly Moment[] {
  const { kind, state, at, endedAt, failures, signal, key, until } = step;
  const name = escapeText(step.step);
  const isAwaited = signal !== null || kind === "sleep" || kind === "invoke";
  const times = failures === 0 ? "" : failures === 1 ? ", failed once" : `, failed ${failures} times`;
  const where = key === null ? "" : ` at the key ${escapeText(key)}`;
  const began = { at, lines: [`${stepWords[kind]} ${name} began${where}${limitText(until, now)}`] };
  if (endedAt === null)
    return [
      isAwaited ? began : { at, lines: [`step ${name} waits to run again${times}${limitText(until, now)}`] },
    ];
  const ended = { at: endedAt, lines: [`${stepWords[kind]} ${name} ${state}${times}`] };
  return isAwaited && endedAt.getTime() > at.getTime() ? [began, ended] : [ended];
}

function unreadSignal({ signal, at, source }: RunView["unread"][number]): Moment {
  const from = source === null ? "" : ` from ${escapeText(source)}`;
  return { at, lines: [`signal ${escapeText(signal)}${from} came; no wait has taken it yet`] };
}

const stepWords: Readonly<Record<RunStepView["kind"], string>> = {
  run: "step",
  "run-in": "step",
  enqueue: "enqueue",
  invoke: "invoke",
  sleep: "sleep",
  wait: "wait",
  approval: "approval",
  race: "race",
  each: "each",
};

function limitText(until: Date | null, now: number): string {
  return until === null ? "" : `, its time is over ${formatAge(until, now)}`;
}

function logged({ at, level, message, fields }: LogLine): Moment {
  const details = fields === undefined ? "" : ` ${toJsonLine(fields)}`;
  return { at, lines: [`log ${escapeText(level)}: ${escapeText(message)}${details}`] };
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

const messageCharsMax = 2000;

function describe(error: ErrorRecord | undefined, wantsStacks: boolean): readonly string[] {
  const lines: string[] = [];
  for (let each = error; each !== undefined; each = each.cause) {
    const code = each.code === undefined ? "" : ` [${escapeText(each.code)}]`;
    const prefix = lines.length === 0 ? "" : "caused by ";
    lines.push(`${prefix}${escapeText(each.name)}: ${shorten(each.message, messageCharsMax)}${code}`);
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
