/**
 * Ends the children of this process when it dies, whatever the cause. A child that waits for messages sees the end of
 * its line by itself; one that computes without a pause does not, and would run for ever. So each process starts one
 * small shell and sends it the number of every process group. The shell outlives this process by a moment: when its
 * input ends, it kills the groups that are left. On Windows there is no such shell.
 */
import { spawn } from "node:child_process";
import type { Socket } from "node:net";
import type { Writable } from "node:stream";

const script = `
groups=""
while read -r sign group; do
  if [ "$sign" = "+" ]; then groups="$groups $group"; continue; fi
  left=""
  for each in $groups; do [ "$each" = "$group" ] || left="$left $each"; done
  groups="$left"
done
for each in $groups; do kill -9 "-$each" 2>/dev/null; done
`;

let guardInput: Writable | null = null;

export function guardGroup(group: number): void {
  send("+", group);
}

export function unguardGroup(group: number): void {
  send("-", group);
}

function send(sign: "+" | "-", group: number): void {
  if (process.platform === "win32") return;
  guardInput ??= startGuard();
  if (guardInput.writable) guardInput.write(`${sign} ${group}\n`);
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
