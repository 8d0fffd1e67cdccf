/**
 * Child processes: each leads a process group of its own and carries a mark in its environment, so that it can be ended
 * with all that it has started (process-tree.ts). There is never a shell in between. A child goes when this process
 * goes: its group is killed at the exit, and after a crash a guard kills its group and all with its mark
 * (orphan-guard.ts).
 *
 *   line       what is said to it      what it says       what it prints
 *   "stdio"    standard input          standard output    standard error
 *   "own"      descriptor 4            descriptor 3       standard output and error
 *   null       `input`, then the end   nothing            standard output and error
 *
 * Each direction has a descriptor of its own: a message to a process that has just died breaks one direction, and what
 * the process sent before must still arrive by the other.
 */
import { spawn } from "node:child_process";
import type { ChildProcess } from "node:child_process";
import { randomBytes } from "node:crypto";
import type { Readable, Writable } from "node:stream";
import type { ChildHandle, ChildListener } from "./child-handle.ts";
import { guardChild, unguardChild } from "./orphan-guard.ts";
import { endTree, markPrefix, signalGroup, treeMemoryBytes } from "./process-tree.ts";

export interface ChildStart {
  readonly argv: readonly string[];
  readonly cwd?: string;
  /** Added to what it inherits. */
  readonly env: Readonly<Record<string, string>>;
  /** The whole environment of this process, or only what a program needs to be found and to run. */
  readonly inheritsEnv: boolean;
  readonly line: "stdio" | "own" | null;
  readonly input?: string | Uint8Array;
}

/** What a program gets of this environment in any case: no credentials are among these. */
const plainVariables = [
  ...[
    "PATH",
    "HOME",
    "USER",
    "LOGNAME",
    "SHELL",
    "LANG",
    "LC_ALL",
    "LC_CTYPE",
    "TZ",
    "TMPDIR",
    "TEMP",
    "TMP",
  ],
  ...["SystemRoot", "SystemDrive", "ComSpec", "PATHEXT", "APPDATA", "LOCALAPPDATA", "USERPROFILE", "WINDIR"],
];
/** How long what was printed is waited for once the process has ended: a descendant may keep its output open. */
const outputGraceMs = 250;
const { setTimeout, clearTimeout } = globalThis;

/** Bun lacks the streams that the guard of a child and its own line need. */
export const canStartChildren: boolean = process.versions["bun"] === undefined;

const live = new Set<number>();
let watchesExit = false;

export function newMark(): string {
  return `${markPrefix}${randomBytes(8).toString("hex")}`;
}

export function environmentOf(
  { env, inheritsEnv }: Pick<ChildStart, "env" | "inheritsEnv">,
  mark: string,
): NodeJS.ProcessEnv {
  const own = Object.entries(process.env).filter(
    ([name]) => inheritsEnv || plainVariables.includes(name) || name.startsWith(markPrefix),
  );
  return { ...Object.fromEntries(own), ...env, [mark]: "1" };
}

function enterLive(pid: number, mark: string): void {
  live.add(pid);
  guardChild(pid, mark);
  if (watchesExit) return;
  watchesExit = true;
  process.on("exit", () => {
    for (const each of live) signalGroup(each, "SIGKILL");
  });
}

function leaveLive(pid: number, mark: string): void {
  live.delete(pid);
  unguardChild(pid, mark);
}

export function startChild(start: ChildStart, listener: ChildListener): ChildHandle {
  const mark = newMark();
  let isOver = false;
  const end = (exitCode: number | null, signal: string | null, error: Error | null): void => {
    if (isOver) return;
    isOver = true;
    listener.ended({ exitCode, signal, error });
  };
  let child: ChildProcess;
  try {
    child = spawnChild(start, mark);
  } catch (error) {
    // Such as a NUL in an argument: reported like every other end, after this call.
    process.nextTick(() => end(null, null, error as Error));
    return nothing;
  }
  const { pid } = child;
  if (pid !== undefined) enterLive(pid, mark);
  child.on("error", (error) => end(null, null, error));
  child.on("exit", (exitCode, signal) => {
    if (pid !== undefined) leaveLive(pid, mark);
    listener.ending();
    const timer = setTimeout(() => end(exitCode, signal, null), outputGraceMs);
    child.on("close", () => (clearTimeout(timer), end(exitCode, signal, null)));
  });
  const toChild = start.line === "own" ? (child.stdio[4] as Writable) : child.stdin;
  // An end of the line is no trouble by itself: the process may just be ending.
  toChild?.on("error", (error) => listener.broken(error));
  const fromChild = start.line === "own" ? (child.stdio[3] as Readable) : child.stdout;
  if (start.line !== null) fromChild?.on("data", (piece: Buffer) => listener.said(piece));
  if (start.line !== "stdio") child.stdout?.on("data", (piece: Buffer) => listener.printed("stdout", piece));
  child.stderr?.on("data", (piece: Buffer) => listener.printed("stderr", piece));
  if (start.line === null) toChild?.end(start.input ?? "");
  return {
    title: `process ${pid ?? "?"}`,
    send: (text) => void (toChild?.writable === true && toChild.write(text)),
    hangUp: () => void toChild?.end(),
    terminate: () => (pid === undefined ? undefined : signalGroup(pid, "SIGTERM")),
    kill: () => (pid === undefined ? Promise.resolve() : endTree(pid, mark)),
    sweep: () => (pid === undefined ? undefined : signalGroup(pid, "SIGKILL")),
    memoryBytes: () => (pid === undefined ? Promise.resolve(null) : treeMemoryBytes(pid)),
  };
}

const nothing: ChildHandle = {
  title: "process ?",
  send: () => {},
  hangUp: () => {},
  terminate: () => {},
  kill: () => Promise.resolve(),
  sweep: () => {},
  memoryBytes: () => Promise.resolve(null),
};

function spawnChild(start: ChildStart, mark: string): ChildProcess {
  const [program = "", ...args] = start.argv;
  return spawn(program, args, {
    ...(start.cwd === undefined ? {} : { cwd: start.cwd }),
    env: environmentOf(start, mark),
    detached: process.platform !== "win32",
    shell: false,
    windowsHide: true,
    stdio: start.line === "own" ? ["ignore", "pipe", "pipe", "pipe", "pipe"] : ["pipe", "pipe", "pipe"],
  });
}

/** A POSIX shell with a script, which finds the parameters as $1, $2 and so on. */
export function shellArgv(script: string, parameters: readonly string[]): readonly string[] {
  return ["/bin/sh", "-c", script, "sh", ...parameters];
}

/** Another process of this Node.js, with the options that this one was started with and that a child can share. */
export function nodeArgv(file: string, own: readonly string[] = []): readonly string[] {
  const shared: string[] = [];
  for (let at = 0; at < process.execArgv.length; at++) {
    const option = process.execArgv[at] as string;
    if (/^(-e|-p|-pe|--eval|--print)$/.test(option)) at += 1;
    else if (!/^--(inspect|watch|test|input-type|eval|print|cpu-prof|heap-prof)/.test(option))
      shared.push(option);
  }
  return [process.execPath, ...shared, ...own, file];
}
