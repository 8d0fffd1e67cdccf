/**
 * The store on Redis or Valkey: any number of processes on one server or a cluster, by the server's clock, at the
 * durability of its append-only file. One partition on one server has its own connection; several share theirs
 * (cluster-nodes.ts) and are put together as the partitions of any store are.
 *
 *  one partition       partition.ts ─► connection
 *  several             partitioned store ─► partition.ts, each ─► connection ─► view ─► the server that has its slot
 */
import { checkWhole, invalidOption } from "../../model/option.ts";
import { partitionsMax } from "../../model/routing/placement.ts";
import type { Placement } from "../../model/routing/placement.ts";
import type { Platform } from "../../platform/platform.ts";
import { partitionedStore } from "../../store/partitioned/partitioned-store.ts";
import type { Store } from "../../store/store.ts";
import { isDamage } from "./connection/errors.ts";
import { openSeveral } from "./connection/open-several.ts";
import { preparePartition } from "./partition.ts";
import type { PartitionOptions } from "./partition.ts";
import { findServers } from "./connection/redis-servers.ts";
import type { RedisServers } from "./connection/redis-servers.ts";

export interface RedisOptions {
  /** See redis-url.ts. */
  readonly url?: string;
  /** Instead of a URL: a client or cluster client of ioredis or iovalkey. It is copied, and the caller closes it. */
  readonly client?: unknown;
  readonly platform: Platform;
  /** What all keys begin with, in braces. */
  readonly prefix?: string;
  /** Left out: what the server gives. Strict: acknowledged writes are on disk. Relaxed: the server keeps some file. */
  readonly durability?: "strict" | "relaxed";
  /** Opens although the server may throw keys away when its memory is full. */
  readonly allowEviction?: boolean;
  /** The longest a call may take before its connection is cut and its outcome is unknown. Default: 30 s. */
  readonly callTimeoutMs?: number;
  /** An acknowledged write is on N replicas, so that a failover to one of them keeps it. Default: 0. */
  readonly replicas?: number;
  /** For the life of the store. Left out: what it was made with; a new one gets 1, on a cluster 16. */
  readonly partitions?: number;
  /** Tests drive time by their platform's clock. */
  readonly clock?: "server" | "platform";
  /** Tests place jobs where they want. */
  readonly placement?: Placement;
}

export const defaultPrefix = "millrace";
const defaultCallTimeoutMs = 30_000;
const callTimeoutMaxMs = 600_000;
const replicasMax = 100;

export async function openRedisStore(options: RedisOptions): Promise<Store> {
  const { platform, clock = "server", allowEviction = false } = options;
  const { callTimeoutMs: limitMs = defaultCallTimeoutMs } = options;
  const callTimeoutMs = checkWhole(limitMs, "callTimeoutMs", 1, callTimeoutMaxMs);
  const servers = await findServers(options, callTimeoutMs);
  const { where, isCluster } = servers;
  const given = readPartitions(options.partitions ?? servers.partitions);
  let lastNow = 0;
  const shared: PartitionOptions = {
    platform,
    where,
    prefix: checkPrefix(options.prefix ?? servers.prefix ?? defaultPrefix),
    callTimeoutMs,
    replicas: checkWhole(options.replicas ?? 0, "replicas", 0, replicasMax),
    wishes: { where, durability: options.durability ?? null, allowEviction, isCluster },
    sender: Buffer.from(platform.randomBytes(9)).toString("base64url"),
    // Never after the last time given, whatever the machine's clock does.
    now: () => (clock === "server" ? null : (lastNow = Math.max(lastNow, platform.now()))),
  };
  if (!isCluster && (given ?? 1) === 1) {
    const only = await openAlone(shared, servers, given);
    if (only !== null) return only;
  }
  const { stores, late } = await openSeveral(shared, servers, given);
  const [first] = stores as [Store];
  if (stores.length === 1) return first;
  const { placement } = options;
  return partitionedStore(stores, { platform, late, ...(placement === undefined ? {} : { placement }) });
}

/** Null for a store of several partitions, whose first one cannot be entered. */
async function openAlone(
  shared: PartitionOptions,
  { seeds, connect }: RedisServers,
  given: number | null,
): Promise<Store | null> {
  const open = (): ReturnType<typeof connect> => connect(seeds[0] as string);
  const wanted = (): string => (given === null ? "?1" : "1");
  const { store, enter } = preparePartition(shared, {
    number: 0,
    wanted,
    client: open(),
    connectListener: open,
  });
  try {
    if ((await enter()) === 1) return store;
  } catch (error) {
    if (given !== null || !isDamage(error)) {
      await store.close();
      throw error;
    }
  }
  await store.close();
  return null;
}

function readPartitions(given: number | string | null | undefined): number | null {
  if (given === undefined || given === null) return null;
  const count = typeof given === "string" && /^\d+$/.test(given) ? Number(given) : given;
  return checkWhole(count, "partitions", 1, partitionsMax);
}

export function checkPrefix(prefix: string): string {
  if (/^[^{}\p{Cc}]{1,100}$/u.test(prefix)) return prefix;
  throw invalidOption("prefix must have 1 to 100 characters, without braces and control characters.");
}
