/**
 * Reads the output of one job for one reader: the frames of each page in order, and what the reader must know besides.
 *
 *  data        a frame of the handler
 *  restarted   the job begins its output anew, or one part of a durable run does; or frames that were not read are no
 *              longer kept. What was read is discarded: of that part, or all
 *  ended       the job has ended, and nothing more comes
 */
import { MillraceError } from "../../model/error.ts";
import type { TerminalState } from "../../model/job/job-state.ts";
import { readChunk } from "../../model/output/chunk-text.ts";
import type { Chunk } from "../../model/output/chunk-text.ts";
import { firstPosition, writeFrameCursor } from "../../model/output/frame-cursor.ts";
import type { FramePosition } from "../../model/output/frame-cursor.ts";
import type { FrameChunk } from "../../store/records.ts";
import type { Needs } from "../services.ts";
import type { OutputTails, PageWaiter } from "./output-tails.ts";

interface AnyFrame {
  /** The position after this frame, to go on from: `mill.frames(id, { from: cursor })`. */
  readonly cursor: string;
}

export type Frame<Value = unknown> =
  | (AnyFrame & {
      readonly kind: "data";
      readonly value: Value;
      /** When the store had it. */
      readonly at: Date;
      /** Of a durable run: the step that wrote it, or the code between two steps. Null for any other job. */
      readonly part: string | null;
    })
  /** Discard what this part had sent; everything if it is null. */
  | (AnyFrame & { readonly kind: "restarted"; readonly part: string | null })
  | (AnyFrame & { readonly kind: "ended"; readonly state: TerminalState });

export interface FrameReaderOptions {
  readonly id: string;
  readonly after: FramePosition;
  readonly reader: PageWaiter;
}

export async function* readOutput(
  tails: OutputTails,
  { coder }: Needs<"coder">,
  { id, after, reader }: FrameReaderOptions,
): AsyncGenerator<Frame, undefined> {
  const tail = tails.join(id);
  try {
    let position = after;
    for (;;) {
      const page = await tail.pageAfter(position, reader);
      if (page === null) return;
      for (const stored of page.chunks) {
        const chunk = chunkOf(id, stored);
        const { fence, number: last } = stored;
        let number = last - chunk.frames.length;
        if (isNewBegin(position, chunk, { fence, number })) {
          position = { fence, number };
          yield { kind: "restarted", cursor: writeFrameCursor(position), part: null };
        }
        const at = new Date(stored.at);
        for (const { part, payload } of chunk.frames) {
          number += 1;
          // A cursor may be inside of a chunk.
          if (number <= position.number && position.fence === fence) continue;
          const cursor = writeFrameCursor({ fence, number });
          if (payload === null) yield { kind: "restarted", cursor, part };
          else yield { kind: "data", cursor, value: coder.decode(payload), at, part };
        }
        position = { fence, number: last };
      }
      if (page.ended === null) continue;
      yield { kind: "ended", cursor: writeFrameCursor(position), state: page.ended };
      return;
    }
  } finally {
    tails.leave(tail);
  }
}

/**
 * Whether the frames after `before` do not follow those that were read: another attempt began the output anew, or
 * frames between are no longer kept. A new reader begins with what is there.
 */
function isNewBegin(position: FramePosition, { origin }: Chunk, before: FramePosition): boolean {
  if (position.fence === firstPosition.fence) return false;
  return origin > position.fence || before.number > position.number;
}

function chunkOf(id: string, { fence, number, body }: FrameChunk): Chunk {
  try {
    return readChunk(body);
  } catch (cause) {
    const message = `The chunk ${fence}-${number} of the output of ${id} cannot be read.`;
    throw new MillraceError("payload-unreadable", message, { cause });
  }
}
