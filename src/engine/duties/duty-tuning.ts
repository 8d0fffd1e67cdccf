/** Settings of the duties: whether each is on, its batch size, and its longest sleep. */
import { durationMs } from "../../model/duration.ts";
import type { Duration } from "../../model/duration.ts";
import { MillraceError } from "../../model/error.ts";
import { checkOptions, checkWhole } from "../../model/option.ts";

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
  retention: { isOn: true, batchMax: 500, sleepMaxMs: 60_000, isOncePerStore: true },
  metrics: { isOn: true, batchMax: 1000, sleepMaxMs: 60_000, isOncePerStore: true },
  "index-audit": { isOn: true, batchMax: 500, sleepMaxMs: 600_000, isOncePerStore: true },
} as const satisfies Readonly<Record<string, KnownDuty>>;

export type DutyName = keyof typeof defaults;
export const dutyNames = Object.keys(defaults) as readonly DutyName[];
export const oncePerStore = dutyNames.filter((name) => defaults[name].isOncePerStore);

export type DutyTuning = Readonly<Record<DutyName, Tuning>>;

export function readDutyOptions(options: DutyOptions | undefined): DutyTuning {
  if (options === undefined || options === true) return defaults;
  const tuned: Record<string, Tuning> = { ...defaults };
  if (options === false) {
    for (const name of dutyNames) tuned[name] = { ...defaults[name], isOn: false };
    return tuned as DutyTuning;
  }
  for (const [name, value] of Object.entries(checkOptions(options, "duties", dutyNames))) {
    tuned[name] = readOne(name as DutyName, value);
  }
  return tuned as DutyTuning;
}

function readOne(name: DutyName, value: unknown): Tuning {
  if (value === undefined || value === true) return defaults[name];
  if (value === false) return { ...defaults[name], isOn: false };
  const { batch, sleep } = checkOptions(value, `duties.${name}`, ["batch", "sleep"]);
  const sleepMaxMs =
    sleep === undefined ? defaults[name].sleepMaxMs : durationMs(sleep, `duties.${name}.sleep`);
  if (sleepMaxMs < 10)
    throw new MillraceError("invalid-duration", `duties.${name}.sleep must be at least 10 ms.`);
  return {
    isOn: true,
    batchMax:
      batch === undefined ? defaults[name].batchMax : checkWhole(batch, `duties.${name}.batch`, 1, 1000),
    sleepMaxMs,
  };
}
