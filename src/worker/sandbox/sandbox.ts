/**
 * One sandbox, as its pool sees it: a thread or a child process that runs one job at a time.
 *
 *   starting ──ready──► idle ◄──returned, threw── busy
 *      │                 │ └──────────run──────────►│
 *      │                 │                          ├──abort, and no end within the grace──► killed
 *      └──failed, silent─┴──garbage, a line too long, too much output or memory, its end─────► ended
 *
 * When it ends, only the run in it fails, and only after all its processes are gone. Runs that were sent ahead had not
 * begun, because a sandbox reports the end of a run before it begins the next one: they are given back.
 */
import type { AbortReason } from "../control.ts";
import { MillraceError } from "../../model/error.ts";
import type { ErrorCode } from "../../model/error.ts";
import type { ChildHandle, ChildEnd, ChildListener } from "../../platform/child-handle.ts";
import { nodePlatform } from "../../platform/node-platform.ts";
import type { Timer } from "../../platform/platform.ts";
import { LineReader } from "./line-reader.ts";
import { notLoaded } from "./load-handler.ts";
import { lineOf, protocolVersion, readMessage } from "./messages.ts";
import type { FromSandbox, ToSandbox } from "./messages.ts";
import { OutputTail } from "./output-tail.ts";
import type { SandboxRun } from "./sandbox-run.ts";
import { receiveError } from "./sent-error.ts";

export interface SandboxLimits {
  readonly startTimeoutMs: number;
  /** The time from an abort to the end of the run, after which it is killed. */
  readonly killGraceMs: number;
  readonly lineBytesMax: number;
  /** The bytes printed in one run. */
  readonly outputBytesMax: number;
  readonly memoryBytesMax: number;
}

export interface SandboxStart {
  /** Such as 'the handler of "resize"', for messages. */
  readonly what: string;
  readonly limits: SandboxLimits;
  readonly spawn: (listener: ChildListener) => ChildHandle;
  readonly hello: Omit<Extract<ToSandbox, { type: "start" }>, "type" | "protocol">;
  /** Called after each run, when the next can be sent. */
  readonly freed: (sandbox: Sandbox, ended: EndedRun) => void;
  /** Called once, when it can run nothing any more. */
  readonly gone: (sandbox: Sandbox) => void;
}

export interface EndedRun {
  readonly ranUs: number;
  readonly hasPrinted: boolean;
}

interface SentRun {
  readonly number: number;
  readonly run: SandboxRun;
  startedUs: number;
}

type LastMessage = NonNullable<ReturnType<SandboxRun["heard"]>>;

const endGraceMs = 2000;
const brokenGraceMs = 500;

export class Sandbox {
  /** Settles when it can take its first job, or cannot. */
  readonly ready: Promise<void>;
  isReady = false;
  /** It may be sent more runs while it runs one. */
  takesAhead = false;
  /** How many runs were sent to it. */
  runs = 0;
  /** It must be replaced after its run, because of its memory. */
  isWorn = false;
  readonly #start: SandboxStart;
  readonly #child: ChildHandle;
  readonly #output = new OutputTail();
  readonly #whenReady = Promise.withResolvers<void>();
  readonly #whenEnded = Promise.withResolvers<void>();
  /** The first one runs, the others were sent ahead. */
  #sent: SentRun[] = [];
  /** Runs that have reported their end and wait for their output. */
  #ending = 0;
  #unsaid = "";
  #listensForAborts = false;
  #timer: Timer | null;
  /** Why it is being ended; null while it is in use. */
  #why: Error | null = null;
  /** It reported the end of its run while it was being ended, so the next run may have begun. */
  #wentOn = false;
  #isGone = false;
  #isEnded = false;

  constructor(start: SandboxStart) {
    this.#start = start;
    const { limits } = start;
    this.ready = this.#whenReady.promise;
    // A caller of `ready` gets the error. Before there is one, it must not count as an unhandled rejection.
    this.ready.catch(() => {});
    const reader = new LineReader({
      bytesMax: limits.lineBytesMax,
      heard: (line) => this.#heard(line),
      tooLong: () =>
        this.#fail("sandbox-garbled", `it wrote a line of more than ${limits.lineBytesMax} bytes`),
    });
    this.#child = start.spawn({
      said: (piece) => reader.read(piece),
      printed: (stream, piece) => this.#printed(stream, piece),
      broken: (error) => this.#broken(error),
      ending: () => this.#leavePool(),
      ended: (end) => this.#ended(end),
    });
    this.#timer = nodePlatform.setTimer(limits.startTimeoutMs, () =>
      this.#fail("handler-not-loaded", `it was not ready within ${limits.startTimeoutMs} ms`),
    );
    this.#say(lineOf({ type: "start", protocol: protocolVersion, ...start.hello }));
  }

  /** Runs that were sent and have not ended. */
  get load(): number {
    return this.#sent.length + this.#ending;
  }

  /** Begins a run, or sends it ahead. */
  run(run: SandboxRun): void {
    const number = ++this.runs;
    const nowUs = nodePlatform.monotonicUs();
    const sent = { number, run, startedUs: nowUs };
    this.#sent.push(sent);
    if (this.#sent.length > 1) run.wait();
    try {
      this.#say(run.startLine(number));
    } catch (error) {
      this.#sent.splice(this.#sent.indexOf(sent), 1);
      run.lose(error, null);
      this.#start.freed(this, { ranUs: 0, hasPrinted: false });
    }
  }

  /** Aborts the handler. Ends the sandbox if the handler does not stop within the grace. */
  abort(run: SandboxRun, reason: AbortReason): void {
    const sent = this.#sent.find((each) => each.run === run);
    if (sent === undefined || this.#why !== null) return;
    if (this.#listensForAborts) this.#say(lineOf({ type: "abort", run: sent.number, reason }));
    if (sent === this.#sent[0]) this.#endAfterGrace();
  }

  #endAfterGrace(): void {
    if (!this.#listensForAborts) this.#child.terminate();
    this.#stopTimer();
    const { killGraceMs } = this.#start.limits;
    this.#timer = nodePlatform.setTimer(killGraceMs, () =>
      this.#fail("sandbox-lost", `it did not stop within ${killGraceMs} ms of its abort`),
    );
  }

  /** Ends it: at once if it has a run, else with some time to end by itself. */
  async retire(): Promise<void> {
    if (this.#isEnded) return;
    if (this.load > 0 || !this.isReady) return this.kill(new Error("the worker stopped"));
    this.#why = new Error("it was no longer needed");
    this.#say(lineOf({ type: "end" }));
    this.#flush();
    this.#child.hangUp();
    this.#timer = nodePlatform.setTimer(endGraceMs, () => void this.#child.kill());
    await this.#whenEnded.promise;
    this.#stopTimer();
    // Kills processes that it has left behind.
    await this.#child.kill();
  }

  async kill(why: Error): Promise<void> {
    if (this.#why === null) this.#fail("sandbox-lost", why.message);
    await this.#whenEnded.promise;
  }

  /** Ends it if it uses too much memory. @returns how many bytes it uses. */
  async weigh(): Promise<number> {
    const { memoryBytesMax } = this.#start.limits;
    const bytes = (await this.#child.memoryBytes()) ?? 0;
    if (bytes > memoryBytesMax)
      this.#fail("sandbox-overrun", `it had ${bytes} bytes in memory; the most is ${memoryBytesMax}`);
    return bytes;
  }

  /** Messages of one flush are sent in one piece. */
  #say(line: string): void {
    if (this.#unsaid === "") queueMicrotask(() => this.#flush());
    this.#unsaid += line;
  }

  #flush(): void {
    const text = this.#unsaid;
    this.#unsaid = "";
    if (text !== "") this.#child.send(text);
  }

  #heard(line: string): void {
    const message = readMessage<FromSandbox>(line);
    if (this.#why !== null) {
      if (typeof message !== "string" && (message.type === "returned" || message.type === "threw"))
        this.#wentOn = true;
      return;
    }
    if (typeof message === "string") return this.#fail("sandbox-garbled", message);
    switch (message.type) {
      case "ready":
        return this.#becomeReady(message);
      case "failed":
        return this.#fail("handler-not-loaded", receiveError(message.error).message);
      case "returned":
      case "threw":
      case "progress":
      case "log":
      case "frame":
      case "effect":
      case "call":
        return this.#heardOfRun(message);
      default:
        return this.#fail("sandbox-garbled", `it sent a message of an unknown type: ${line.slice(0, 200)}`);
    }
  }

  #heardOfRun(message: Exclude<FromSandbox, { type: "ready" | "failed" }>): void {
    const [sent] = this.#sent;
    // The run is over: a timer that the handler left, or an outcome that was sent twice.
    if (sent === undefined || message.run !== sent.number) return;
    try {
      const last = sent.run.heard(message, (line) => this.#say(line));
      if (last !== null) this.#runEnds(sent, last);
    } catch (error) {
      this.#fail("sandbox-garbled", `it sent a message that cannot be read (${(error as Error).message})`);
    }
  }

  #runEnds(sent: SentRun, last: LastMessage): void {
    this.#stopTimer();
    this.#sent.shift();
    this.#ending += 1;
    const nowUs = nodePlatform.monotonicUs();
    const end = (): void => {
      const output = this.#output.read();
      this.#output.clear();
      this.#ending -= 1;
      sent.run.end(last, output);
      // The time that the sandbox has measured itself does not include the transport.
      const ranUs = typeof last.ranUs === "number" ? last.ranUs : nowUs - sent.startedUs;
      this.#start.freed(this, { ranUs, hasPrinted: output !== null });
    };
    const [next] = this.#sent;
    // Its output comes by another stream, at the latest in this flush.
    if (next === undefined) return nodePlatform.defer(end);
    end();
    next.startedUs = nowUs;
    next.run.begin();
    if (next.run.context.signal.aborted) this.#endAfterGrace();
  }

  #becomeReady({ aborts, ahead }: Extract<FromSandbox, { type: "ready" }>): void {
    if (this.isReady) return;
    this.isReady = true;
    this.#listensForAborts = aborts === true;
    this.takesAhead = ahead === true;
    this.#stopTimer();
    this.#output.clear();
    this.#whenReady.resolve();
  }

  #printed(stream: "stdout" | "stderr", piece: Buffer): void {
    this.#output.add(stream, piece);
    const { outputBytesMax } = this.#start.limits;
    if (this.#output.bytes > outputBytesMax)
      this.#fail("sandbox-overrun", `it printed more than ${outputBytesMax} bytes`);
  }

  /** If a process ends, its line breaks first: the end says more, so it is awaited for a moment. */
  #broken(error: Error): void {
    this.#leavePool();
    nodePlatform.setTimer(brokenGraceMs, () =>
      this.#fail("sandbox-lost", `it takes no more messages (${error.message})`),
    );
  }

  /** Ends the sandbox and its run. */
  #fail(code: ErrorCode, because: string): void {
    if (this.#why !== null) return;
    this.#stopTimer();
    const what = capitalised(this.#start.what);
    this.#why = this.isReady
      ? new MillraceError(code, `${what} was ended: ${because}.`)
      : notLoaded(`${what} did not start: ${because}.`);
    this.#leavePool();
    void this.#child.kill().then(() => this.#close());
  }

  /** No job may be given to it any more. */
  #leavePool(): void {
    if (this.#isGone) return;
    this.#isGone = true;
    this.#start.gone(this);
  }

  #ended({ exitCode, signal, error }: ChildEnd): void {
    this.#isEnded = true;
    this.#whenEnded.resolve();
    if (this.#why !== null) return;
    const last = this.#output.lastWords;
    const way = signal !== null ? ` by ${signal}` : ` with the exit code ${exitCode}`;
    const how = `${error === null ? way : `: ${error.message}`}${last === null ? "" : ` (${last})`}`;
    const what = capitalised(this.#start.what);
    const isHeapFull = (error as { code?: string } | null)?.code === "ERR_WORKER_OUT_OF_MEMORY";
    const options = error === null ? {} : { cause: error };
    this.#why = this.isReady
      ? new MillraceError(
          isHeapFull ? "sandbox-overrun" : "sandbox-lost",
          `${what} ended in the middle of it${how}.`,
          options,
        )
      : notLoaded(`${what} did not start: it ended${how}.`, error);
    this.#leavePool();
    // Processes that it has started may still run.
    void this.#child.kill().then(() => this.#close({ exitCode, signal }));
  }

  #close(end: Pick<ChildEnd, "exitCode" | "signal"> = { exitCode: null, signal: null }): void {
    this.#stopTimer();
    const why = this.#why ?? new Error("it ended");
    this.#whenReady.reject(why);
    const { exitCode, signal } = end;
    const output = {
      ...this.#output.read(),
      ...(exitCode === null ? {} : { exitCode }),
      ...(signal === null ? {} : { signal }),
    };
    const kept = Object.keys(output).length === 0 ? null : output;
    const begun = this.#wentOn ? 2 : 1;
    for (const [at, { run }] of this.#sent.entries()) {
      const { signal: own } = run.context;
      if (own.aborted) run.lose(own.reason, at === 0 ? kept : null);
      else if (at < begun) run.lose(why, at === 0 ? kept : null);
      else run.giveBack();
    }
    this.#sent = [];
  }

  #stopTimer(): void {
    this.#timer?.cancel();
    this.#timer = null;
  }
}

function capitalised(text: string): string {
  return text.charAt(0).toUpperCase() + text.slice(1);
}
