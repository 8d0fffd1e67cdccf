/**
 * `millrace schedules`: all with what comes next, or one of them shown, paused, resumed, run by hand, edited, reset,
 * backfilled or deleted.
 */
import type { Millrace } from "../../client/millrace.ts";
import type { ScheduleView } from "../../client/schedules/schedule-view.ts";
import type { BackfillProgress } from "../../client/schedules/schedules.ts";
import { MillraceError } from "../../model/error.ts";
import { formatInstant } from "../output/format-time.ts";
import { readInstant } from "../arguments/read-instant.ts";
import { readWhole, wrong } from "../arguments/read-args.ts";
import { settingCommand } from "./setting-command.ts";

interface ShownSchedule extends ScheduleView {
  /** Where it was asked for: the next ticks, and the last backfill. */
  readonly upcoming?: readonly Date[];
  readonly backfill?: BackfillProgress | null;
}

const upcomingShown = 5;
const ruleOptions = {
  cron: { value: "TEXT", meaning: 'such as "0 3 * * *"' },
  every: { value: "DURATION", meaning: "such as 15m" },
  zone: { value: "ZONE", meaning: "the time zone of cron, such as Europe/Berlin" },
  missed: { value: "WHAT", meaning: "skip, once, or how many missed ticks fire at most" },
  overlap: { value: "WHAT", meaning: "allow, skip, queue-one or cancel-previous" },
  jitter: { value: "DURATION", meaning: "how much later than its tick a firing may come" },
  limit: { value: "N", meaning: "how many firings there are in all; none for any number" },
} as const;
const backfillOptions = {
  from: { value: "TIME", meaning: "the beginning of the range" },
  to: { value: "TIME", meaning: "the end of the range, which is not part of it" },
  "at-once": { value: "N", meaning: "how many of its jobs may be alive at once; 10 by default" },
} as const;

export const schedules = settingCommand<ShownSchedule>({
  name: "schedules",
  word: "NAME",
  summary: "the schedules and when they fire; change one, run it by hand, or fire ticks of the past",
  examples: [
    "schedules",
    "schedules show nightly --json",
    'schedules edit nightly --cron "0 4 * * *" --zone Europe/Berlin',
    "schedules run nightly",
    "schedules backfill nightly --from 2026-11-01T00:00Z --to 2026-11-08T00:00Z --at-once 4",
  ],
  verbs: {
    show: { read: () => show },
    pause: { read: () => (mill, name) => mill.schedules.pause(name) },
    resume: { read: () => (mill, name) => mill.schedules.resume(name) },
    run: {
      read: () => async (mill, name) => {
        await mill.schedules.runNow(name);
        return mustGet(mill, name);
      },
    },
    edit: {
      options: ruleOptions,
      read: (options) => {
        const edits = readEdits(options);
        return (mill, name) => mill.schedules.edit(name, edits);
      },
    },
    reset: { read: () => (mill, name) => mill.schedules.reset(name) },
    backfill: {
      options: backfillOptions,
      read: (options) => {
        const [from, to] = [readInstant(options, "from"), readInstant(options, "to")];
        if (from === undefined || to === undefined) throw wrong("schedules backfill needs --from and --to");
        const atOnce = readWhole(options, "at-once", [1, 500]);
        const range = { from, to, ...(atOnce === undefined ? {} : { atOnce }) };
        return async (mill, name) => {
          await mill.schedules.backfill(name, range);
          return show(mill, name);
        };
      },
    },
    delete: {
      read: () => async (mill, name) => {
        const last = await mustGet(mill, name);
        await mill.schedules.delete(name);
        return last;
      },
    },
  },
  list: (mill) => mill.schedules.list(),
  columns: [
    { title: "SCHEDULE", charsMax: 40 },
    { title: "STATUS" },
    { title: "WHEN", charsMax: 50 },
    { title: "NEXT" },
    { title: "FIRED", isNumber: true },
    { title: "SKIPPED", isNumber: true },
    { title: "JOB", charsMax: 40 },
    { title: "" },
  ],
  cells: ({ name, status, problem, rule, next, fired, skipped, job, edited, upcoming, backfill }) => [
    name,
    status,
    rule === null ? "" : whenText(rule),
    next === null ? "never" : formatInstant(next),
    String(fired),
    String(skipped),
    job?.name ?? "",
    [
      ...(problem === null ? [] : [problem]),
      ...(edited.length === 0 ? [] : ["edited"]),
      ...(upcoming === undefined ? [] : [`then ${upcoming.map(formatInstant).join(", ") || "never"}`]),
      ...(backfill === undefined || backfill === null ? [] : [backfillText(backfill)]),
    ].join("; "),
  ],
});

async function show(mill: Millrace, name: string): Promise<ShownSchedule> {
  const view = await mustGet(mill, name);
  if (view.status === "unreadable") return view;
  const upcoming = await mill.schedules.next(name, upcomingShown);
  return { ...view, upcoming, backfill: await mill.schedules.backfillProgress(name) };
}

async function mustGet(mill: Millrace, name: string): Promise<ScheduleView> {
  const view = await mill.schedules.get(name);
  if (view !== null) return view;
  throw new MillraceError("unknown-schedule", `There is no schedule ${JSON.stringify(name)}.`);
}

function readEdits(options: ReadonlyMap<string, string>): Parameters<Millrace["schedules"]["edit"]>[1] {
  const edits: Record<string, unknown> = {};
  for (const key of Object.keys(ruleOptions)) {
    const text = options.get(key);
    if (text === undefined) continue;
    const isCount = /^\d+$/.test(text);
    if (text === "none") edits[key] = null;
    else if (key === "missed" && isCount) edits[key] = { all: Number(text) };
    else edits[key] = key === "limit" && isCount ? Number(text) : text;
  }
  // Checked by the model, in the words that code gets.
  return edits;
}

function whenText({ cron, every, calendar, zone }: NonNullable<ScheduleView["rule"]>): string {
  if (every !== null) return `every ${every / 1000} s`;
  const rule = cron ?? (calendar === null ? "" : `at ${calendar.at.join(", ")} by calendar`);
  return `${rule} ${zone ?? "UTC"}`;
}

function backfillText({ fired, total, running, done }: BackfillProgress): string {
  return done ? `backfill done: ${total}` : `backfill ${fired} of ${total}, ${running} alive`;
}
