/** How large the store's schema is, with indexes and large values, and how many are connected to the database. */
import type { StoreMeasure } from "../../store/store.ts";
import type { Database } from "./database.ts";

/** Input: the schema. Answer: bytes of its tables, connections to the database. */
const text = `SELECT coalesce(sum(pg_catalog.pg_total_relation_size(c.oid)), 0),
    (SELECT count(*) FROM pg_catalog.pg_stat_activity WHERE datname = current_database())
  FROM pg_catalog.pg_class c JOIN pg_catalog.pg_namespace n ON n.oid = c.relnamespace
  WHERE n.nspname = $1 AND c.relkind IN ('r', 'm')`;

export async function measureDatabase(database: Database, schema: string): Promise<readonly StoreMeasure[]> {
  const [row] = await database.read(text, [schema]);
  return [{ server: database.where, sizeBytes: Number(row?.[0] ?? 0), connections: Number(row?.[1] ?? 0) }];
}
