/** Entries of a journal as append_v1 reads them (journal/entry.sql.ts). */
import type { EntryPut } from "../../../store/records.ts";
import { packText } from "../functions/packed-values.ts";

export function entryOf({ key, body, marks, unread, reads }: EntryPut): object {
  return { key: packText(key), body: packText(body), marks, unread: unread || undefined, reads };
}
