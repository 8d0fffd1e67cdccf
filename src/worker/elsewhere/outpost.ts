/**
 * One outpost as its crew sees it: a thread or a child process that runs one job at a time.
 *
 *   starting ──ready──► idle ◄──returned, threw── busy
 *      │                 │ └──────────run──────────►│
 *      │                 │                          ├──abort, and no end within the grace──► killed
 *      └──failed, silent─┴──garbage, a line too long, too much output or memory, its end─────► ended
 *
 * However it ends, the run in it fails, alone, and once the whole tree of its processes is gone.
 */
import type { AbortReason } from "../control.ts";
import { MillraceError } from "../../model/error.ts";
import type { ErrorCode } from "../../model/error.ts";
import type { Link, LinkEnd, LinkListener } from "../../platform/link.ts";
import { nodePlatform } from "../../platform/node-platform.ts";
import type { Timer } from "../../platform/platform.ts";
import { LineReader } from "./line-reader.ts";
import { notLoaded } from "./load-handler.ts";
import { lineOf, protocolVersion, readMessage } from "./messages.ts";
import type { FromOutpost, ToOutpost } from "./messages.ts";
import { OutputTail } from "./output-tail.ts";
import type { RemoteRun } from "./remote-run.ts";
import { receiveError } from "./sent-error.ts";

export interface OutpostLimits {
  readonly startTimeoutMs: number;
  /** How long it may take from an abort to the end of the run before it is killed. */
  readonly killGraceMs: number;
  readonly lineBytesMax: number;
  /** Of one run. */
  readonly outputBytesMax: number;
  readonly memoryBytesMax: number;
}

export interface OutpostStart {
  /** Such as 'the handler of "resize"', for messages. */
  readonly what: string;
  readonly limits: OutpostLimits;
  readonly link: (listener: LinkListener) => Link;
  readonly hello: Omit<Extract<ToOutpost, { type: "start" }>, "type" | "protocol">;
  /** Told once, when it can run nothing any more. */
  readonly gone: (outpost: Outpost) => void;
}

const endGraceMs = 2000;
const brokenGraceMs = 500;

export class Outpost {
  /** Settles when it can take its first job, or cannot. */
  readonly ready: Promise<void>;
  isReady = false;
  /** How many runs it has begun. */
  runs = 0;
  /** To be replaced after its run, because of its memory. */
  isWorn = false;
  readonly #start: OutpostStart;
  readonly #link: Link;
  readonly #output = new OutputTail();
  readonly #whenReady = Promise.withResolvers<void>();
  readonly #whenEnded = Promise.withResolvers<void>();
  #current: RemoteRun | null = null;
  #free: (() => void) | null = null;
  #listensForAborts = false;
  #timer: Timer | null;
  /** Why it is being ended; null while it is wanted. */
  #why: Error | null = null;
  #isGone = false;
  #isEnded = false;

  constructor(start: OutpostStart) {
    this.#start = start;
    const { limits } = start;
    this.ready = this.#whenReady.promise;
    // Whoever waits for it hears of it; before anybody does, it must not count as unhandled.
    this.ready.catch(() => {});
    const reader = new LineReader({
      bytesMax: limits.lineBytesMax,
      heard: (line) => this.#heard(line),
      tooLong: () =>
        this.#fail("outpost-garbled", `it wrote a line of more than ${limits.lineBytesMax} bytes`),
    });
    this.#link = start.link({
      said: (piece) => reader.read(piece),
      printed: (stream, piece) => this.#printed(stream, piece),
      broken: (error) => this.#broken(error),
      ending: () => this.#ending(),
      ended: (end) => this.#ended(end),
    });
    this.#timer = nodePlatform.setTimer(limits.startTimeoutMs, () =>
      this.#fail("handler-not-loaded", `it was not ready within ${limits.startTimeoutMs} ms`),
    );
    this.#say({ type: "start", protocol: protocolVersion, ...start.hello });
  }

  get isBusy(): boolean {
    return this.#current !== null;
  }

  /** Begins a run; `free` is told once it is over and the outpost can take the next. */
  run(run: RemoteRun, free: () => void): void {
    this.runs += 1;
    this.#current = run;
    this.#free = free;
    this.#output.clear();
    this.#link.keepAlive(true);
    try {
      this.#link.send(run.startLine(this.runs));
    } catch (error) {
      this.#over(() => run.lose(error, null));
    }
  }

  /** Tells the handler to stop; ends the outpost where it does not within the grace. */
  abort(run: RemoteRun, reason: AbortReason): void {
    if (this.#current !== run || this.#why !== null) return;
    if (this.#listensForAborts) this.#say({ type: "abort", run: this.runs, reason });
    else this.#link.terminate();
    this.#timer?.cancel();
    this.#timer = nodePlatform.setTimer(this.#start.limits.killGraceMs, () =>
      this.#fail("outpost-lost", `it did not stop within ${this.#start.limits.killGraceMs} ms of its abort`),
    );
  }

  /** Ends it once it is idle: it may end by itself for a while. */
  async retire(): Promise<void> {
    if (this.#isEnded) return;
    if (this.isBusy || !this.isReady) return this.kill(new Error("the worker stopped"));
    this.#why = new Error("it was no longer needed");
    this.#say({ type: "end" });
    this.#link.hangUp();
    this.#timer = nodePlatform.setTimer(endGraceMs, () => void this.#link.kill());
    await this.#whenEnded.promise;
    // What it has left behind goes with it.
    await this.#link.kill();
  }

  async kill(why: Error): Promise<void> {
    if (this.#why === null) this.#fail("outpost-lost", why.message);
    await this.#whenEnded.promise;
  }

  /** Kills it where it has too much in memory. @returns what it has. */
  async weigh(): Promise<number> {
    const { memoryBytesMax } = this.#start.limits;
    const bytes = (await this.#link.memoryBytes()) ?? 0;
    if (bytes > memoryBytesMax)
      this.#fail("outpost-overrun", `it had ${bytes} bytes in memory; the most is ${memoryBytesMax}`);
    return bytes;
  }

  #say(message: ToOutpost): void {
    this.#link.send(lineOf(message));
  }

  #heard(line: string): void {
    if (this.#why !== null) return;
    const message = readMessage<FromOutpost>(line);
    if (typeof message === "string") return this.#fail("outpost-garbled", message);
    switch (message.type) {
      case "ready":
        return this.#becomeReady(message.aborts === true);
      case "failed":
        return this.#fail("handler-not-loaded", receiveError(message.error).message);
      case "returned":
      case "threw":
      case "progress":
      case "log":
      case "effect":
      case "call":
        return this.#heardOfRun(message);
      default:
        return this.#fail("outpost-garbled", `it sent a message of an unknown type: ${line.slice(0, 200)}`);
    }
  }

  #heardOfRun(message: Exclude<FromOutpost, { type: "ready" | "failed" }>): void {
    const run = this.#current;
    // Of a run that is over: a timer that the handler left behind, an answer given twice.
    if (run === null || message.run !== this.runs) return;
    try {
      const last = run.heard(message, (text) => this.#link.send(text));
      if (last === null) return;
      // What it printed before its last message comes by another way, in this turn at the latest.
      nodePlatform.defer(() => {
        if (this.#current === run) this.#over(() => run.end(last, this.#output.read()));
      });
    } catch (error) {
      this.#fail("outpost-garbled", `it sent a message that cannot be read (${(error as Error).message})`);
    }
  }

  #becomeReady(listensForAborts: boolean): void {
    if (this.isReady) return;
    this.isReady = true;
    this.#listensForAborts = listensForAborts;
    this.#stopTimer();
    this.#link.keepAlive(false);
    this.#whenReady.resolve();
  }

  #over(tell: () => void): void {
    this.#stopTimer();
    const free = this.#free;
    this.#current = this.#free = null;
    this.#link.keepAlive(false);
    tell();
    free?.();
  }

  #printed(stream: "stdout" | "stderr", piece: Buffer): void {
    this.#output.add(stream, piece);
    const { outputBytesMax } = this.#start.limits;
    if (this.#output.bytes > outputBytesMax)
      this.#fail("outpost-overrun", `it printed more than ${outputBytesMax} bytes`);
  }

  /** A process that ends breaks its line first: its end says more than that. */
  #broken(error: Error): void {
    this.#ending();
    nodePlatform.setTimer(brokenGraceMs, () =>
      this.#fail("outpost-lost", `it takes no more messages (${error.message})`),
    );
  }

  /** Ends it and what runs in it. */
  #fail(code: ErrorCode, because: string): void {
    if (this.#why !== null) return;
    this.#stopTimer();
    const { what } = this.#start;
    const text = `${capitalised(what)} was ended: ${because}.`;
    this.#why = this.isReady
      ? new MillraceError(code, text)
      : notLoaded(`${capitalised(what)} did not start: ${because}.`);
    this.#ending();
    void this.#link.kill().then(() => this.#close());
  }

  /** No job may be given to it any more. */
  #ending(): void {
    if (this.#isGone) return;
    this.#isGone = true;
    this.#start.gone(this);
  }

  #ended({ exitCode, signal, error }: LinkEnd): void {
    this.#isEnded = true;
    this.#whenEnded.resolve();
    if (this.#why !== null) return;
    const how =
      error !== null
        ? `: ${error.message}`
        : signal !== null
          ? ` by ${signal}`
          : ` with the exit code ${exitCode}`;
    const last = this.#output.lastWords;
    const { what } = this.#start;
    const text = `${capitalised(what)} ended in the middle of it${how}${last === null ? "" : ` (${last})`}.`;
    const options = error === null ? {} : { cause: error };
    const isHeapFull = (error as { code?: string } | null)?.code === "ERR_WORKER_OUT_OF_MEMORY";
    this.#why = this.isReady
      ? new MillraceError(isHeapFull ? "outpost-overrun" : "outpost-lost", text, options)
      : notLoaded(
          `${capitalised(what)} did not start: it ended${how}${last === null ? "" : ` (${last})`}.`,
          error,
        );
    this.#ending();
    // What it has started may still run.
    void this.#link.kill().then(() => this.#close({ exitCode, signal }));
  }

  #close(end: Pick<LinkEnd, "exitCode" | "signal"> = { exitCode: null, signal: null }): void {
    this.#stopTimer();
    const why = this.#why ?? new Error("it ended");
    this.#whenReady.reject(why);
    const run = this.#current;
    if (run === null) return;
    const { signal } = run.context;
    const { exitCode, signal: bySignal } = end;
    const output = {
      ...this.#output.read(),
      ...(exitCode === null ? {} : { exitCode }),
      ...(bySignal === null ? {} : { signal: bySignal }),
    };
    const isEmpty = Object.keys(output).length === 0;
    this.#over(() => run.lose(signal.aborted ? signal.reason : why, isEmpty ? null : output));
  }

  #stopTimer(): void {
    this.#timer?.cancel();
    this.#timer = null;
  }
}

function capitalised(text: string): string {
  return text.charAt(0).toUpperCase() + text.slice(1);
}
