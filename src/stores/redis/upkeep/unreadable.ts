/** Records that cannot be read (unreadable.lua.ts): seen, deleted, and kept as unreadable where a read met them. */
import { emptyHints } from "../../../store/watch/hints.ts";
import type { Calls, Operation } from "../connection/call.ts";
import { fieldEnd, rowsOf, unpackText } from "../packing/value-text.ts";

const textMax = 4000;

export const readUnreadable: Operation<"readUnreadable"> = async ({ connection }, { after, max }) => {
  const flat = (await connection.read("mr1_read_unreadable", [after ?? "", String(max)])) as string[];
  const records = rowsOf<[string, string]>(flat, 2).map(([ref, record]) => {
    const [id = "", why = "", at = "", ...text] = record.split(fieldEnd);
    return {
      ref,
      id: id === "" ? null : unpackText(id),
      why,
      at: Number(at),
      text: text.join(fieldEnd).slice(0, textMax),
    };
  });
  return { records, cursor: records.length < max ? null : (records.at(-1)?.ref ?? null) };
};

export const deleteUnreadable: Operation<"deleteUnreadable"> = async ({ connection }, refs) =>
  refs.length === 0 ? 0 : Number(await connection.write("mr1_delete_unreadable", refs));

/**
 * A read met jobs that it could not read, or entries where no job belongs. It has passed over them; whoever meets them
 * next tries again where this fails, so that the read does not fail with it.
 */
export async function repair(calls: Calls, handles: readonly string[]): Promise<void> {
  if (handles.length === 0) return;
  const kept = (await calls.connection.write("mr1_repair", handles).catch(() => 0)) as number;
  calls.hint({ ...emptyHints(), unreadable: kept });
}

/** The same for ids whose job could not be read, or was kept as unreadable before: its record gets the id. */
export async function repairIds({ connection }: Calls, packedIds: readonly string[]): Promise<void> {
  if (packedIds.length === 0) return;
  await connection.write("mr1_repair_ids", packedIds).catch(() => undefined);
}
