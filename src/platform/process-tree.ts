/**
 * Ends a process with all that it has started, and measures the memory of all of them.
 *
 *   what a descendant did                    how it is found
 *   nothing special                          it is in the process group of the child, which leads one of its own
 *   left the group (setsid, a daemon)        by its mark: a variable of the environment that it inherited (Linux)
 *   and cleared its environment              by its line of parents, as long as that is whole (Linux)
 *   nothing special, on Windows              taskkill follows the line of parents
 *
 * The search for descendants is repeated until none is found, because a process may fork during the search. Only
 * one that leaves the group, clears its environment and whose parents have ended escapes.
 */
import { execFile } from "node:child_process";
import { readdir, readFile } from "node:fs/promises";

/** Every mark starts with this; a child of a child carries both. */
export const markPrefix = "MILLRACE_SANDBOX_";

const isLinux = process.platform === "linux";
const isWindows = process.platform === "win32";
const roundsMax = 20;
const pauseMs = 10;
const { setTimeout } = globalThis;

interface Found {
  readonly pid: number;
  readonly parent: number;
  readonly group: number;
  readonly isZombie: boolean;
  readonly isMarked: boolean;
}

/** Asks the whole group to end. Synchronous, so that it can be the last act of a process too. */
export function signalGroup(pid: number, signal: "SIGTERM" | "SIGKILL"): void {
  try {
    if (isWindows) process.kill(pid, signal);
    else process.kill(-pid, signal);
  } catch {
    // It has ended.
  }
}

/** @param root the leader of its own group; null for a thread, whose children are found by their mark alone. */
export async function endTree(root: number | null, mark: string): Promise<void> {
  if (isWindows) return root === null ? undefined : endTreeOnWindows(root);
  for (let round = 0; round < roundsMax; round++) {
    // Searched before the kill: afterwards the chain of parents is broken.
    const found = isLinux ? await findTree(root, mark) : [];
    if (root !== null) signalGroup(root, "SIGKILL");
    for (const pid of found) killOne(pid);
    if (found.length === 0) return;
    await new Promise((resolve) => void setTimeout(resolve, pauseMs));
  }
}

function killOne(pid: number): void {
  try {
    process.kill(pid, "SIGKILL");
  } catch {
    // It has ended, or it is another user's.
  }
}

function endTreeOnWindows(root: number): Promise<void> {
  return new Promise((resolve) => {
    execFile("taskkill", ["/PID", String(root), "/T", "/F"], { windowsHide: true }, () => resolve());
  });
}

async function findTree(root: number | null, mark: string): Promise<readonly number[]> {
  const names = await readdir("/proc").catch(() => []);
  const pids = names.filter((name) => /^\d+$/.test(name)).map(Number);
  const all = (await Promise.all(pids.map((pid) => look(pid, mark)))).filter((each) => each !== null);
  const inTree = new Set<number>(root === null ? [] : [root]);
  for (const { pid, group, isMarked } of all)
    if (isMarked || (root !== null && group === root)) inTree.add(pid);
  // Parents may be listed after their children, so the list is read again until nothing is added.
  for (let size = -1; size !== inTree.size;) {
    size = inTree.size;
    for (const { pid, parent } of all) if (inTree.has(parent)) inTree.add(pid);
  }
  return all
    .filter(({ pid, isZombie }) => inTree.has(pid) && !isZombie && pid !== process.pid)
    .map(({ pid }) => pid);
}

async function look(pid: number, mark: string): Promise<Found | null> {
  try {
    const stat = await readFile(`/proc/${pid}/stat`, "latin1");
    // The name of the program stands in parentheses and may hold any character.
    const [state = "", parent, group] = stat.slice(stat.lastIndexOf(")") + 2).split(" ");
    // Another user's environment cannot be read, and such a process cannot be ended either.
    const environment = await readFile(`/proc/${pid}/environ`, "latin1").catch(() => "");
    return {
      pid,
      parent: Number(parent),
      group: Number(group),
      isZombie: state === "Z" || state === "X",
      isMarked: environment.includes(`${mark}=`),
    };
  } catch {
    return null;
  }
}

/** What the process and its descendants have in memory; null if this system does not show it. */
export async function treeMemoryBytes(root: number): Promise<number | null> {
  if (!isLinux) return null;
  let bytes = 0;
  const left = [root];
  const seen = new Set<number>();
  for (let pid = left.pop(); pid !== undefined; pid = left.pop()) {
    if (seen.has(pid)) continue;
    seen.add(pid);
    const status = await readFile(`/proc/${pid}/status`, "latin1").catch(() => "");
    bytes += Number(/^VmRSS:\s+(\d+) kB$/m.exec(status)?.[1] ?? 0) * 1024;
    left.push(...(await childrenOf(pid)));
  }
  return bytes;
}

/** None if the kernel was built without this list: then only the process itself is measured. */
async function childrenOf(pid: number): Promise<readonly number[]> {
  const threads = await readdir(`/proc/${pid}/task`).catch(() => []);
  const lists = await Promise.all(
    threads.map((thread) => readFile(`/proc/${pid}/task/${thread}/children`, "latin1").catch(() => "")),
  );
  return lists.flatMap((list) => list.split(" ").filter(Boolean).map(Number));
}
