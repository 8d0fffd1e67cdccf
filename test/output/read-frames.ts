/** Reads output for tests. */
import type { Frame, FramesOptions, FrameStream } from "../../src/index.ts";

interface Mill {
  frames(id: string, options?: FramesOptions): FrameStream;
}

/** All frames until the end of the job. */
export async function readToEnd(mill: Mill, id: string, options: FramesOptions = {}): Promise<Frame[]> {
  const frames: Frame[] = [];
  for await (const frame of mill.frames(id, options)) frames.push(frame);
  return frames;
}

/** Short: values of data, "restarted" with its part, "ended" with the state. */
export const textOf = (frame: Frame): unknown =>
  frame.kind === "data"
    ? frame.value
    : frame.kind === "restarted"
      ? `restarted ${frame.part ?? "all"}`
      : `ended ${frame.state}`;

/** What a page shows that does what the frames say. */
export function shownBy(frames: readonly Frame[]): unknown[] {
  let shown: { readonly value: unknown; readonly part: string | null }[] = [];
  for (const frame of frames) {
    if (frame.kind === "data") shown.push(frame);
    if (frame.kind === "restarted")
      shown = frame.part === null ? [] : shown.filter(({ part }) => part !== frame.part);
  }
  return shown.map(({ value }) => value);
}
