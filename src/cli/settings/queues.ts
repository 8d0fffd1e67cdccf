/**
 * `millrace queues`: the queues with their settings, or one of them paused, resumed, closed to new jobs, opened, or
 * set. What can be set: its bounds (bounds.ts), and `--total 40`, `--local 10`, `--attempts 5`, `--backoff 30s` or
 * `--backoff 1s-5m`, `--keep completed=1d,failed=30d+1000` (an age, a count or both); `none` takes one away.
 */
import type { QueueEdit } from "../../index.ts";
import { durationMs, durationText } from "../../model/duration.ts";
import type { KeptHistory } from "../../model/job/job-policy.ts";
import type { Backoff } from "../../model/job/retry-policy.ts";
import { duration, orNone, text } from "../arguments/option-kinds.ts";
import type { ValuesOf } from "../arguments/option-kinds.ts";
import { quote, wrong } from "../arguments/wrong.ts";
import { formatInstant } from "../output/format-time.ts";
import { boundOptions, boundsOf, count, formatBound, formatRate } from "./bounds.ts";
import { plainVerb, settingCommand, verb } from "./setting-command.ts";

const queueOptions = {
  ...boundOptions,
  total: count("slots over all live workers, shared out; none leaves it to the workers"),
  local: count("how many run at once in each worker; none leaves it to the workers"),
  attempts: count("how often a job is tried that does not say it itself"),
  backoff: orNone(
    text("TIME", "how long such a job waits for its next try: 30s, or from 1s doubling to 5m as 1s-5m"),
  ),
  keep: orNone({
    value: "TIMES",
    meaning: "how long, or how many, finished jobs are kept: completed=1d,failed=30d+1000,other=500",
    read: readKept,
  }),
};

const outcomes = ["completed", "failed", "other"] as const;

export const queues = settingCommand({
  name: "queues",
  word: "QUEUE",
  summary: "the queues and their settings; pause, close or bound one for all processes",
  examples: [
    "queues pause email --for 10m",
    "queues set email --rate 100/1m --attempts 5",
    "queues close-intake email",
  ],
  verbs: {
    pause: verb(
      { for: duration("it goes on by itself after this long") },
      (options) => (mill, queue) => mill.queues.pause(queue, options),
    ),
    resume: plainVerb((mill, queue) => mill.queues.resume(queue)),
    "close-intake": plainVerb((mill, queue) => mill.queues.closeIntake(queue)),
    "open-intake": plainVerb((mill, queue) => mill.queues.openIntake(queue)),
    reset: plainVerb((mill, queue) => mill.queues.reset(queue)),
    set: verb(queueOptions, (options) => {
      const edit = readQueueOptions(options);
      return (mill, queue) => mill.queues.set(queue, edit);
    }),
  },
  list: (mill) => mill.queues.list(),
  columns: [
    { title: "QUEUE", charsMax: 40 },
    { title: "CLAIMS" },
    { title: "INTAKE" },
    { title: "AT ONCE", isNumber: true },
    { title: "RATE" },
    { title: "TOTAL", isNumber: true },
    { title: "LOCAL", isNumber: true },
    { title: "ATTEMPTS", isNumber: true },
    { title: "BACKOFF" },
    { title: "KEPT" },
  ],
  cells: ({ queue, paused, pausedUntil, intakeClosed, concurrency, rate, ...jobs }) => [
    queue,
    paused ? `paused${pausedUntil === null ? "" : ` until ${formatInstant(pausedUntil)}`}` : "open",
    intakeClosed ? "closed" : "open",
    formatBound(concurrency),
    formatRate(rate),
    String(jobs.total ?? ""),
    String(jobs.localConcurrency ?? ""),
    String(jobs.attempts ?? ""),
    formatBackoff(jobs.backoff),
    formatKept(jobs.retention),
  ],
});

function readQueueOptions({
  local,
  keep,
  backoff,
  total,
  attempts,
  ...bounds
}: ValuesOf<typeof queueOptions>): QueueEdit {
  const settings = {
    ...{ total, attempts, localConcurrency: local, retention: keep },
    backoff: typeof backoff === "string" ? readBackoffText(backoff) : backoff,
  };
  const given = Object.entries(settings).filter(([, value]) => value !== undefined);
  return { ...boundsOf(bounds), ...(Object.fromEntries(given) as QueueEdit) };
}

function readBackoffText(given: string): QueueEdit["backoff"] {
  const [from = "", to] = given.split("-");
  const delay = durationMs(from, "--backoff");
  return to === undefined ? delay : { kind: "exponential", from: delay, to: durationMs(to, "--backoff") };
}

function readKept(given: string, name: string): QueueEdit["retention"] {
  const kept = given.split(",").map((part) => part.split("="));
  if (kept.some(([outcome, bound]) => !outcomes.some((each) => each === outcome) || !bound))
    throw wrong(`${name} must be ages and counts such as completed=1d,failed=30d+1000, not ${quote(given)}`);
  return Object.fromEntries(
    kept.map(([outcome, bound = ""]) => [outcome, Object.assign({}, ...bound.split("+").map(readBound))]),
  ) as QueueEdit["retention"];
}

/** Digits alone are a count: every age has a unit. */
function readBound(text: string): { age?: string; count?: number | null } {
  return /^\d+$/.test(text) ? { count: Number(text) } : text === "any" ? { count: null } : { age: text };
}

/** Nothing if the workers decide. */
function formatBackoff(backoff: Backoff | null): string {
  if (backoff === null) return "";
  switch (backoff.kind) {
    case "fixed":
      return durationText(backoff.delayMs);
    case "linear":
    case "exponential":
      return `${durationText(backoff.fromMs)}-${durationText(backoff.toMs)}`;
    case "list":
      return backoff.delaysMs.map(durationText).join(",");
    case "custom":
      return backoff.name;
  }
}

function formatKept(kept: KeptHistory | null): string {
  return outcomes
    .flatMap((outcome) => {
      const [ms, count] = [kept?.[`${outcome}Ms`], kept?.[`${outcome}Count`]];
      const bounds = [ms === undefined ? [] : durationText(ms), count === undefined ? [] : (count ?? "any")];
      return bounds.flat().length === 0 ? [] : [`${outcome}=${bounds.flat().join("+")}`];
    })
    .join(",");
}
