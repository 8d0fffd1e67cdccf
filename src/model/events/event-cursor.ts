/**
 * A position in the feed of a store, as text that survives restarts. Each partition has a feed of its own, so a cursor
 * names a position in each. A record may hold many events, so a position may be inside a record.
 *
 *  cursor    "e1" and "-" position, for each partition in order
 *  position  the number of the last record that was read whole, then "." and how many events of the next one, if any;
 *            "s" before the first record that is kept, "n" after the newest one, wherever these are
 */
import { MillraceError } from "../error.ts";

export interface FeedPosition {
  /** The number of the last record that was read whole, `startPosition.after` or `nowPosition.after`. */
  readonly after: number;
  /** How many events of the next record were read. */
  readonly skip: number;
}

/** Before every record that is kept. A reader that begins here misses nothing but what was pruned. */
export const startPosition: FeedPosition = { after: -1, skip: 0 };
/** After everything that was emitted before the partition is first read. */
export const nowPosition: FeedPosition = { after: -2, skip: 0 };

const version = "e1";
const positionText = /^(?:s|n|(\d{1,15})(?:\.(\d{1,9}))?)$/;

export function writePosition({ after, skip }: FeedPosition): string {
  if (after === startPosition.after) return "s";
  if (after === nowPosition.after) return "n";
  return skip === 0 ? String(after) : `${after}.${skip}`;
}

export function writeCursor(positions: readonly FeedPosition[]): string {
  return [version, ...positions.map(writePosition)].join("-");
}

/** Throws `invalid-cursor` for a text that is no cursor of a store with this number of partitions. */
export function readCursor(text: string, partitions: number): FeedPosition[] {
  const [given, ...positions] = text.split("-");
  const read = positions.map(readPosition);
  if (given !== version || read.length === 0 || read.includes(null))
    throw new MillraceError(
      "invalid-cursor",
      `${JSON.stringify(text.slice(0, 80))} is not a cursor of events; give one that an event had.`,
    );
  if (read.length !== partitions)
    throw new MillraceError(
      "invalid-cursor",
      `The cursor is of a store with ${read.length} partitions; this one has ${partitions}.`,
    );
  return read as FeedPosition[];
}

function readPosition(text: string): FeedPosition | null {
  const found = positionText.exec(text);
  if (found === null) return null;
  if (text === "s") return startPosition;
  if (text === "n") return nowPosition;
  return { after: Number(found[1]), skip: Number(found[2] ?? 0) };
}
