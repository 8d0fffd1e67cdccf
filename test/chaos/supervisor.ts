/**
 * Starts, kills, freezes and restarts the processes of the kill test, by the id of each and never by name, and puts
 * what they said together as evidence for the history checker.
 */
import { spawn } from "node:child_process";
import type { ChildProcess } from "node:child_process";
import type { Readable } from "node:stream";
import { fileURLToPath } from "node:url";
import { createInterface } from "node:readline";
import type { Effect, Operation } from "../history/history.ts";
import type { ChaosOptions } from "./chaos-process.ts";
import type { Line } from "./recorded-store.ts";

const script = fileURLToPath(new URL("chaos-process.ts", import.meta.url));

export class ChaosProcess {
  readonly name: string;
  readonly operations: Operation[] = [];
  readonly effects: Effect[] = [];
  readonly ready: Promise<void>;
  readonly exited: Promise<void>;
  stopped: Extract<Line, { line: "stopped" }> | null = null;
  complaints = "";
  readonly #child: ChildProcess;
  readonly #calls = new Map<number, Operation>();
  readonly #listeners = new Set<(line: Line) => void>();

  constructor(options: ChaosOptions) {
    this.name = options.name;
    const child = spawn(process.execPath, ["--conditions=millrace-source", script, JSON.stringify(options)], {
      stdio: ["ignore", "ignore", "pipe", "pipe"],
    });
    this.#child = child;
    child.stderr?.on(
      "data",
      (chunk: Buffer) => (this.complaints = (this.complaints + chunk.toString()).slice(-4000)),
    );
    const lines = createInterface({ input: child.stdio[3] as Readable });
    lines.on("line", (text) => this.#heard(JSON.parse(text) as Line));
    this.exited = Promise.all([
      new Promise<void>((resolve) => child.once("exit", () => resolve())),
      new Promise<void>((resolve) => lines.once("close", resolve)),
    ]).then(() => undefined);
    this.ready = this.hears((line) => line.line === "ready").then(() => undefined);
    this.ready.catch(() => undefined);
  }

  get isRunning(): boolean {
    return this.#child.exitCode === null && this.#child.signalCode === null;
  }

  send(signal: "SIGKILL" | "SIGSTOP" | "SIGCONT" | "SIGTERM"): void {
    if (this.isRunning) this.#child.kill(signal);
  }

  /** The first line that fits, or a rejection when the process ends without saying it. */
  hears(fits: (line: Line) => boolean): Promise<Line> {
    return new Promise((resolve, reject) => {
      const listener = (line: Line): void => {
        if (!fits(line)) return;
        this.#listeners.delete(listener);
        resolve(line);
      };
      this.#listeners.add(listener);
      // Its last lines may be read after it has gone.
      void this.exited.then(() => reject(new Error(`${this.name} ended early: ${this.complaints}`)));
    });
  }

  #heard(line: Line): void {
    if (line.line === "intent") this.#begin(line);
    if (line.line === "answer") this.#end(line);
    if (line.line === "effect") this.effects.push(line.effect);
    if (line.line === "stopped") this.stopped = line;
    for (const listener of [...this.#listeners]) listener(line);
  }

  #begin({ atUs, call, kind, request }: Extract<Line, { line: "intent" }>): void {
    const base = { actor: this.name, invokedUs: atUs, answeredUs: null, seen: "unknown", order: null };
    const entry =
      kind === "enqueue"
        ? { ...base, kind, inputs: request, got: null }
        : { ...base, kind, request, answer: null };
    this.operations.push(entry as Operation);
    this.#calls.set(call, entry as Operation);
  }

  #end({ atUs, call, seen, answer }: Extract<Line, { line: "answer" }>): void {
    const entry = this.#calls.get(call);
    if (entry === undefined) return;
    entry.answeredUs = atUs;
    entry.seen = seen;
    if (entry.kind === "enqueue") entry.got = answer as readonly string[] | null;
    else if ("answer" in entry) entry.answer = answer as never;
  }
}

/** Ends every process that is still there, so that no test leaves one behind. */
export class Supervisor {
  readonly processes: ChaosProcess[] = [];

  start(options: ChaosOptions): ChaosProcess {
    const started = new ChaosProcess(options);
    this.processes.push(started);
    return started;
  }

  get operations(): Operation[] {
    return this.processes
      .flatMap(({ operations }) => operations)
      .toSorted((left, right) => left.invokedUs - right.invokedUs);
  }

  get effects(): Effect[] {
    return this.processes.flatMap(({ effects }) => effects).toSorted((left, right) => left.atUs - right.atUs);
  }

  async stopAll(): Promise<void> {
    for (const each of this.processes) each.send("SIGCONT");
    for (const each of this.processes) each.send("SIGTERM");
    await Promise.all(this.processes.map(({ exited }) => exited));
  }

  async killAll(): Promise<void> {
    for (const each of this.processes) each.send("SIGKILL");
    await Promise.all(this.processes.map(({ exited }) => exited));
  }
}
