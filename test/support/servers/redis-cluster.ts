/**
 * A real cluster on loopback: three primaries, each with a replica, made by CLUSTER commands. Ports are free ones,
 * folders temporary, and every server is ended by its own process.
 */
import { Redis } from "ioredis";
import { freePort } from "./free-port.ts";
import { startRedis } from "./redis-server.ts";
import type { RedisServer } from "./redis-server.ts";
import { until } from "../until.ts";

export interface RedisCluster {
  /** Names the first two primaries. */
  readonly url: string;
  readonly primaries: readonly ClusterMember[];
  readonly replicas: readonly ClusterMember[];
  /** The primary that owns the slot, as another server sees it. */
  ownerOf(slot: number): Promise<ClusterMember>;
  stop(): Promise<void>;
}

export interface ClusterMember {
  readonly server: RedisServer;
  readonly admin: Redis;
  readonly id: string;
}

const slotCount = 16_384;
const size = 3;
/**
 * Longer than a busy machine leaves a server without a processor: a member that has not greeted by then is forgotten,
 * and nobody asks it again.
 */
const joinMaxMs = 5000;

export interface RedisClusterOptions {
  /** How long a primary is silent before the others call it down and its replica takes its place. */
  readonly nodeTimeoutMs?: number;
}

export async function startRedisCluster(options: RedisClusterOptions = {}): Promise<RedisCluster> {
  const { nodeTimeoutMs = 15_000 } = options;
  const starts = await Promise.allSettled(Array.from({ length: size * 2 }, startMember));
  const members = starts.flatMap((start) => (start.status === "fulfilled" ? [start.value] : []));
  const primaries = members.slice(0, size);
  const replicas = members.slice(size);
  const stop = async (): Promise<void> => {
    for (const { admin } of members) admin.disconnect();
    await Promise.all(members.map(({ server }) => server.stop()));
  };
  try {
    for (const start of starts) if (start.status === "rejected") throw start.reason;
    await join(primaries, replicas, members);
    for (const { admin } of members) await admin.config("SET", "cluster-node-timeout", String(nodeTimeoutMs));
  } catch (error) {
    await stop();
    throw error;
  }
  const addresses = primaries.slice(0, 2).map(({ server }) => `127.0.0.1:${server.port}`);
  return {
    url: `redis://${addresses.join(",")}/?cluster=true`,
    primaries,
    replicas,
    ownerOf: (slot) => ownerOf(members, slot),
    stop,
  };
}

interface Starting extends ClusterMember {
  readonly busPort: number;
}

async function startMember(): Promise<Starting> {
  const busPort = await freePort();
  const server = await startRedis({
    settings: [
      ["cluster-enabled", "yes"],
      ["cluster-config-file", "nodes.conf"],
      ["cluster-port", String(busPort)],
      ["cluster-node-timeout", String(joinMaxMs)],
      ["cluster-replica-validity-factor", "0"],
      ["repl-diskless-sync-delay", "0"],
    ],
  });
  const admin = new Redis(server.url, { maxRetriesPerRequest: 0, enableOfflineQueue: true });
  admin.on("error", () => undefined);
  return { server, admin, busPort, id: String(await admin.call("CLUSTER", "MYID")) };
}

async function join(
  primaries: readonly Starting[],
  replicas: readonly Starting[],
  members: readonly Starting[],
): Promise<void> {
  const [first] = primaries as [Starting];
  for (const [index, { admin }] of primaries.entries()) {
    // Elections need different epochs.
    await admin.call("CLUSTER", "SET-CONFIG-EPOCH", String(index + 1));
    const from = Math.ceil((slotCount * index) / size);
    await admin.call(
      "CLUSTER",
      "ADDSLOTSRANGE",
      String(from),
      String(Math.ceil((slotCount * (index + 1)) / size) - 1),
    );
  }
  for (const { server, busPort } of members.slice(1))
    await first.admin.call("CLUSTER", "MEET", "127.0.0.1", String(server.port), String(busPort));
  await each(members, async ({ admin }) => {
    const known = String(await admin.call("CLUSTER", "NODES"));
    return known.trim().split("\n").length === members.length && !known.includes("handshake");
  });
  for (const [index, { admin }] of replicas.entries())
    await admin.call("CLUSTER", "REPLICATE", (primaries[index] as Starting).id);
  await each(members, async ({ admin }) =>
    String(await admin.call("CLUSTER", "INFO")).includes("cluster_state:ok"),
  );
  await each(replicas, async ({ admin }) =>
    (await admin.info("replication")).includes("master_link_status:up"),
  );
}

async function each(
  members: readonly ClusterMember[],
  holds: (member: ClusterMember) => Promise<boolean>,
): Promise<void> {
  for (const member of members) await until("the cluster is ready", () => holds(member).catch(() => false));
}

async function ownerOf(members: readonly ClusterMember[], slot: number): Promise<ClusterMember> {
  for (const { admin, server } of members) {
    if (server.process.exitCode !== null || server.process.signalCode !== null) continue;
    const rows = (await admin.call("CLUSTER", "SLOTS").catch(() => [])) as [
      number,
      number,
      [string, number],
    ][];
    const row = rows.find(([from, to]) => from <= slot && slot <= to);
    const owner = members.find((member) => member.server.port === row?.[2][1]);
    if (owner !== undefined) return owner;
  }
  throw new Error(`nobody owns the slot ${slot}`);
}
