/**
 * The store on Redis or Valkey: any number of processes on one server or a cluster, by the server's clock, at the
 * durability of its append-only file. One partition on one server has its own connection; several share theirs
 * (cluster-nodes.ts) and are put together as the partitions of any store are.
 *
 *  one partition       partition.ts ─► connection
 *  several             partitioned store ─► partition.ts, each ─► connection ─► view ─► the server that has its slot
 */
import { isMillraceError, MillraceError } from "../../model/error.ts";
import { checkWhole, invalidOption } from "../../model/option.ts";
import { partitionsMax } from "../../model/placement.ts";
import type { Placement } from "../../model/placement.ts";
import type { Platform } from "../../platform/platform.ts";
import { partitionedStore } from "../../store/partitioned/partitioned-store.ts";
import type { Store } from "../../store/store.ts";
import { ClusterNodes } from "./cluster-nodes.ts";
import { slotOf } from "./cluster-slot.ts";
import { openPartition, tagOf } from "./partition.ts";
import type { OpenPartition, Opening, PartitionOptions } from "./partition.ts";
import { findServers } from "./redis-servers.ts";
import type { RedisServers } from "./redis-servers.ts";

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
  /** An acknowledged write is on so many replicas, so that a failover to one of them keeps it. Default: 0. */
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
/** Slots with large hashes move badly, and few of them spread badly over servers. */
const clusterPartitions = 16;

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
    // Never behind the last time given, whatever the machine's clock does.
    now: () => (clock === "server" ? null : (lastNow = Math.max(lastNow, platform.now()))),
  };
  const wanted = given === null ? `?${isCluster ? clusterPartitions : 1}` : String(given);
  if (!isCluster && (given ?? 1) === 1) {
    const only = await openAlone(shared, servers, wanted);
    if (only.partitions === 1) return only.store;
    await only.store.close();
  }
  const stores = await openSeveral(shared, servers, wanted);
  const [first] = stores as [Store];
  if (stores.length === 1) return first;
  const { placement } = options;
  return partitionedStore(stores, { platform, ...(placement === undefined ? {} : { placement }) });
}

function openAlone(
  shared: PartitionOptions,
  { seeds, connect }: RedisServers,
  wanted: string,
): Promise<OpenPartition> {
  const open = (): ReturnType<typeof connect> => connect(seeds[0] as string);
  return openPartition(shared, { number: 0, wanted, client: open(), connectListener: open });
}

async function openSeveral(
  shared: PartitionOptions,
  servers: RedisServers,
  wanted: string,
): Promise<readonly Store[]> {
  const { platform, prefix } = shared;
  const { seeds, connect, isCluster } = servers;
  const nodes = new ClusterNodes({ platform, seeds, connect, kind: isCluster ? "cluster" : "alone" });
  let listening: ClusterNodes | null = null;
  const connectListener = (): ReturnType<typeof connect> => {
    const kind = isCluster ? "any" : "alone";
    listening ??= new ClusterNodes({ platform, seeds, connect, kind, addresses: () => nodes.addresses });
    return listening.view(null);
  };
  const opening = (number: number, count: string): Opening => ({
    number,
    wanted: count,
    client: nodes.view(slotOf(tagOf(prefix, number))),
    connectListener,
  });
  const { store: first, partitions } = await openPartition(shared, opening(0, wanted));
  const others = await Promise.allSettled(
    Array.from({ length: partitions - 1 }, (_, index) =>
      openPartition(shared, opening(index + 1, String(partitions))),
    ),
  );
  const stores = [
    first,
    ...others.flatMap((each) => (each.status === "fulfilled" ? [each.value.store] : [])),
  ];
  const failedAt = others.findIndex((each) => each.status === "rejected");
  if (failedAt >= 0) {
    await Promise.all(stores.map((store) => store.close()));
    throw inPartition((others[failedAt] as PromiseRejectedResult).reason, failedAt + 1, partitions);
  }
  return stores;
}

/** The same error, saying which of several partitions it is about. */
function inPartition(error: unknown, number: number, partitions: number): unknown {
  if (!isMillraceError(error)) return error;
  const { code, message, outcome, cause } = error;
  const sentence = `Partition ${number} of ${partitions} cannot be opened. ${message}`;
  return new MillraceError(code, sentence, { outcome, ...(cause === undefined ? {} : { cause }) });
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
