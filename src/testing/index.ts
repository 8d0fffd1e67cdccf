/** `millrace/testing`: what people need to test code that enqueues jobs, and the handlers that run them. */
import { Millrace } from "../client/millrace.ts";
import { readMillraceOptions } from "../client/millrace-options.ts";
import type { MillraceOptions } from "../client/millrace-options.ts";
import type { DutyName } from "../engine/duties/duty-tuning.ts";
import { createServices } from "../engine/services.ts";
import { durationMs } from "../model/duration.ts";
import type { Duration } from "../model/duration.ts";
import { MillraceError } from "../model/error.ts";
import { openStore } from "../open.ts";
import type { Handler } from "../worker/handler.ts";
import type { WorkerOptions } from "../worker/worker-settings.ts";
import { Drain } from "./drain.ts";
import { rememberJobs } from "./remembering-store.ts";
import { createSeededRandom } from "./seeded-random.ts";
import { TestMillrace } from "./test-millrace.ts";
import { createVirtualPlatform } from "./virtual-platform.ts";
import { defaultStartAt, VirtualTime } from "./virtual-time.ts";

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

/**
 * Duties sleep so long that only a clock of a job wakes them: polls would cost a test that advances by a year a million
 * wake-ups.
 */
const dutySleep = "3650d";
const upkeepSleep = "1d";

export async function testMillrace(options: TestMillraceOptions = {}): Promise<TestMillrace> {
  if (typeof options !== "object" || options === null)
    throw new MillraceError("invalid-option", "testMillrace: the options must be an object.");
  const {
    handlers = [],
    mode = "manual",
    worker = {},
    startAt,
    seed,
    drainTimeout = 5000,
    ...rest
  } = options;
  for (const key of ["durability", "sqlite", "duties"])
    if (key in rest)
      throw new MillraceError("invalid-option", `testMillrace: ${key} cannot be chosen in a test.`);
  if (mode !== "manual" && mode !== "inline")
    throw new MillraceError("invalid-option", 'testMillrace: mode must be "manual" or "inline".');
  const time = new VirtualTime({ startAt: Number(startAt ?? defaultStartAt) });
  const platform = createVirtualPlatform({
    time,
    turns: "real",
    random: createSeededRandom(seed ?? "millrace"),
  });
  const read = readMillraceOptions(platform, {
    log: false,
    ...rest,
    duties: {
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
      retention: { sleep: upkeepSleep },
      metrics: true,
      "index-audit": false,
    } satisfies Record<DutyName, unknown>,
  });
  const { store, memory } = rememberJobs(await openStore(platform, "sqlite::memory:"));
  const services = createServices(store, platform, read.settings, read.log);
  await services.retention.learn();
  // A heartbeat every second would cost a test that advances by weeks a million writes.
  services.leadership.isAlone = true;
  const mill = new Millrace(services, read.duties);
  mill.startDuties();
  const drain = new Drain({
    mill,
    memory,
    time,
    handlers,
    worker,
    timeoutMs: durationMs(drainTimeout, "testMillrace: drainTimeout"),
  });
  return new TestMillrace({ mill, services, memory, time, handlers, drain, isInline: mode === "inline" });
}

export { TestMillrace } from "./test-millrace.ts";
export type { TestClock, TestedJob } from "./test-millrace.ts";
export type { DrainReport } from "./drain.ts";
export { createVirtualPlatform } from "./virtual-platform.ts";
export type { VirtualPlatform, VirtualPlatformOptions } from "./virtual-platform.ts";
export { VirtualTime } from "./virtual-time.ts";
export type { VirtualTimeOptions } from "./virtual-time.ts";
export { createSeededRandom } from "./seeded-random.ts";
export type { SeededRandom } from "./seeded-random.ts";
