/**
 * The values of gauges: the size of the store's schema with indexes and large values, how many connections the database
 * has, and how long the first ready job of each route has waited.
 */
import { stateCodes } from "../../../model/job/job-state.ts";
import type { ReadyHead, StoreMeasure } from "../../../store/store.ts";
import type { Database } from "./database.ts";
import { unpackText } from "../functions/packed-values.ts";
import { sql } from "../../../store/sql.ts";

/** Input: the schema. Answer: bytes of its tables, connections to the database. */
const text = sql`SELECT coalesce(sum(pg_catalog.pg_total_relation_size(c.oid)), 0),
    (SELECT count(*) FROM pg_catalog.pg_stat_activity WHERE datname = current_database())
  FROM pg_catalog.pg_class c JOIN pg_catalog.pg_namespace n ON n.oid = c.relnamespace
  WHERE n.nspname = $1 AND c.relkind IN ('r', 'm')`;

export async function measureDatabase(database: Database, schema: string): Promise<readonly StoreMeasure[]> {
  const [row] = await database.read(text, [schema]);
  return [{ server: database.where, sizeBytes: Number(row?.[0] ?? 0), connections: Number(row?.[1] ?? 0) }];
}

/** Jobs with a lane are not ordered by route in any index, so this many of the oldest jobs are read. */
const lanedMax = 1000;
const ready = `state = ${stateCodes.ready}`;

/**
 * Input: the time, if the machine's clock is the store's, else null. Answer: for each route with ready jobs its queue,
 * packed, and how long the first job has been due.
 */
const headsText = (schema: string): string => sql`
  WITH at AS (SELECT ${schema}.begin_v1($1, NULL) AS now), oldest AS (
    SELECT route, min(due_at) AS due_at
      FROM (SELECT route, due_at, state, lane_key FROM ${schema}.waiting ORDER BY seq LIMIT ${lanedMax}) w
      WHERE ${ready} AND lane_key IS NOT NULL GROUP BY route)
  SELECT r.queue, greatest(0, at.now - least(first.due_at, oldest.due_at)) FROM at
    CROSS JOIN (SELECT DISTINCT route FROM ${schema}.state_count WHERE ${ready}) t
    JOIN ${schema}.route r ON r.number = t.route
    LEFT JOIN LATERAL (SELECT due_at FROM ${schema}.waiting w WHERE w.route = t.route AND ${ready} AND lane_key IS NULL
      ORDER BY rank, seq LIMIT 1) first ON true
    LEFT JOIN oldest ON oldest.route = t.route
    WHERE coalesce(first.due_at, oldest.due_at) IS NOT NULL`;

export async function readHeads(
  database: Database,
  schema: string,
  now: number | null,
): Promise<readonly ReadyHead[]> {
  const rows = await database.read(headsText(schema), [now]);
  return rows.map(([queue, ageMs]) => ({ queue: unpackText(queue as string), ageMs: Number(ageMs) }));
}
