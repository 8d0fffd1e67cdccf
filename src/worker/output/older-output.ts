/**
 * What the earlier stays of a durable run have written, for a stay that goes on with it. It is read once, and only by a
 * stay that writes output itself.
 */
import type { Needs } from "../../engine/services.ts";
import { readChunk } from "../../model/output/chunk-text.ts";
import type { FramePlace } from "../../store/records.ts";

export interface OlderOutput {
  /** The fence with which it begins; null for no output. */
  readonly origin: number | null;
  /** The number of the last frame. */
  readonly last: number;
  readonly frames: number;
  readonly chars: number;
  readonly parts: ReadonlySet<string>;
  readonly chunks: readonly { readonly place: FramePlace; readonly frames: number; readonly chars: number }[];
  readonly summary: unknown;
}

const pageMax = 16;

export async function readOlder(
  { outputs, coder }: Needs<"outputs" | "coder">,
  id: string,
): Promise<OlderOutput> {
  const chunks: { place: FramePlace; frames: number; chars: number }[] = [];
  const parts = new Set<string>();
  let origin: number | null = null;
  let after: FramePlace = { fence: 0, number: 0 };
  for (;;) {
    const page = await outputs.add({ id, after, max: pageMax });
    if (page.kind === "gone") break;
    for (const { fence, number, body } of page.chunks) {
      const chunk = readChunk(body);
      origin = chunk.origin;
      after = { fence, number };
      chunks.push({ place: after, frames: chunk.frames.length, chars: body.length });
      for (const { part } of chunk.frames) if (part !== null) parts.add(part);
    }
    if (page.chunks.length === pageMax) continue;
    const summary = page.summary === null ? undefined : coder.decode(page.summary);
    const sum = (of: (chunk: (typeof chunks)[number]) => number): number =>
      chunks.reduce((all, chunk) => all + of(chunk), 0);
    const counts = { frames: sum((chunk) => chunk.frames), chars: sum((chunk) => chunk.chars) };
    return { origin, last: after.number, ...counts, parts, chunks, summary };
  }
  return { origin: null, last: 0, frames: 0, chars: 0, parts, chunks: [], summary: undefined };
}
