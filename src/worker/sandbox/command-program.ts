/**
 * One command from its start to its end.
 *
 *   running ──exit──► its remaining processes are ended ──► settled by its exit code
 *      ├──abort, timeout──► SIGTERM ──exit, or the grace is over──► all its processes are killed ──► lost
 *      └──too much memory or output───────────────────────────────► all its processes are killed ──► lost
 */
import type { AttemptOutput } from "../../model/job/attempt-log.ts";
import { durationText } from "../../model/duration.ts";
import { MillraceError } from "../../model/error.ts";
import { startChild } from "../../platform/child-process.ts";
import type { ChildStart } from "../../platform/child-process.ts";
import type { ChildHandle, ChildEnd } from "../../platform/child-handle.ts";
import { nodePlatform } from "../../platform/node-platform.ts";
import type { Timer } from "../../platform/platform.ts";
import type { CommandSettings, EndedCommand } from "./command-options.ts";
import { OutputTail } from "./output-tail.ts";

type Bounds = Pick<CommandSettings, "killGraceMs" | "memoryBytesMax" | "outputBytesMax"> & {
  readonly timeoutMs: number;
};

const weighEveryMs = 1000;

export class Command {
  readonly #name: string;
  readonly #bounds: Bounds;
  readonly #child: ChildHandle;
  readonly #tail = new OutputTail();
  readonly #printed: Record<"stdout" | "stderr", Buffer[]> = { stdout: [], stderr: [] };
  readonly #outcome = Promise.withResolvers<EndedCommand>();
  readonly #ended = Promise.withResolvers<void>();
  #timeout: Timer | null;
  #grace: Timer | null = null;
  #weighing: Timer | null = null;
  #end: ChildEnd | null = null;
  /** Why it is being ended; null while it may run. */
  #why: unknown = null;

  /** @param name of its program, for messages. */
  constructor(name: string, start: Omit<ChildStart, "line">, bounds: Bounds) {
    this.#name = name;
    this.#bounds = bounds;
    this.#child = startChild(
      { ...start, line: null },
      {
        said: () => {},
        printed: (stream, piece) => this.#print(stream, piece),
        // It has not read all of its input, which is no error.
        broken: () => {},
        ending: () => {},
        ended: (end) => void this.#over(end),
      },
    );
    const { timeoutMs } = bounds;
    this.#timeout = nodePlatform.setTimer(timeoutMs, () =>
      this.stop(this.#failed(`ran longer than ${durationText(timeoutMs)}`)),
    );
    this.#weighing = this.#weighSoon();
  }

  /** The command's end, with any exit code. Rejects if it was stopped or could not be started. */
  get outcome(): Promise<EndedCommand> {
    return this.#outcome.promise;
  }

  /** The output that is stored with the attempt. */
  get output(): AttemptOutput {
    const { exitCode, signal } = this.#end ?? { exitCode: null, signal: null };
    return {
      ...this.#tail.read(),
      ...(exitCode === null ? {} : { exitCode }),
      ...(signal === null ? {} : { signal }),
    };
  }

  /** Asks all its processes to end, and kills those that are left after the grace. */
  stop(why: unknown): void {
    if (this.#why !== null || this.#end !== null) return;
    this.#why = why;
    this.#child.terminate();
    this.#grace = nodePlatform.setTimer(this.#bounds.killGraceMs, () => void this.#child.kill());
  }

  async kill(why: unknown): Promise<void> {
    this.#why ??= why;
    await this.#child.kill();
    await this.#ended.promise;
  }

  /** An error that describes its end, with the last line that it printed. */
  #failed(how: string, cause?: unknown): MillraceError {
    const last = this.#tail.lastWords;
    const text = `The command ${JSON.stringify(this.#name)} ${how}${last === null ? "" : ` (${last})`}.`;
    return new MillraceError("command-failed", text, cause === undefined ? {} : { cause });
  }

  /** The error of an exit code that is not a success. */
  unsuccessful(exitCode: number): MillraceError {
    return this.#failed(`ended with the exit code ${exitCode}`);
  }

  async #over(end: ChildEnd): Promise<void> {
    this.#end = end;
    for (const timer of [this.#timeout, this.#grace, this.#weighing]) timer?.cancel();
    // A command that was stopped may have left processes anywhere. One that ended by itself may leave a daemon on
    // purpose.
    if (this.#why === null && end.exitCode !== null) this.#child.sweep();
    else await this.#child.kill();
    this.#ended.resolve();
    const { exitCode, signal, error } = end;
    if (this.#why !== null) this.#outcome.reject(this.#why);
    else if (error !== null)
      this.#outcome.reject(this.#failed(`could not be started: ${error.message}`, error));
    else if (exitCode === null) this.#outcome.reject(this.#failed(`was ended by ${signal ?? "a signal"}`));
    else this.#outcome.resolve({ exitCode, stdout: this.#text("stdout"), stderr: this.#text("stderr") });
  }

  #text(stream: "stdout" | "stderr"): string {
    return Buffer.concat(this.#printed[stream]).toString("utf8");
  }

  #print(stream: "stdout" | "stderr", piece: Buffer): void {
    this.#tail.add(stream, piece);
    const { outputBytesMax } = this.#bounds;
    if (this.#tail.bytes <= outputBytesMax) this.#printed[stream].push(piece);
    else this.#overrun(`printed more than ${outputBytesMax} bytes`);
  }

  #weighSoon(): Timer {
    return nodePlatform.setTimer(weighEveryMs, () => void this.#weigh(), false);
  }

  async #weigh(): Promise<void> {
    const { memoryBytesMax } = this.#bounds;
    const bytes = (await this.#child.memoryBytes()) ?? 0;
    if (bytes > memoryBytesMax) this.#overrun(`had ${bytes} bytes in memory; the most is ${memoryBytesMax}`);
    else if (this.#end === null) this.#weighing = this.#weighSoon();
  }

  #overrun(how: string): void {
    if (this.#why !== null) return;
    const text = `The command ${JSON.stringify(this.#name)} was ended: it ${how}.`;
    this.#why = new MillraceError("sandbox-overrun", text);
    void this.#child.kill();
  }
}
