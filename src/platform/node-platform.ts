/** The real world on Node.js. */
import { getRandomValues } from "node:crypto";
import { readFileSync } from "node:fs";
import { hostname } from "node:os";
import type { Platform, Timer } from "./platform.ts";

/** Node fires longer timers at once; the caller looks again when a capped one rings. */
const timerMaxMs = 2 ** 31 - 1;

export const nodePlatform: Platform = {
  now: () => Date.now(),
  monotonicUs: () => Math.floor(performance.now() * 1000),
  setTimer(delayMs, run, keepsAlive = true): Timer {
    const timer = setTimeout(run, Math.min(Math.max(delayMs, 0), timerMaxMs));
    if (!keepsAlive) timer.unref();
    return { cancel: () => clearTimeout(timer) };
  },
  defer: (run) => void setImmediate(run),
  random: () => Math.random(),
  randomBytes: (count) => getRandomValues(new Uint8Array(count)),
  bootId: readBootId,
  onTermination,
  processId: process.pid,
  hostName: hostname(),
};

function onTermination(run: () => void): () => void {
  const remove = (): void => {
    process.off("SIGTERM", once);
    process.off("SIGINT", once);
  };
  const once = (): void => {
    remove();
    run();
  };
  process.on("SIGTERM", once);
  process.on("SIGINT", once);
  return remove;
}

function readBootId(): string | null {
  try {
    return readFileSync("/proc/sys/kernel/random/boot_id", "utf8").trim();
  } catch {
    return null;
  }
}
