/**
 * Records that cannot be read (upkeep/unreadable.sql.ts): calls that find one keep it as unreadable; operators read and
 * delete them.
 */
import { isMillraceError } from "../../../model/error.ts";
import type { JobFieldName, JobRow } from "../../../store/job-fields.ts";
import type { UnreadableAnswer } from "../../../store/upkeep.ts";
import type { Platform } from "../../../platform/platform.ts";
import { emptyHints } from "../../../store/watch/hints.ts";
import { callRead, callWrite, onlyRow } from "../functions/call.ts";
import type { Calls } from "../functions/call.ts";
import { readFields } from "../functions/columns.ts";
import { sqlState } from "../connection/errors.ts";
import { packText, unpackText } from "../functions/packed-values.ts";

export async function keepUnreadable(calls: Calls, ids: readonly string[] | null): Promise<number> {
  const [count] = onlyRow(
    await callWrite(calls, "keep_unreadable_v1", [ids === null ? null : ids.map(packText)]),
  );
  calls.emit({ ...emptyHints(), unreadable: Number(count) }, true);
  return Number(count);
}

const pauseUs = 60_000_000;

/**
 * Writes that are repeated if they find a value with which Postgres cannot compute: all unreadable records are kept
 * apart, and the call is made again. If there were none, the bad value came with the call itself; then further errors
 * do not start a search for a minute.
 */
export function retryingUnreadable(calls: Calls, platform: Platform): Calls["write"] {
  let pausedUntilUs = 0;
  return async (text, values, timeoutMs) => {
    try {
      return await calls.write(text, values, timeoutMs);
    } catch (error) {
      if (sqlState(error)?.startsWith("22") !== true || platform.monotonicUs() < pausedUntilUs) throw error;
      if ((await keepUnreadable(calls, null)) > 0) return calls.write(text, values, timeoutMs);
      pausedUntilUs = platform.monotonicUs() + pauseUs;
      throw error;
    }
  };
}

/** The jobs of those rows that can be read. The others are kept as unreadable, unless this user may only read. */
export async function readRows<Name extends JobFieldName, Read>(
  calls: Calls,
  rows: readonly (readonly unknown[])[],
  names: readonly Name[],
  read: (fields: Pick<JobRow, Name>) => Read,
): Promise<Read[]> {
  const found: Read[] = [];
  const bad: string[] = [];
  for (const row of rows) {
    try {
      const fields = readFields(row, names);
      // The input may be in payload, and payload may have lost it.
      if ("input" in fields && fields.input === null) throw new RangeError("the input is gone");
      found.push(read(fields));
    } catch {
      bad.push(unpackText(row[names.indexOf("id" as Name)] as string));
    }
  }
  if (bad.length > 0) await keepUnreadable(calls, bad).catch(passOverDenied);
  return found;
}

export function passOverDenied(error: unknown): void {
  if (!isMillraceError(error) || error.code !== "store-denied") throw error;
}

export async function readUnreadable(
  calls: Calls,
  { after, max }: { readonly after: string | null; readonly max: number },
): Promise<UnreadableAnswer> {
  const rows = await callRead(calls, "read_unreadable_v1", [after, max + 1]);
  const records = rows.slice(0, max).map(([ref, id, why, at, text]) => ({
    ref: ref as string,
    id: typeof id === "string" ? unpackText(id) : null,
    why: why as string,
    at: Number(at),
    text: text as string,
  }));
  return { records, cursor: rows.length > max ? (records.at(-1)?.ref ?? null) : null };
}

export async function deleteUnreadable(calls: Calls, refs: readonly string[]): Promise<number> {
  return Number(onlyRow(await callWrite(calls, "delete_unreadable_v1", [refs]))[0]);
}
