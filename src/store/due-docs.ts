/** Pages of due documents, equal in every store: by due time, kind and id, with the last one as the cursor. */
import type { ReadDueDocsAnswer } from "./operations.ts";
import type { Doc } from "./records.ts";

type DuePlace = Readonly<{ dueAt: number; kind: string; id: string }>;

export function cursorOf({ dueAt, kind, id }: Doc): string {
  return JSON.stringify([dueAt, kind, id]);
}

/** The position after which to go on; without a cursor a position before every document. */
export function placeOfCursor(cursor: string | null): DuePlace {
  if (cursor === null) return { dueAt: Number.MIN_SAFE_INTEGER, kind: "", id: "" };
  const [dueAt, kind, id] = JSON.parse(cursor) as [number, string, string];
  return { dueAt, kind, id };
}

/** @param read one more than the page may have, if there are that many: it shows whether anything is left. */
export function dueDocsPage(read: readonly Doc[], max: number): Pick<ReadDueDocsAnswer, "docs" | "cursor"> {
  const docs = read.slice(0, max);
  const last = docs.at(-1);
  return { docs, cursor: read.length > max && last !== undefined ? cursorOf(last) : null };
}
