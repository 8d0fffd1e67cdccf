/** The platform of a real process on Node.js. */
import { getRandomValues } from "node:crypto";
import { availableParallelism, hostname, tmpdir } from "node:os";
import * as zlib from "node:zlib";
import type { Platform, Timer } from "./platform.ts";
import { resolveHost } from "./guarded-post.ts";
import { isProcessRunning, processKey, readBootId } from "./process-key.ts";

/** Node fires longer timers at once, so a longer wait is made of several timers. */
const timerMaxMs = 2 ** 31 - 1;

/**
 * Taken once, when this file is loaded: a test runner that puts fake timers in the place of the global ones
 * (`vi.useFakeTimers()`) would otherwise stop every store and every drain.
 */
const { setTimeout, clearTimeout, setImmediate } = globalThis;
const readClock = Date.now;
const readMonotonicMs = performance.now.bind(performance);

export const nodePlatform: Platform = {
  now: () => readClock(),
  monotonicUs: () => Math.floor(readMonotonicMs() * 1000),
  setTimer(delayMs, run, keepsAlive = true): Timer {
    let timer: NodeJS.Timeout;
    const set = (leftMs: number): void => {
      const partMs = Math.min(Math.max(leftMs, 0), timerMaxMs);
      timer = setTimeout(() => (leftMs > partMs ? set(leftMs - partMs) : run()), partMs);
      if (!keepsAlive) timer.unref();
    };
    set(delayMs);
    return { cancel: () => clearTimeout(timer) };
  },
  defer: (run) => void setImmediate(run),
  random: () => Math.random(),
  randomBytes: (count) => getRandomValues(new Uint8Array(count)),
  compress,
  bootId: readBootId,
  onTermination,
  readEnv: (name) => process.env[name]?.trim() || undefined,
  resolveHost,
  memoryBytes: () => process.memoryUsage.rss(),
  processKey,
  isProcessRunning,
  temporaryFolder: tmpdir(),
  processId: process.pid,
  hostName: hostname(),
};

/** A trip to another thread takes longer than to compress so little. */
const smallBytes = 128 * 1024;

async function compress(body: Uint8Array, level: number): Promise<Uint8Array> {
  if (body.length <= smallBytes) return compressAtOnce(body, level);
  const options = { params: { [zlib.constants.ZSTD_c_compressionLevel]: level } };
  return new Promise((resolve, reject) =>
    zlib.zstdCompress(body, options, (error, bytes) => (error === null ? resolve(bytes) : reject(error))),
  );
}

/** The same bytes, always at once: for a platform on virtual time. */
export async function compressAtOnce(body: Uint8Array, level: number): Promise<Uint8Array> {
  return zlib.zstdCompressSync(body, { params: { [zlib.constants.ZSTD_c_compressionLevel]: level } });
}

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

export const cpuCount: number = availableParallelism();

/** Such as "22.18.0". */
export const nodeVersion: string = process.versions.node;
