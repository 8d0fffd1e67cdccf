/**
 * What an operator wants to know of the servers and of the keys, beyond what a store answers: persistence and its last
 * errors, room in memory and for connections, how large each kind of key is, and keys that belong to no job. Only
 * reads: loads no library and enters nothing, so it also looks at a server that has no store yet. What a user may not
 * ask is left unknown.
 */
import { isMillraceError, MillraceError } from "../../../model/error.ts";
import type { Platform } from "../../../platform/platform.ts";
import { openConnection } from "../connection/connection.ts";
import type { Connection } from "../connection/connection.ts";
import { clusterPartitions } from "../connection/open-several.ts";
import { readKeys } from "./examine-keys.ts";
import type { PartitionCondition } from "./examine-keys.ts";
import { layoutVersion } from "../library/library.ts";
import { tagOf } from "../partition.ts";
import { findServers } from "../connection/redis-servers.ts";
import { checkPrefix, defaultPrefix } from "../redis-store.ts";
import { readWords, worthOf } from "../connection/server-check.ts";
import type { ServerFacts } from "../connection/server-check.ts";
import { readOwners } from "../connection/cluster-slot.ts";

export interface ServerCondition {
  readonly address: string;
  /** "Redis 7.0.15", "Valkey 8.0.1". */
  readonly server: string;
  readonly acknowledged: string;
  readonly durability: ServerFacts["durability"];
  readonly writesFile: boolean;
  /** Of those that went wrong the last time: "append-only file", "rewrite", "snapshot". */
  readonly failedWrites: readonly string[];
  readonly evictionPolicy: string;
  readonly memory: { readonly usedBytes: number; readonly maxBytes: number; readonly isLimited: boolean };
  readonly connections: { readonly open: number; readonly max: number };
  readonly replicas: number;
  /** Build and digest of the library that is loaded; null for none. */
  readonly library: string | null;
  readonly partitions: readonly PartitionCondition[];
}

export interface RedisCondition {
  readonly prefix: string;
  readonly servers: readonly ServerCondition[];
}

export interface ExamineOptions {
  readonly url: string;
  readonly platform: Platform;
}

const callTimeoutMs = 30_000;

/** Those that answer. */
export function examineRedis(options: ExamineOptions): Promise<RedisCondition> {
  return look(options, async (servers, prefix) => {
    const conditions: ServerCondition[] = [];
    let trouble: unknown = null;
    for (const { address, ask } of servers)
      await examineServer(address, ask, prefix).then(
        (condition) => conditions.push(condition),
        (error: unknown) => (trouble = ifAway(error)),
      );
    if (conditions.length === 0) throw trouble;
    return { prefix, servers: conditions };
  });
}

/**
 * From 0 where the prefix has no store. Throws for a store of a newer layout and for keys of another program. On a
 * cluster any of its partitions will do: the server of the first may be away.
 */
export function readRedisVersion(options: ExamineOptions): Promise<{ from: number; to: number }> {
  return look(options, async (servers, prefix) => {
    let trouble: unknown = null;
    for (const { ask } of servers) {
      const found = await readMeta(ask, prefix, servers.length > 1 ? clusterPartitions : 1).catch(
        (error: unknown) => {
          trouble = ifAway(error);
          return null;
        },
      );
      if (found === null) continue;
      const [kind, version] = found;
      const from = Number(version);
      if (kind !== "millrace" || !Number.isInteger(from) || from < 1) {
        const sentence = `The prefix ${prefix} has keys of another program. Choose another prefix.`;
        throw new MillraceError("not-a-store", sentence);
      }
      if (from <= layoutVersion) return { from, to: layoutVersion };
      const sentence = `The prefix ${prefix} holds a store of a newer Millrace (layout ${from}, this one knows ${layoutVersion}). Upgrade this process.`;
      throw new MillraceError("schema-newer", sentence);
    }
    if (trouble !== null) throw trouble;
    return { from: 0, to: layoutVersion };
  });
}

/** Of the first partition that is there, on this server. */
async function readMeta(
  ask: Connection["ask"],
  prefix: string,
  partitions: number,
): Promise<readonly (string | null)[] | null> {
  for (let number = 0; number < partitions; number++) {
    const meta = `${tagOf(prefix, number)}:meta`;
    const answer = (await ask("HMGET", [meta, "kind", "version"]).catch(elsewhere)) as
      | (string | null)[]
      | null;
    if (answer?.some((field) => field !== null) === true) return answer;
  }
  return null;
}

/** A server of a cluster that is away keeps nobody from the others. */
function ifAway(error: unknown): unknown {
  if (isMillraceError(error, "store-unavailable")) return error;
  throw error;
}

/** A server of a cluster that does not have the key says who does. */
function elsewhere(error: unknown): null {
  if (error instanceof Error && /^(MOVED|ASK) /.test(error.message)) return null;
  throw error;
}

interface Asked {
  readonly address: string;
  readonly ask: Connection["ask"];
}

async function look<Answer>(
  { url, platform }: ExamineOptions,
  use: (servers: readonly Asked[], prefix: string) => Promise<Answer>,
): Promise<Answer> {
  const servers = await findServers({ url }, callTimeoutMs);
  const { where, seeds, isCluster } = servers;
  const prefix = checkPrefix(servers.prefix ?? defaultPrefix);
  const opened: Connection[] = [];
  const open = (address: string): Asked => {
    const check = async (): Promise<{ waitsForFile: boolean }> => ({ waitsForFile: false });
    const nothing = { tag: "", sender: "", now: () => null, replicas: 0, partitions: () => "", check };
    const client = servers.connect(address);
    const connection = openConnection({ client, platform, where, callTimeoutMs, ...nothing });
    opened.push(connection);
    return { address, ask: (command, args) => connection.ask(command, args) };
  };
  try {
    if (!isCluster) return await use([open(seeds[0] as string)], prefix);
    return await use((await primaries(seeds.map(open))).map(open), prefix);
  } finally {
    await Promise.all(opened.map((connection) => connection.close()));
  }
}

/** Those that own slots, as the first server that answers says. */
async function primaries(seeds: readonly Asked[]): Promise<readonly string[]> {
  let trouble: unknown = null;
  for (const { ask, address: asked } of seeds) {
    try {
      const owners = readOwners(await ask("CLUSTER", ["SLOTS"]), asked);
      return [...new Set(owners.map(({ address }) => address))];
    } catch (error) {
      trouble = error;
    }
  }
  throw trouble;
}

const statuses = [
  ["aof_last_write_status", "append-only file"],
  ["aof_last_bgrewrite_status", "rewrite of the append-only file"],
  ["rdb_last_bgsave_status", "snapshot"],
] as const;

async function examineServer(
  address: string,
  ask: Connection["ask"],
  prefix: string,
): Promise<ServerCondition> {
  const words = await readWords(ask);
  const { info } = words;
  const number = (name: string): number => Number(info.get(name) ?? 0);
  const valkey = info.get("valkey_version");
  const library = await ask("FCALL", ["mr1_build", "0"]).catch(() => null);
  const maxBytes = number("maxmemory");
  return {
    address,
    server: valkey === undefined ? `Redis ${info.get("redis_version") ?? "?"}` : `Valkey ${valkey}`,
    ...worthOf(words),
    writesFile: info.get("aof_enabled") === "1",
    failedWrites: statuses.filter(([name]) => info.get(name) === "err").map(([, what]) => what),
    evictionPolicy: info.get("maxmemory_policy") ?? "unknown",
    memory: {
      usedBytes: number("used_memory"),
      maxBytes: maxBytes > 0 ? maxBytes : number("total_system_memory"),
      isLimited: maxBytes > 0,
    },
    connections: { open: number("connected_clients"), max: number("maxclients") },
    replicas: number("connected_slaves"),
    library: library === null ? null : String(library),
    partitions: await readKeys(ask, prefix),
  };
}
