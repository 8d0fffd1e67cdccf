/**
 * Whether another process of this machine still runs. Its number alone does not show it: numbers are used again, and in
 * containers nearly every process has the number 1. A key names a process for good: the machine's boot, the space of
 * process numbers (one for each container), the number, and when the process began.
 */
import { readFileSync, readlinkSync } from "node:fs";

interface Stat {
  /** It has ended, and its parent has not asked for it yet. */
  readonly isEnded: boolean;
  /** In clock ticks since the machine's boot. */
  readonly beganAt: string;
}

export function readBootId(): string | null {
  return readText("/proc/sys/kernel/random/boot_id")?.trim() ?? null;
}

/** Null if the system does not show it: only Linux does. */
export function processKey(): string | null {
  const space = spaceKey();
  const stat = readStat("self");
  return space === null || stat === null ? null : `${space} ${process.pid} ${stat.beganAt}`;
}

/** Null: it belongs to another machine or container, or was taken before a reboot, so it cannot be known here. */
export function isProcessRunning(key: string): boolean | null {
  const space = spaceKey();
  const [boot, numbers, id, beganAt] = key.split(" ");
  if (space === null || `${boot} ${numbers}` !== space) return null;
  const stat = readStat(id as string);
  if (stat !== null) return !stat.isEnded && stat.beganAt === beganAt;
  try {
    process.kill(Number(id), 0);
    return true;
  } catch (error) {
    // It is there and belongs to somebody else, and the system hides it (hidepid).
    return (error as NodeJS.ErrnoException).code === "EPERM";
  }
}

function spaceKey(): string | null {
  const boot = readBootId();
  try {
    return boot === null ? null : `${boot} ${readlinkSync("/proc/self/ns/pid")}`;
  } catch {
    return null;
  }
}

function readStat(id: string): Stat | null {
  const text = readText(`/proc/${id}/stat`);
  if (text === null) return null;
  // The name of the program comes second, in brackets, and may hold blanks and brackets.
  const fields = text.slice(text.lastIndexOf(")") + 2).split(" ");
  return { isEnded: fields[0] === "Z" || fields[0] === "X", beganAt: fields[19] as string };
}

function readText(path: string): string | null {
  try {
    return readFileSync(path, "utf8");
  } catch {
    return null;
  }
}
