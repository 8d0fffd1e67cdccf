/**
 * A position in the output of a job, as text that survives restarts: "f1-", the fence of the attempt, "-", and the
 * number of the last frame that was read in it.
 */
import { MillraceError } from "../error.ts";

/** After the frame of this number, in the attempt with this fence. */
export interface FramePosition {
  readonly fence: number;
  readonly number: number;
}

/** Before all that is kept. */
export const firstPosition: FramePosition = { fence: 0, number: 0 };

const cursorText = /^f1-(\d{1,16})-(\d{1,16})$/;

export function writeFrameCursor({ fence, number }: FramePosition): string {
  return `f1-${fence}-${number}`;
}

/** Throws `invalid-cursor` for any other text. */
export function readFrameCursor(text: string): FramePosition {
  const [, fence, number] = cursorText.exec(text) ?? [];
  const position = { fence: Number(fence), number: Number(number) };
  if (Number.isSafeInteger(position.fence) && Number.isSafeInteger(position.number)) return position;
  throw new MillraceError(
    "invalid-cursor",
    `${JSON.stringify(text.slice(0, 80))} is not a cursor of frames; give one that a frame had.`,
  );
}
