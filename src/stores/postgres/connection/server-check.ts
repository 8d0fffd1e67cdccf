/**
 * Checks a server before anything is written there: its version, and the settings on which the promises depend. If the
 * server would break a promise, it is refused at once with the name of the setting, instead of failing later.
 */
import { MillraceError } from "../../../model/error.ts";
import type { ErrorCode } from "../../../model/error.ts";
import type { Calls } from "../functions/call.ts";
import type { Database } from "./database.ts";
import { sql } from "../../../store/sql.ts";

const oldestVersion = 140_000;

const settingsText = sql`
  SELECT current_setting('server_version_num'), pg_is_in_recovery(), current_setting('fsync'),
    current_setting('synchronous_commit'), current_setting('default_transaction_isolation'),
    current_setting('default_transaction_read_only'), current_setting('server_encoding'),
    current_setting('full_page_writes')`;

export interface ServerFacts {
  readonly commit: Calls["commit"];
  readonly warnings: readonly string[];
}

export async function checkServer(
  database: Database,
  durability: "strict" | "relaxed",
): Promise<ServerFacts> {
  const [row] = await database.read(settingsText);
  const [version, isReplica, fsync, synchronousCommit, isolation, isReadOnly, encoding, fullPages] =
    row as string[];
  const refuse = (code: ErrorCode, sentence: string): MillraceError =>
    new MillraceError(code, `${database.where} ${sentence}`);
  if (Number(version) < oldestVersion)
    throw refuse(
      "store-too-old",
      `is Postgres ${Math.floor(Number(version) / 10_000)}; Millrace needs 14 or newer.`,
    );
  if (isReplica === "t" || isReadOnly === "on") {
    const why = isReplica === "t" ? "is a replica" : "has default_transaction_read_only on";
    throw refuse("store-read-only", `${why}, so nothing can be written there. Name the primary.`);
  }
  if (encoding !== "UTF8")
    throw refuse("store-misconfigured", `has the encoding ${encoding}; Millrace needs a database in UTF8.`);
  if (isolation !== "read committed")
    throw refuse(
      "store-misconfigured",
      `has default_transaction_isolation "${isolation}"; Millrace locks first and reads after, which needs "read committed". Set it for this user: ALTER ROLE ... SET default_transaction_isolation = 'read committed'.`,
    );
  if (durability === "strict" && fsync === "off")
    throw refuse(
      "durability-refused",
      'runs with fsync off, so an acknowledged write may be lost. Turn fsync on, or open the store with durability "relaxed".',
    );
  const warnings: string[] = [];
  if (fsync === "off") warnings.push("fsync is off: a crash of the machine may damage the whole database.");
  if (fullPages === "off")
    warnings.push("full_page_writes is off: a torn page after a power loss cannot be repaired.");
  if (durability === "relaxed")
    warnings.push(
      "Durability is relaxed: a crash of the server may take the last moments of acknowledged work.",
    );
  const isLazy = synchronousCommit === "off";
  const commit = durability === "relaxed" ? (isLazy ? null : "off") : isLazy ? "on" : null;
  return { commit, warnings };
}

/**
 * A dump that was restored on another server brings an old state under the same tables. The cluster's identity then
 * differs, and the epoch grows, so that no fence is given twice. Answers the epoch. For a user who may only read, the
 * epoch stays as it is.
 */
export async function enterEpoch(database: Database, schema: string): Promise<number> {
  const [found] = await database.read(
    `SELECT has_table_privilege('${schema}.meta', 'INSERT'), value FROM ${schema}.meta WHERE name = 'epoch'`,
  );
  if (found?.[0] === "f") return Number(found[1]);
  const [identity] = await database
    .read("SELECT system_identifier FROM pg_control_system()")
    .catch(() => [[null]]);
  const cluster = identity?.[0] ?? "unknown";
  const text = sql`
    INSERT INTO ${schema}.meta VALUES ('cluster', $1) ON CONFLICT (name) DO UPDATE SET value = excluded.value
    WHERE meta.value <> excluded.value RETURNING xmax::text <> '0'`;
  const [row] = await database.write(text, [cluster]);
  if (row?.[0] === "t") await database.write(`DELETE FROM ${schema}.alive`);
  const [epoch] = await database.write(`SELECT ${schema}.epoch_v1()`);
  return Number(epoch?.[0]);
}
