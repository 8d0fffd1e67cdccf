// What a test asks about processes that its handlers have started.
import { existsSync, readFileSync } from "node:fs";

/** The number that a process has written into a file; 0 before that. */
export function pidIn(file: string): number {
  try {
    return Number(readFileSync(file, "utf8"));
  } catch {
    return 0;
  }
}

/** On Linux a zombie, which only waits to be collected, counts as ended. */
export function isAlive(pid: number): boolean {
  try {
    process.kill(pid, 0);
    return !existsSync("/proc/self") || !/^State:\s+Z/m.test(readFileSync(`/proc/${pid}/status`, "utf8"));
  } catch {
    return false;
  }
}
