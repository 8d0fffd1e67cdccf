/**
 * `millrace schedules`: all with what comes next, or one of them added, shown, paused, resumed, run by hand, edited,
 * reset, backfilled or deleted.
 */
import type { Millrace } from "../../client/millrace.ts";
import { job } from "../../index.ts";
import type { ScheduleOptions } from "../../index.ts";
import type { ScheduleView } from "../../client/schedules/schedule-view.ts";
import type { BackfillProgress } from "../../client/schedules/schedules.ts";
import { duration, instant, json, orNone, text, whole } from "../arguments/option-kinds.ts";
import { wrong } from "../arguments/wrong.ts";
import { formatInstant } from "../output/format-time.ts";
import { plainVerb, settingCommand, verb } from "./setting-command.ts";
import { storedByName } from "./stored-by-name.ts";

interface ShownSchedule extends ScheduleView {
  /** If it was asked for: the next ticks, and the last backfill. */
  readonly upcoming?: readonly Date[];
  readonly backfill?: BackfillProgress | null;
}

const upcomingShown = 5;
const digits = /^\d+$/;
// The model checks them, in the words that code gets.
const ruleOptions = {
  cron: orNone(text("TEXT", 'such as "0 3 * * *"')),
  every: orNone(duration("such as 15m")),
  zone: orNone(text("ZONE", "the time zone of cron, such as Europe/Berlin")),
  missed: orNone({
    ...text("WHAT", "skip, once, or how many missed ticks fire at most"),
    read: (given) => (digits.test(given) ? { all: Number(given) } : given),
  }),
  overlap: orNone(text("WHAT", "allow, skip, queue-one or cancel-previous")),
  jitter: orNone(duration("how much later than its tick a firing may come")),
  limit: orNone({
    ...text("N", "how many firings there are in all; none for any number"),
    read: (given) => (digits.test(given) ? Number(given) : given),
  }),
};
const inputOption = json("the input of its jobs");
const addOptions = {
  ...ruleOptions,
  job: text("NAME", "the job that each tick makes"),
  queue: text("NAME", "the queue of the job"),
  input: inputOption,
};
const backfillOptions = {
  from: instant("the beginning of the range"),
  to: instant("the end of the range, which is not part of it"),
  "at-once": whole("N", "how many of its jobs may be alive at once; 10 by default", 1, 500),
};

const stored = storedByName<ScheduleView>("schedule", (mill) => mill.schedules);

export const schedules = settingCommand<ShownSchedule>({
  name: "schedules",
  word: "NAME",
  summary: "the schedules and when they fire; change one, run it by hand, or fire ticks of the past",
  examples: [
    "schedules",
    "schedules show nightly --json",
    'schedules edit nightly --cron "0 4 * * *" --zone Europe/Berlin',
    "schedules run nightly",
    `schedules add nightly --job report --input '{"kind":"day"}' --cron "0 3 * * *"`,
    "schedules backfill nightly --from 2026-11-01T00:00Z --to 2026-11-08T00:00Z --at-once 4",
  ],
  verbs: {
    show: plainVerb(show),
    pause: plainVerb((mill, name) => mill.schedules.pause(name)),
    resume: plainVerb((mill, name) => mill.schedules.resume(name)),
    run: plainVerb(async (mill, name) => {
      await mill.schedules.runNow(name);
      return stored.get(mill, name);
    }),
    add: verb(addOptions, ({ job: jobName, queue, input, ...rule }) => {
      if (jobName === undefined) throw wrong("schedules add needs --job, the name of the job that it makes");
      const made = job<unknown>(jobName, queue === undefined ? {} : { queue });
      return (mill, name) => mill.schedule(name, made, input ?? {}, rule as ScheduleOptions);
    }),
    edit: verb(
      { ...ruleOptions, input: inputOption },
      (edits) => (mill, name) =>
        mill.schedules.edit(name, edits as Parameters<typeof mill.schedules.edit>[1]),
    ),
    reset: plainVerb((mill, name) => mill.schedules.reset(name)),
    backfill: verb(backfillOptions, ({ from, to, "at-once": atOnce }) => {
      if (from === undefined || to === undefined) throw wrong("schedules backfill needs --from and --to");
      const range = { from, to, ...(atOnce === undefined ? {} : { atOnce }) };
      return async (mill, name) => {
        await mill.schedules.backfill(name, range);
        return show(mill, name);
      };
    }),
    delete: plainVerb(stored.delete),
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
  cells: ({ name, status, problem, rule, next, fired, skipped, job, flow, edited, upcoming, backfill }) => [
    name,
    status,
    rule === null ? "" : whenText(rule),
    next === null ? "never" : formatInstant(next),
    String(fired),
    String(skipped),
    job?.name ?? (flow === null ? "" : `${flow.name} (flow)`),
    [
      ...(problem === null ? [] : [problem]),
      ...(edited.length === 0 ? [] : ["edited"]),
      ...(upcoming === undefined ? [] : [`then ${upcoming.map(formatInstant).join(", ") || "never"}`]),
      ...(backfill === undefined || backfill === null ? [] : [backfillText(backfill)]),
    ].join("; "),
  ],
});

async function show(mill: Millrace, name: string): Promise<ShownSchedule> {
  const view = await stored.get(mill, name);
  if (view.status === "unreadable") return view;
  const upcoming = await mill.schedules.next(name, upcomingShown);
  return { ...view, upcoming, backfill: await mill.schedules.backfillProgress(name) };
}

function whenText({ cron, every, calendar, zone }: NonNullable<ScheduleView["rule"]>): string {
  if (every !== null) return `every ${every / 1000} s`;
  const rule = cron ?? (calendar === null ? "" : `at ${calendar.at.join(", ")} by calendar`);
  return `${rule} ${zone ?? "UTC"}`;
}

function backfillText({ fired, total, running, done }: BackfillProgress): string {
  return done ? `backfill done: ${total}` : `backfill ${fired} of ${total}, ${running} alive`;
}
