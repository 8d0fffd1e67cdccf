/** `millrace/testing`: what people need to test code that enqueues jobs, and the handlers that run them. */
import { MillraceError } from "../model/error.ts";
import { openStore } from "../open.ts";
import { Drain } from "./drain.ts";
import { rememberJobs } from "./remembering-store.ts";
import { createSeededRandom } from "./seeded-random.ts";
import { TestMillrace } from "./test-millrace.ts";
import { openTestMill, readTestOptions } from "./test-options.ts";
import type { TestMillraceOptions } from "./test-options.ts";
import { createVirtualPlatform } from "./virtual-platform.ts";
import { VirtualTime } from "./virtual-time.ts";

export async function testMillrace(options: TestMillraceOptions = {}): Promise<TestMillrace> {
  if (typeof options !== "object" || options === null)
    throw new MillraceError("invalid-option", "testMillrace: the options must be an object.");
  const { handlers = [], mode = "manual", ...others } = options;
  if (mode !== "manual" && mode !== "inline")
    throw new MillraceError("invalid-option", 'testMillrace: mode must be "manual" or "inline".');
  const { worker, startAt, seed, drainTimeoutMs, rest } = readTestOptions("testMillrace", others);
  const time = new VirtualTime({ startAt });
  const platform = createVirtualPlatform({ time, turns: "real", random: createSeededRandom(seed) });
  const { store, memory } = rememberJobs(await openStore(platform, "sqlite::memory:"));
  const { mill, services } = await openTestMill(platform, store, rest, true);
  const drain = new Drain({ mill, memory, time, handlers, worker, timeoutMs: drainTimeoutMs });
  return new TestMillrace({ mill, services, memory, time, handlers, drain, isInline: mode === "inline" });
}

export { simulate } from "./simulate.ts";
export type { SimulateOptions, SimulateReport } from "./simulate.ts";
export type { TestMillraceOptions } from "./test-options.ts";
export { TestMillrace } from "./test-millrace.ts";
export type { TestClock, TestedJob } from "./test-millrace.ts";
export type { DrainReport } from "./drain.ts";
export { createVirtualPlatform } from "./virtual-platform.ts";
export type { VirtualPlatform, VirtualPlatformOptions } from "./virtual-platform.ts";
export { VirtualTime } from "./virtual-time.ts";
export type { VirtualTimeOptions } from "./virtual-time.ts";
export { createSeededRandom } from "./seeded-random.ts";
export type { SeededRandom } from "./seeded-random.ts";
