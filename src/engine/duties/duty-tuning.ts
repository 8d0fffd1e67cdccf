/**
 * Settings of the duties: whether each is on, its batch size, and its longest sleep. The options of the process come
 * first, then the variable MILLRACE_DUTIES, then the defaults.
 */
import { durationMs, durationText } from "../../model/duration.ts";
import type { Duration } from "../../model/duration.ts";
import { MillraceError } from "../../model/error.ts";
import { checkOptions, checkWhole, invalidOption } from "../../model/option.ts";

interface OneDutyOptions {
  batch?: number;
  sleep?: Duration;
}

export type DutyOptions = boolean | Readonly<Partial<Record<DutyName, boolean | OneDutyOptions>>>;

export interface Tuning {
  readonly isOn: boolean;
  readonly batchMax: number;
  readonly sleepMaxMs: number;
}

interface KnownDuty extends Tuning {
  /** Whether only the leader does it (engine/fleet/leadership.ts). */
  readonly isOncePerStore: boolean;
}

/**
 * The alarm wakes these duties (supervisor.ts), so their own sleep is only a last resort. At a sleep of one minute,
 * six such duties would call the store every ten seconds.
 */
const alarmSleepMs = 300_000;

/**
 * Every duty, in the order of a job's life, with its default tuning. Duties that are not once per store run in every
 * process, because each of their steps is guarded.
 */
const defaults = {
  // The leader promotes; other processes do it only if the leader does not answer. Heartbeats report due clocks
  // earlier. This sleep bounds how late the lease of a dead process is noticed without them: within 2 s of its end. The
  // batch bounds how long a flood of one queue occupies the store: docs/decisions/0006.
  promote: { isOn: true, batchMax: 250, sleepMaxMs: 1500, isOncePerStore: true },
  reclaim: { isOn: true, batchMax: 500, sleepMaxMs: alarmSleepMs, isOncePerStore: false },
  "attempt-timeout": { isOn: true, batchMax: 500, sleepMaxMs: alarmSleepMs, isOncePerStore: false },
  deadline: { isOn: true, batchMax: 500, sleepMaxMs: alarmSleepMs, isOncePerStore: false },
  "time-to-live": { isOn: true, batchMax: 500, sleepMaxMs: alarmSleepMs, isOncePerStore: false },
  "suspension-timeout": { isOn: true, batchMax: 500, sleepMaxMs: alarmSleepMs, isOncePerStore: false },
  "due-documents": { isOn: true, batchMax: 1000, sleepMaxMs: alarmSleepMs, isOncePerStore: false },
  // Woken by the change number of webhooks.
  webhooks: { isOn: true, batchMax: 200, sleepMaxMs: 60_000, isOncePerStore: true },
  "no-handler": { isOn: true, batchMax: 500, sleepMaxMs: 60_000, isOncePerStore: false },
  // Its sleep bounds for how long a dead process keeps what it had reserved, after the end of its lease.
  "budget-reset": { isOn: true, batchMax: 500, sleepMaxMs: 30_000, isOncePerStore: true },
  retention: { isOn: true, batchMax: 500, sleepMaxMs: 60_000, isOncePerStore: true },
  metrics: { isOn: true, batchMax: 1000, sleepMaxMs: 60_000, isOncePerStore: true },
  "index-audit": { isOn: true, batchMax: 500, sleepMaxMs: 600_000, isOncePerStore: true },
} as const satisfies Readonly<Record<string, KnownDuty>>;

export type DutyName = keyof typeof defaults;
export const dutyNames = Object.keys(defaults) as readonly DutyName[];
export const oncePerStore = dutyNames.filter((name) => defaults[name].isOncePerStore);

export type DutyTuning = Readonly<Record<DutyName, Tuning>>;

/** @param variable what the environment says, such as `webhooks=off, retention.sleep=5m, retention.batch=200`. */
export function readDutyOptions(options: DutyOptions | undefined, variable?: string): DutyTuning {
  const said = variable === undefined ? defaults : readVariable(variable);
  if (options === undefined || options === true) return said;
  if (options === false) return allOff as DutyTuning;
  const tuned: Record<string, Tuning> = { ...said };
  for (const [name, value] of Object.entries(checkOptions(options, "duties", dutyNames)))
    tuned[name] = readOne(said[name as DutyName], value, `duties.${name}`);
  return tuned as DutyTuning;
}

const allOff: Record<string, Tuning> = {};
for (const name of dutyNames) allOff[name] = { ...defaults[name], isOn: false };

function readVariable(variable: string): DutyTuning {
  if (variable === "off") return allOff as DutyTuning;
  const tuned: Record<string, Tuning> = { ...defaults };
  for (const part of variable.split(",").map((each) => each.trim())) {
    if (part === "") continue;
    const [, name = "", key, value = ""] = /^([a-z-]+)(?:\.([a-z]+))?=(.+)$/.exec(part) ?? [];
    checkOptions({ [name === "" ? part : name]: value }, "MILLRACE_DUTIES", dutyNames);
    const what = `MILLRACE_DUTIES: ${name}`;
    if (key === undefined && value !== "on" && value !== "off")
      throw invalidOption(
        `${what} must be on or off, or name what it sets: ${name}.batch=100, ${name}.sleep=5m.`,
      );
    const given = key === undefined ? value === "on" : { [key]: key === "batch" ? Number(value) : value };
    tuned[name] = readOne(tuned[name] as Tuning, given, what);
  }
  return tuned as DutyTuning;
}

/** What the log says at the start: each duty, and which are not as they come. */
export function shownTuning(tuning: DutyTuning): Readonly<Record<string, unknown>> {
  const shown = dutyNames.map((name) => {
    const { isOn, batchMax, sleepMaxMs } = tuning[name];
    return [name, isOn ? `${batchMax} per pass, asleep up to ${durationText(sleepMaxMs)}` : "off"] as const;
  });
  const isChanged = (name: DutyName): boolean =>
    (["isOn", "batchMax", "sleepMaxMs"] as const).some((key) => tuning[name][key] !== defaults[name][key]);
  return { changed: dutyNames.filter(isChanged), ...Object.fromEntries(shown) };
}

function readOne(before: Tuning, value: unknown, what: string): Tuning {
  if (value === undefined) return before;
  if (typeof value === "boolean") return { ...before, isOn: value };
  const { batch, sleep } = checkOptions(value, what, ["batch", "sleep"]);
  const sleepMaxMs = sleep === undefined ? before.sleepMaxMs : durationMs(sleep, `${what}.sleep`);
  if (sleepMaxMs < 10) throw new MillraceError("invalid-duration", `${what}.sleep must be at least 10 ms.`);
  const batchMax = batch === undefined ? before.batchMax : checkWhole(batch, `${what}.batch`, 1, 1000);
  return { ...before, isOn: true, batchMax, sleepMaxMs };
}
