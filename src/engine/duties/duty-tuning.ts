/** Settings of the duties: which are on, how large a batch is, and how long one may sleep at most. */
import { durationMs } from "../../model/duration.ts";
import type { Duration } from "../../model/duration.ts";
import { MillraceError } from "../../model/error.ts";
import { checkOptions, checkWhole } from "../../model/option.ts";

export const dutyNames = [
  "promote",
  "reclaim",
  "attempt-timeout",
  "deadline",
  "time-to-live",
  "due-documents",
  "webhooks",
  "no-handler",
  "retention",
  "metrics",
  "index-audit",
] as const;
export type DutyName = (typeof dutyNames)[number];

/**
 * The duties that the leader does (engine/fleet/leadership.ts). The others run in every process, because each of their
 * steps is guarded; promote is one of them only if the leader does not answer.
 */
export const oncePerStore = [
  "promote",
  "webhooks",
  "retention",
  "metrics",
  "index-audit",
] as const satisfies readonly DutyName[];

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

export type DutyTuning = Readonly<Record<DutyName, Tuning>>;

/**
 * The alarm wakes these (supervisor.ts): their own looks stand behind it, and five each minute were a call in twelve
 * seconds.
 */
const alarmSleepMs = 300_000;

const defaults: DutyTuning = {
  // Heartbeats tell the clocks earlier. This bounds how late a lease of a process that died is noticed without them: it
  // is reclaimed within 2 s of its end.
  // The batch bounds for how long a flood of one queue keeps the store from others: docs/decisions/0006.
  promote: { isOn: true, batchMax: 250, sleepMaxMs: 1500 },
  reclaim: { isOn: true, batchMax: 500, sleepMaxMs: alarmSleepMs },
  "attempt-timeout": { isOn: true, batchMax: 500, sleepMaxMs: alarmSleepMs },
  deadline: { isOn: true, batchMax: 500, sleepMaxMs: alarmSleepMs },
  "time-to-live": { isOn: true, batchMax: 500, sleepMaxMs: alarmSleepMs },
  "due-documents": { isOn: true, batchMax: 1000, sleepMaxMs: alarmSleepMs },
  // Woken by the change number of webhooks.
  webhooks: { isOn: true, batchMax: 200, sleepMaxMs: 60_000 },
  "no-handler": { isOn: true, batchMax: 500, sleepMaxMs: 60_000 },
  retention: { isOn: true, batchMax: 500, sleepMaxMs: 60_000 },
  metrics: { isOn: true, batchMax: 1000, sleepMaxMs: 60_000 },
  "index-audit": { isOn: true, batchMax: 500, sleepMaxMs: 600_000 },
};

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
