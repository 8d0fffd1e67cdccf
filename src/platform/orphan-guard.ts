/**
 * Ends the children of this process when it dies, whatever the cause. A child that waits for messages sees the end of
 * its line by itself; one that computes without a pause does not, and would run for ever. So each process starts one
 * small shell and sends it the process group and the mark of every child. The shell outlives this process by a moment:
 * when its input ends, it kills the groups that are left, and on Linux all processes that carry a mark that is left
 * (process-tree.ts). So a process that left the group of its child is ended too. On Windows there is no such shell.
 */
import { spawn } from "node:child_process";
import type { Socket } from "node:net";
import type { Writable } from "node:stream";

/**
 * An entry is `group:mark`; the group of a thread is 0. The marks are searched again until none is found, because a
 * process may fork during the search; the number of rounds is bounded. A zombie has no environment, so it is not found.
 */
const script = `
entries=""
while read -r sign entry; do
  if [ "$sign" = "+" ]; then entries="$entries $entry"; continue; fi
  left=""
  for each in $entries; do [ "$each" = "$entry" ] || left="$left $each"; done
  entries="$left"
done
marks=""
for each in $entries; do
  group="\${each%%:*}"
  [ "$group" = 0 ] || kill -9 "-$group" 2>/dev/null
  marks="$marks -e \${each#*:}="
done
[ -n "$marks" ] && [ -r /proc/self/environ ] || exit 0
for round in 1 2 3 4 5 6 7 8 9 10; do
  found="$(grep -l $marks /proc/[0-9]*/environ 2>/dev/null)"
  [ -n "$found" ] || exit 0
  for each in $found; do each="\${each#/proc/}"; kill -9 "\${each%/environ}" 2>/dev/null; done
done
`;

let guardInput: Writable | null = null;

/** @param group null for a thread, which is in the group of this process: what it has started is found by its mark. */
export function guardChild(group: number | null, mark: string): void {
  send("+", group, mark);
}

export function unguardChild(group: number | null, mark: string): void {
  send("-", group, mark);
}

function send(sign: "+" | "-", group: number | null, mark: string): void {
  if (process.platform === "win32") return;
  guardInput ??= startGuard();
  if (guardInput.writable) guardInput.write(`${sign} ${group ?? 0}:${mark}\n`);
}

function startGuard(): Writable {
  // In a group of its own: what is sent to the group of this process, such as Ctrl+C, must not end it first.
  const guard = spawn("/bin/sh", ["-c", script], { detached: true, stdio: ["pipe", "ignore", "ignore"] });
  const { stdin } = guard;
  // Without a guard children are ended all the same, unless this process is killed.
  for (const each of [guard, stdin]) each.on("error", () => {});
  guard.unref();
  (stdin as Socket).unref();
  return stdin;
}
