/**
 * Which servers a store works on, from a URL or from a client of the caller's own, and how connections to them are
 * made.
 */
import { invalidOption } from "../../../model/option.ts";
import { clientOptions, isClient, isCluster, loadDriver } from "./driver.ts";
import type { GivenClient, RedisClient, RedisCluster } from "./driver.ts";
import { addressOf, nameOf, readRedisUrl } from "./redis-url.ts";

export interface RedisServers {
  /** How error messages name them. */
  readonly where: string;
  readonly isCluster: boolean;
  /** `host:port` of each that is known. */
  readonly seeds: readonly string[];
  readonly prefix: string | null;
  readonly partitions: string | null;
  /** A client with Millrace's settings, not connected yet. */
  readonly connect: (address: string) => RedisClient;
}

export async function findServers(
  { url, client }: { readonly url?: string; readonly client?: unknown },
  callTimeoutMs: number,
): Promise<RedisServers> {
  const own = clientOptions(callTimeoutMs);
  if (client === undefined) return namedServers(url, own);
  if (url !== undefined) throw invalidOption("Give either a URL or a client, not both.");
  const unnamed = { prefix: null, partitions: null };
  if (isCluster(client)) {
    const { seeds, connect } = await clusterServers(client, own);
    return { ...unnamed, where: "The cluster of the given client", isCluster: true, seeds, connect };
  }
  if (!isClient(client)) throw invalidOption("client must be a client of the driver ioredis or iovalkey.");
  const where = "The server of the given client";
  return { ...unnamed, where, isCluster: false, seeds: [where], connect: () => client.duplicate(own) };
}

async function namedServers(url: string | undefined, own: object): Promise<RedisServers> {
  const named = readRedisUrl(url);
  const { urls, prefix, partitions } = named;
  const { Redis } = await loadDriver();
  const [first] = urls as [string];
  const seeds = urls.map(addressOf);
  const connect = (address: string): RedisClient => {
    if (!named.isCluster) return new Redis(first, own);
    const node = new URL(first);
    node.host = address;
    return new Redis(node.href, own);
  };
  return { where: nameOf(named), isCluster: named.isCluster, seeds, prefix, partitions, connect };
}

/**
 * A cluster client is only read: its first servers, its users, passwords and certificates, and the addresses that it
 * translates.
 */
async function clusterServers(
  cluster: RedisCluster,
  own: object,
): Promise<Pick<RedisServers, "seeds" | "connect">> {
  const nodes = cluster.nodes("all");
  const started = (cluster.startupNodes ?? []).map((node) =>
    typeof node === "string" ? addressOf(node.includes("//") ? node : `redis://${node}`) : withPort(node),
  );
  const seeds = [...nodes.map(({ options }) => withPort(options)), ...started];
  if (seeds.length === 0) throw invalidOption("The given cluster client names no server to begin with.");
  const { natMap, redisOptions = {} } = cluster.options;
  const [sample] = nodes;
  const driver = sample === undefined ? await loadDriver() : null;
  const connect = (address: string): RedisClient => {
    const { host, port } = natMap?.[address] ?? splitAddress(address);
    const there = { ...own, host, port };
    return driver === null
      ? (sample as GivenClient).duplicate(there)
      : new driver.Redis({ ...redisOptions, ...there });
  };
  return { seeds: [...new Set(seeds)], connect };
}

function withPort(node: object | number): string {
  if (typeof node === "number") return `127.0.0.1:${node}`;
  const { host = "127.0.0.1", port = 6379 } = node as { host?: string; port?: number };
  return `${host}:${port}`;
}

function splitAddress(address: string): { host: string; port: number } {
  const end = address.lastIndexOf(":");
  return { host: address.slice(0, end).replace(/^\[|\]$/g, ""), port: Number(address.slice(end + 1)) };
}
