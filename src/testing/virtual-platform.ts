/**
 * A platform on virtual time. Clock and timers are virtual, randomness comes from a seed, identity is fixed; so
 * whatever runs on it repeats exactly.
 */
import { compressAtOnce, nodePlatform } from "../platform/node-platform.ts";
import type { Platform } from "../platform/platform.ts";
import { createSeededRandom } from "./seeded-random.ts";
import type { SeededRandom } from "./seeded-random.ts";
import { VirtualTime } from "./virtual-time.ts";

export interface VirtualPlatformOptions {
  readonly time?: VirtualTime;
  readonly random?: SeededRandom;
  readonly processId?: number;
  /**
   * When turns of the event loop end. "virtual": they are events like timers, so nothing moves unless the test moves
   * time. "real": they follow by themselves, so that an await on the engine ends while the clock stands still.
   */
  readonly turns?: "virtual" | "real";
  /** Variables of the environment. */
  readonly env?: Readonly<Record<string, string>>;
}

export interface VirtualPlatform extends Platform {
  readonly time: VirtualTime;
}

/**
 * As on Node.js: no timer rings in the same millisecond. It also keeps a loop of timers without delay from stopping
 * time.
 */
const timerMinUs = 1000;

export function createVirtualPlatform(options: VirtualPlatformOptions = {}): VirtualPlatform {
  const { time = new VirtualTime(), random = createSeededRandom("millrace"), turns = "virtual" } = options;
  return {
    time,
    now: () => time.now,
    monotonicUs: () => time.elapsedUs,
    setTimer: (delayMs, run) => time.after(Math.max(delayMs * 1000, timerMinUs), run),
    defer: (run) => void (turns === "real" ? nodePlatform.defer(run) : time.after(0, run)),
    random: () => random.next(),
    randomBytes: (count) => random.bytes(count),
    compress: compressAtOnce,
    bootId: () => "virtual-boot",
    onTermination: () => () => undefined,
    readEnv: (name) => options.env?.[name],
    // Nothing here leads out of the test.
    resolveHost: () => Promise.resolve([]),
    memoryBytes: () => 0,
    processKey: () => null,
    isProcessRunning: () => null,
    temporaryFolder: nodePlatform.temporaryFolder,
    processId: options.processId ?? 1,
    hostName: "virtual",
  };
}
