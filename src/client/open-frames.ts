/** `mill.frames(id)` and `mill.output(id)`: the output of one job, with the options checked. */
import type { FrameReaders } from "../engine/output/frame-readers.ts";
import { noSuchJob } from "../engine/output/output-tails.ts";
import type { Needs } from "../engine/services.ts";
import type { TerminalState } from "../model/job/job-state.ts";
import type { Frame } from "../engine/output/frame-reader.ts";
import { checkName } from "../model/name.ts";
import { checkOptions, invalidOption } from "../model/option.ts";
import { firstPosition, readFrameCursor } from "../model/output/frame-cursor.ts";

export type { Frame };

export interface FramesOptions {
  /** The cursor of a frame, to go on after it. Left out: from the first frame that is kept. */
  from?: string;
  /** Ends the loop. */
  signal?: AbortSignal;
}

/**
 * The output of a job, for `for await`. It ends with the job, or if the loop is left, the signal fires or Millrace
 * closes.
 */
export type FrameStream<Value = unknown> = AsyncIterableIterator<Frame<Value>, undefined> & AsyncDisposable;

export function openFrames(readers: FrameReaders, id: string, options: FramesOptions): FrameStream {
  checkName(id, "frames: id");
  checkOptions(options, "frames", ["from", "signal"]);
  const { from, signal } = options;
  if (from !== undefined && typeof from !== "string")
    throw invalidOption("frames: from must be the cursor of a frame.");
  if (signal !== undefined && !(signal instanceof AbortSignal))
    throw invalidOption("frames: signal must be an AbortSignal.");
  return readers.open(id, from === undefined ? firstPosition : readFrameCursor(from), signal ?? null);
}

/** The output of a job at a glance. */
export interface OutputView {
  /** How many frames the attempt (or the round of a durable run) has written, also those that `keep` has dropped. */
  readonly frames: number;
  /** What the handler's merge patches make; undefined for none. */
  readonly summary: unknown;
  /** How the job has ended; null while more may come. */
  readonly ended: TerminalState | null;
}

export async function readOutputView(
  { store, coder }: Needs<"store" | "coder">,
  id: string,
): Promise<OutputView> {
  checkName(id, "output: id");
  const [answer] = await store.readFrames([{ id, after: null, max: 1 }]);
  if (answer === undefined || answer.kind === "gone") throw noSuchJob(id);
  const { chunks, summary, ended } = answer;
  return {
    frames: chunks[0]?.number ?? 0,
    summary: summary === null ? undefined : coder.decode(summary),
    ended,
  };
}
