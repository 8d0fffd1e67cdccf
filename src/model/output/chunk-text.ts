/**
 * The text of a chunk of output: frames in order, as payloads that are encoded already.
 *
 *  chunk   origin ";" item*            origin: the fence with which the output begins that this chunk belongs to
 *  item    "d" length ":" payload      a frame with data
 *          "p" length ":" part         the frames after it are of this part of a durable run; at first of none
 *          "r"                         a frame that restarts the part: what it had sent is discarded
 *
 * A chunk is numbered by its last frame, so its first number follows from how many it has.
 */

/** A frame as it is written: its payload, or null where it restarts its part. */
export interface PackedFrame {
  /** The part of a durable run; null for the handler of a plain job. */
  readonly part: string | null;
  readonly payload: string | null;
}

export interface Chunk {
  readonly origin: number;
  readonly frames: readonly PackedFrame[];
}

export function beginChunk(origin: number): string {
  return `${origin};`;
}

/** @param part of the frame before in the chunk; null at its begin. */
export function packFrame({ part, payload }: PackedFrame, before: string | null): string {
  const named = part === before || part === null ? "" : `p${part.length}:${part}`;
  return payload === null ? `${named}r` : `${named}d${payload.length}:${payload}`;
}

/** Throws a RangeError for a text that is no chunk. */
export function readChunk(body: string): Chunk {
  const head = body.indexOf(";");
  const origin = Number(body.slice(0, head));
  if (head < 1 || !Number.isSafeInteger(origin)) throw new RangeError("the chunk has no origin");
  const frames: PackedFrame[] = [];
  let part: string | null = null;
  let at = head + 1;
  const text = (): string => {
    const colon = body.indexOf(":", at);
    const length = colon <= at ? Number.NaN : Number(body.slice(at, colon));
    const end = colon + 1 + length;
    if (!Number.isSafeInteger(length) || length < 0 || end > body.length)
      throw new RangeError("the chunk ends within a frame");
    at = end;
    return body.slice(colon + 1, end);
  };
  while (at < body.length) {
    const kind = body[at];
    at += 1;
    if (kind === "d") frames.push({ part, payload: text() });
    else if (kind === "p") part = text();
    else if (kind === "r") frames.push({ part, payload: null });
    else throw new RangeError("the chunk has a frame of an unknown kind");
  }
  return { origin, frames };
}
