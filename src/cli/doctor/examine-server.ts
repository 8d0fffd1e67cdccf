/**
 * What doctor reads of the server that a store lives on, beyond what the store itself reports. The code for each kind
 * of server is loaded when it is needed, because every command would pay for it otherwise.
 */
import type { Platform } from "../../platform/platform.ts";
import type { PostgresCondition } from "../../stores/postgres/connection/examine.ts";
import type { RedisCondition } from "../../stores/redis/upkeep/examine.ts";
import type { Finding } from "./finding.ts";

interface ServerReport {
  /** The facts under the name of the store's kind, for the JSON document. */
  readonly condition:
    | { readonly postgres: PostgresCondition }
    | { readonly redis: RedisCondition }
    | Readonly<Record<string, never>>;
  /** One line per server, for people. */
  readonly lines: readonly string[];
  readonly findings: readonly Finding[];
}

export async function examineServer(kind: string, url: string, platform: Platform): Promise<ServerReport> {
  if (kind === "postgres") {
    const { examine, postgresFindings } = await import("./postgres-findings.ts");
    const postgres = await examine(url, platform);
    const { open, max } = postgres.connections;
    const line = `Postgres ${postgres.server}, ${open} of ${max} connections in use`;
    return { condition: { postgres }, lines: [line], findings: postgresFindings(postgres) };
  }
  if (kind === "redis") {
    const { examine, redisFindings, serverLines } = await import("./redis-findings.ts");
    const redis = await examine({ url, platform });
    return { condition: { redis }, lines: serverLines(redis), findings: redisFindings(redis) };
  }
  return { condition: {}, lines: [], findings: [] };
}
