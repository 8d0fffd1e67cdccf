/**
 * A place in the feed of a store, as text that survives restarts. Each partition has a feed of its own, so a cursor
 * names a place in each; a record may tell many events, so a place may lie inside one.
 *
 *  cursor    "e1" and "-" place, for each partition in order
 *  place     the number of the last record that was read whole, then "." and how many events of the next one, if any;
 *            "s" before the first record that is kept, "n" behind the newest one, wherever these are
 */
import { MillraceError } from "./error.ts";

export interface FeedPlace {
  /** The number of the last record that was read whole, `startPlace.after` or `nowPlace.after`. */
  readonly after: number;
  /** How many events of the record behind it were read. */
  readonly skip: number;
}

/** Before everything that is kept; nothing is missed by beginning here, whatever was pruned. */
export const startPlace: FeedPlace = { after: -1, skip: 0 };
/** Behind everything that was told by the time the partition is first read. */
export const nowPlace: FeedPlace = { after: -2, skip: 0 };

const version = "e1";
const placeText = /^(?:s|n|(\d{1,15})(?:\.(\d{1,9}))?)$/;

export function writePlace({ after, skip }: FeedPlace): string {
  if (after === startPlace.after) return "s";
  if (after === nowPlace.after) return "n";
  return skip === 0 ? String(after) : `${after}.${skip}`;
}

export function writeCursor(places: readonly FeedPlace[]): string {
  return [version, ...places.map(writePlace)].join("-");
}

/** Throws `invalid-cursor` for a text that no store of so many partitions has given. */
export function readCursor(text: string, partitions: number): FeedPlace[] {
  const [given, ...places] = text.split("-");
  const read = places.map(readPlace);
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
  return read as FeedPlace[];
}

function readPlace(text: string): FeedPlace | null {
  const found = placeText.exec(text);
  if (found === null) return null;
  if (text === "s") return startPlace;
  if (text === "n") return nowPlace;
  return { after: Number(found[1]), skip: Number(found[2] ?? 0) };
}
