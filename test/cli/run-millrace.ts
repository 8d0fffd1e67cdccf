/** The command line as a real process: run to its end, or started and watched. */
import { spawn } from "node:child_process";
import type { ChildProcess } from "node:child_process";
import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { onTestFinished } from "vitest";
import { runCommandLine } from "../../src/cli/command-line.ts";
import { nodePlatform } from "../../src/platform/node-platform.ts";
import { nodeTerminal } from "../../src/platform/terminal.ts";
import type { Terminal } from "../../src/platform/terminal.ts";

/** The same command line inside this process: much faster, for everything that is not about the process itself. */
export async function say(
  args: readonly string[],
  env: Readonly<Record<string, string>> = {},
  { nodeVersion = process.versions.node, isTTY = false, platform = nodePlatform } = {},
): Promise<Ended> {
  let [out, err] = ["", ""];
  const terminal: Terminal = {
    ...nodeTerminal,
    args,
    nodeVersion,
    readEnv: (name) => env[name]?.trim() || undefined,
    writeOut: (text) => void (out += text),
    writeErr: (text) => void (err += text),
    isTTY,
  };
  const code = await runCommandLine(terminal, platform);
  return { code, signal: null, out, err };
}

/** Commands that look at a store or operate on it: none of them makes one. */
export const lookingCommands = [
  ["list"],
  ["counts"],
  ["flows"],
  ["show", "x"],
  ["logs", "x"],
  ["tail"],
  ["explain", "x"],
  ["retry", "--state", "failed"],
  ["cancel", "x"],
  ["run-now", "x"],
  ["reschedule", "x", "--delay", "1h"],
  ["edit", "x", "--input", "1"],
  ["revoke", "x"],
  ["delete", "x"],
  ["purge", "--state", "failed"],
  ["signal", "x", "y"],
  ["approvals"],
  ["top"],
  ["workers"],
  ["workers", "quiet", "x"],
  ["queues"],
  ["queues", "pause", "x"],
  ["limits"],
  ["budgets"],
  ["budgets", "reset", "x"],
  ["limits", "reset", "x"],
  ["duties"],
  ["duties", "run", "reclaim"],
  ["doctor"],
  ["bench"],
];

export const root = join(import.meta.dirname, "..", "..");

export interface Ended {
  readonly code: number | null;
  readonly signal: NodeJS.Signals | null;
  readonly out: string;
  readonly err: string;
}

export interface RunOptions {
  readonly env?: Readonly<Record<string, string>>;
  readonly input?: string;
  readonly cwd?: string;
}

export class Running {
  readonly child: ChildProcess;
  readonly ended: Promise<Ended>;
  #out = "";
  #err = "";
  #heard: (() => void)[] = [];

  constructor(args: readonly string[], { env = {}, input, cwd = root }: RunOptions = {}) {
    const { MILLRACE_STORE: _unset, ...inherited } = process.env;
    const main = join(root, "src", "cli", "main.ts");
    this.child = spawn(process.execPath, ["--conditions=millrace-source", main, ...args], {
      cwd,
      env: { ...inherited, ...env },
      stdio: [input === undefined ? "ignore" : "pipe", "pipe", "pipe"],
    });
    this.child.stdin?.end(input);
    this.child.stdout?.on("data", (chunk: Buffer) => this.#hear(() => (this.#out += chunk.toString())));
    this.child.stderr?.on("data", (chunk: Buffer) => this.#hear(() => (this.#err += chunk.toString())));
    this.ended = new Promise((resolve) => {
      this.child.once("close", (code, signal) => resolve({ code, signal, out: this.#out, err: this.#err }));
    });
  }

  /** Waits until it says so on either stream; an end before that is an error. */
  async hears(pattern: RegExp): Promise<void> {
    while (!pattern.test(this.#out + this.#err)) {
      const end = await Promise.race([
        new Promise<null>((resolve) => this.#heard.push(() => resolve(null))),
        this.ended,
      ]);
      if (end !== null && !pattern.test(end.out + end.err))
        throw new Error(`ended (${end.code}) without saying ${pattern}:\n${end.out}\n${end.err}`);
    }
  }

  #hear(take: () => void): void {
    take();
    for (const tell of this.#heard.splice(0)) tell();
  }
}

export function startMillrace(args: readonly string[], options?: RunOptions): Running {
  const running = new Running(args, options);
  onTestFinished(async () => {
    running.child.kill("SIGKILL");
    await running.ended;
  });
  return running;
}

export function millrace(args: readonly string[], options?: RunOptions): Promise<Ended> {
  return new Running(args, options).ended;
}

/** In this process, with --json: it must succeed, and gives its document. */
export async function sayJson(args: readonly string[]): Promise<Record<string, unknown>> {
  return readEnd(args, await say([...args, "--json"]));
}

export async function millraceJson(
  args: readonly string[],
  options?: RunOptions,
): Promise<Record<string, unknown>> {
  return readEnd(args, await millrace([...args, "--json"], options));
}

function readEnd(args: readonly string[], { code, out, err }: Ended): Record<string, unknown> {
  if (code !== 0) throw new Error(`millrace ${args.join(" ")} ended with ${code}: ${out}${err}`);
  return JSON.parse(out) as Record<string, unknown>;
}

/** A folder of its own for a test, removed when it ends. */
export function aFolder(): string {
  const folder = mkdtempSync(join(tmpdir(), "millrace-cli-"));
  onTestFinished(() => rmSync(folder, { recursive: true, force: true }));
  return folder;
}

export function aStoreUrl(): string {
  return `sqlite:${join(aFolder(), "jobs.db")}`;
}
