/**
 * Platforms of several processes under one virtual clock. A process that has a key is of this machine, and the test
 * says whether it runs.
 */
import type { Platform } from "../../../src/platform/platform.ts";
import { createSeededRandom } from "../../../src/testing/seeded-random.ts";
import { createVirtualPlatform } from "../../../src/testing/virtual-platform.ts";
import { settleTurn } from "../../../src/testing/virtual-time.ts";
import type { VirtualTime } from "../../../src/testing/virtual-time.ts";

export interface VirtualProcess extends Platform {
  /** By how much its wall clock is wrong. */
  skewMs: number;
}

/** @param running by the key of a process, whether it runs. */
export function virtualProcess(
  time: VirtualTime,
  processId: number,
  { key = null, running = new Map() }: { key?: string | null; running?: ReadonlyMap<string, boolean> } = {},
): VirtualProcess {
  const random = createSeededRandom(`process ${processId}`);
  const platform = createVirtualPlatform({ time, random, processId });
  return {
    ...platform,
    skewMs: 0,
    now() {
      return time.now + this.skewMs;
    },
    processKey: () => key,
    isProcessRunning: (asked) => running.get(asked) ?? null,
  };
}

/** Whatever takes so many hangs. */
const stepsMax = 100_000;

/** Lets time pass until the promise has settled, and hands it on. */
export function passUntil<Answer>(time: VirtualTime, promise: Promise<Answer>): Promise<Answer> {
  return whileOpen(promise, () => time.step());
}

/** The same while the clock stands still: for what waits for another thread. */
export function waitUntil<Answer>(time: VirtualTime, promise: Promise<Answer>): Promise<Answer> {
  return whileOpen(promise, () => time.advance(0));
}

async function whileOpen<Answer>(promise: Promise<Answer>, step: () => Promise<unknown>): Promise<Answer> {
  let isOpen = true;
  const settled = (): void => void (isOpen = false);
  promise.then(settled, settled);
  await settleTurn();
  for (let steps = 0; isOpen; steps++) {
    if (steps > stepsMax) throw new Error(`the promise did not settle within ${stepsMax} steps`);
    // Without a flush what comes from another thread would never arrive.
    if ((await step()) !== true) await settleTurn();
  }
  return promise;
}
