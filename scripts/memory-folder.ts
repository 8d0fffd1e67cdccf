/**
 * A folder in memory for what a test run writes. The tests start thousands of stores, each of which waits for the disk
 * with every commit; in memory a run takes a fifth less processor time and waits for nothing. Linux has such a folder;
 * elsewhere, and if it is too small, the system's own temporary folder serves.
 */
import {
  accessSync,
  chmodSync,
  constants,
  existsSync,
  mkdirSync,
  readFileSync,
  readdirSync,
  readlinkSync,
  rmSync,
  statfsSync,
} from "node:fs";
import { join } from "node:path";

/** Several times what a whole run has at once. */
const bytesMin = 6 * 2 ** 30;

export interface Memory {
  readonly base: string;
  /** As Linux has it in /proc/mounts. */
  readonly mounts: string;
  /** In which process numbers count: containers may share the folder, and have numbers of their own. */
  readonly namespace: string;
  readonly freeBytes: number;
}

/** @returns the folder, and its removal; null if the run has none: also if the user has named a TMPDIR. */
export function makeMemoryFolder(memory = thisMemory()): { readonly path: string; remove(): void } | null {
  if (memory === null || memory.freeBytes < bytesMin || isNoExec(memory)) return null;
  const { base } = memory;
  try {
    accessSync(base, constants.W_OK);
  } catch {
    return null;
  }
  const prefix = `millrace-tests-${memory.namespace}-`;
  for (const name of readdirSync(base))
    if (name.startsWith(prefix) && !isRunning(Number(name.slice(prefix.length)))) remove(join(base, name));
  const path = join(base, `${prefix}${process.pid}`);
  mkdirSync(path, { recursive: true });
  // Servers that refuse to run as root run as a user of their own.
  chmodSync(path, 0o755);
  return { path, remove: () => remove(path) };
}

function thisMemory(): Memory | null {
  const base = "/dev/shm";
  if (process.platform !== "linux" || process.env["TMPDIR"] !== undefined || !existsSync(base)) return null;
  const { bavail, bsize } = statfsSync(base);
  return {
    base,
    mounts: readFileSync("/proc/mounts", "utf8"),
    namespace: readlinkSync("/proc/self/ns/pid").replace(/\D/g, ""),
    freeBytes: Math.min(bavail * bsize, process.availableMemory()),
  };
}

/** Tests start programs that they have written. */
function isNoExec({ base, mounts }: Memory): boolean {
  const mount = mounts.split("\n").findLast((line) => line.split(" ")[1] === base);
  return mount?.split(" ")[3]?.split(",").includes("noexec") ?? false;
}

function isRunning(pid: number): boolean {
  try {
    process.kill(pid, 0);
    return true;
  } catch (error) {
    return (error as NodeJS.ErrnoException).code !== "ESRCH";
  }
}

/** A folder of another user stays, and so may what a server writes while it is ended. */
function remove(path: string): void {
  try {
    rmSync(path, { recursive: true, force: true, maxRetries: 20, retryDelay: 100 });
  } catch {
    // The next run removes it.
  }
}
