/**
 * Entries as stores keep them. A store reads no body; it gets what it has to know of one as numbers: which marks the
 * entry sets, how large it is as long as nobody has read it, and which entries it reads.
 */
import { durableMarks } from "./durable-marks.ts";
import { isEntryKind } from "./journal-entry.ts";
import type { EntryBody, JournalEntry, NewEntry } from "./journal-entry.ts";

/** An entry for a store (`EntryPut` of the store contract). */
export interface EntryText {
  readonly key: string;
  readonly body: string;
  readonly marks?: number;
  readonly unread?: number;
  readonly reads?: readonly number[];
}

export function writeEntry({ key, body }: NewEntry): EntryText {
  const text = JSON.stringify(body);
  const marks = marksOf(body);
  const reads = readBy(body);
  return {
    key,
    body: text,
    ...(marks === 0 ? {} : { marks }),
    ...(reads.length === 0 ? {} : { reads }),
    ...(body.kind === "signal" ? { unread: text.length } : {}),
  };
}

/** @throws SyntaxError or TypeError if the body is damaged, or of a newer version */
export function readEntry({
  number,
  at,
  key,
  body,
}: {
  readonly number: number;
  readonly at: number;
  readonly key: string;
  readonly body: string;
}): JournalEntry {
  const read = JSON.parse(body) as EntryBody | null;
  if (!isEntryKind(read?.kind)) throw new TypeError(`The entry ${number} of the journal cannot be read.`);
  return { number, at, key, body: read as EntryBody };
}

function marksOf(body: EntryBody): number {
  switch (body.kind) {
    case "ending":
      return durableMarks.isEnding;
    case "result":
      return body.hasUndo === true ? durableMarks.hasUndo : 0;
    case "opened":
      return body.as === "invoke" ? durableMarks.hasChildren : 0;
    default:
      return 0;
  }
}

/** The numbers of the signals that no wait is offered any more once this entry is there. */
function readBy(body: EntryBody): readonly number[] {
  switch (body.kind) {
    case "arrived":
    case "refused":
      return [body.signal];
    case "decided":
      return body.signals;
    default:
      return [];
  }
}
