/** What doctor says of Redis and Valkey servers: from the facts of an examination to findings, each with its advice. */
import { examineRedis } from "../../stores/redis/upkeep/examine.ts";
import type { RedisCondition, ServerCondition } from "../../stores/redis/upkeep/examine.ts";
import { bytesText } from "./bytes-text.ts";
import type { Finding } from "./finding.ts";

export { examineRedis as examine };

export function redisFindings({ servers }: RedisCondition): readonly Finding[] {
  return servers.flatMap((server) => [
    ...persistenceFindings(server),
    ...roomFindings(server),
    ...orphanFindings(server),
  ]);
}

/** What each server is, in one line. */
export function serverLines({ servers }: RedisCondition): readonly string[] {
  return servers.map(({ server, address, memory, connections, replicas, acknowledged, partitions }) => {
    const all = partitions.flatMap(({ kinds }) => kinds);
    const jobs = sum(all.filter(({ kind }) => kind === "spec").map(({ entries }) => entries));
    const bytes = all.map((kind) => kind.bytes);
    const known = bytes.length === 0 || bytes.includes(null) ? null : sum(bytes as number[]);
    const size =
      known === null ? "" : `, ${bytesText(known)} in the keys of ${jobs} ${jobs === 1 ? "job" : "jobs"}`;
    return `${server} at ${address}, ${bytesText(memory.usedBytes)} of ${bytesText(memory.maxBytes)} memory used${size}, ${connections.open} of ${connections.max} connections, ${replicas} replicas. ${acknowledged}`;
  });
}

function persistenceFindings({ address, failedWrites, durability, writesFile }: ServerCondition): Finding[] {
  const found = failedWrites.map((what) => ({
    check: "persistence",
    problem: `${address} failed to write its ${what} the last time it tried.`,
    advice: "Look into the server's log; often the disk is full or a folder may not be written.",
  }));
  if (writesFile) return found;
  return [
    ...found,
    {
      check: "persistence",
      problem:
        durability === "memory"
          ? `${address} writes neither an append-only file nor snapshots: all jobs end with the server.`
          : `${address} writes no append-only file: what came after the last snapshot is lost with the server.`,
      advice: "Set appendonly yes (CONFIG SET appendonly yes, and in its configuration file).",
    },
  ];
}

/** From this share of its memory on a server is a finding: later there may be no time left to act. */
const memoryShareMax = 0.8;
const connectionShareMax = 0.9;

function roomFindings({ address, memory, connections }: ServerCondition): Finding[] {
  const found: Finding[] = [];
  const { usedBytes, maxBytes, isLimited } = memory;
  if (maxBytes > 0 && usedBytes > maxBytes * memoryShareMax)
    found.push({
      check: "memory",
      problem: `${address} uses ${bytesText(usedBytes)} of ${bytesText(maxBytes)}${isLimited ? " (maxmemory)" : ", all that the machine has"}.`,
      advice:
        "When it is full, every enqueue is refused. Raise maxmemory, keep less history, or add workers.",
    });
  if (connections.max > 0 && connections.open >= connections.max * connectionShareMax)
    found.push({
      check: "connections",
      problem: `${connections.open} of ${connections.max} connections of ${address} are in use.`,
      advice: "Raise maxclients before connections are refused.",
    });
  return found;
}

function orphanFindings({ partitions }: ServerCondition): Finding[] {
  const orphans = partitions.flatMap((partition) => partition.orphans);
  if (orphans.length === 0) return [];
  return [
    {
      check: "orphans",
      problem: `${orphans.length} ${orphans.length === 1 ? "key belongs" : "keys belong"} to jobs that are gone: ${orphans.slice(0, 3).join(", ")}${orphans.length > 3 ? ", ..." : ""}`,
      advice:
        "They cost memory only. Unless somebody edited the keys by hand this is a bug: please report it, then UNLINK them.",
    },
  ];
}

const sum = (numbers: readonly number[]): number => numbers.reduce((total, each) => total + each, 0);
