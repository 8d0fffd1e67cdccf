/** The options of a Millrace under test, and how it is opened over a store that the test holds. */
import { Millrace } from "../client/millrace.ts";
import { readMillraceOptions } from "../client/millrace-options.ts";
import type { MillraceOptions } from "../client/millrace-options.ts";
import type { DutyName } from "../engine/duties/duty-tuning.ts";
import { createServices } from "../engine/services.ts";
import type { Services } from "../engine/services.ts";
import { durationMs } from "../model/duration.ts";
import type { Duration } from "../model/duration.ts";
import { MillraceError } from "../model/error.ts";
import type { Platform } from "../platform/platform.ts";
import type { Store } from "../store/store.ts";
import type { Handler } from "../worker/handler.ts";
import type { WorkerOptions } from "../worker/worker-settings.ts";
import { defaultStartAt } from "./virtual-time.ts";

export interface TestMillraceOptions extends Omit<MillraceOptions, "durability" | "sqlite" | "duties"> {
  /** The handlers that a drain runs. Without any, a test can still check what was enqueued. */
  handlers?: readonly Handler[];
  /** "inline": enqueue and enqueueMany of the test object run the jobs they made before they return. */
  mode?: "manual" | "inline";
  /** How the worker of a drain is set up. */
  worker?: WorkerOptions;
  /** The time at which the clock starts; the beginning of 2026 by default. */
  startAt?: Date | number;
  /** The seed of ids and jitter; fixed by default, so that a test repeats. */
  seed?: string | number;
  /** How long drain waits, in real time, for handlers that do not end; 5 s by default. */
  drainTimeout?: Duration;
}

export interface TestSettings {
  readonly worker: WorkerOptions;
  readonly startAt: number;
  readonly seed: string | number;
  readonly drainTimeoutMs: number;
  /** The options of `Millrace.open`. */
  readonly rest: MillraceOptions;
}

/** @param call the function that was called with the options, for error messages. */
export function readTestOptions(
  call: string,
  options: Omit<TestMillraceOptions, "handlers" | "mode">,
): TestSettings {
  const { worker = {}, startAt, seed, drainTimeout = 5000, ...rest } = options;
  for (const key of ["durability", "sqlite", "duties"])
    if (key in rest) throw new MillraceError("invalid-option", `${call}: ${key} cannot be chosen in a test.`);
  return {
    ...{ worker, rest },
    startAt: Number(startAt ?? defaultStartAt),
    seed: seed ?? "millrace",
    drainTimeoutMs: durationMs(drainTimeout, `${call}: drainTimeout`),
  };
}

/**
 * Duties sleep so long that only a clock of a job wakes them: polls would cost a test that advances by a year a million
 * wake-ups.
 */
const dutySleep = "3650d";
const upkeepSleep = "1d";

const testDuties = {
  promote: { sleep: dutySleep },
  reclaim: { sleep: dutySleep },
  "attempt-timeout": { sleep: dutySleep },
  deadline: { sleep: dutySleep },
  "time-to-live": { sleep: dutySleep },
  "suspension-timeout": { sleep: dutySleep },
  "due-documents": { sleep: dutySleep },
  // Nothing leads out of a test.
  webhooks: false,
  // A test's worker lives only while it drains, so a job without a handler says nothing about the application.
  "no-handler": false,
  "budget-reset": false,
  retention: { sleep: upkeepSleep },
  metrics: true,
  "index-audit": false,
} as const satisfies Record<DutyName, unknown>;

export interface TestMill {
  readonly mill: Millrace;
  readonly services: Services;
}

/** @param hasDuties whether this Millrace does the work of the duties. */
export async function openTestMill(
  platform: Platform,
  store: Store,
  options: MillraceOptions,
  hasDuties: boolean,
): Promise<TestMill> {
  const duties = hasDuties ? testDuties : false;
  const read = readMillraceOptions(platform, { log: false, ...options, duties });
  const services = createServices(store, platform, read.settings, read.log);
  await services.retention.learn();
  // A heartbeat every second would cost a test that advances by weeks a million writes.
  services.leadership.isAlone = true;
  const mill = new Millrace(services, read.duties);
  if (hasDuties) mill.duties.start();
  return { mill, services };
}
