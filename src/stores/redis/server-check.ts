/**
 * What is asked of a server before anything is written there: a version, a role and settings under which the promises can be kept. A promise that
 * the server would break is refused by name, not watched failing later.
 *
 *  the server's persistence           an acknowledgement survives          level
 *  append-only file, fsync always     power loss                           strict
 *  the same with everysec, where strict is asked for and the server can wait for its file (WAITAOF)   power loss   strict
 *  append-only file, everysec or no   the server's end, but its last second (or more) is lost with the machine   relaxed
 *  snapshots only, or nothing known   the server's clean end               relaxed
 *  none                               nothing                              memory
 */
import { MillraceError } from "../../model/error.ts";
import type { Durability } from "../../store/store.ts";
import type { Connection } from "./connection.ts";

const oldestMajor = 7;

export interface ServerFacts {
  readonly durability: Durability;
  /** Every write has to wait until the append-only file is on disk. */
  readonly waitsForFile: boolean;
  readonly warnings: readonly string[];
}

export interface ServerWishes {
  readonly where: string;
  /** Null takes what the server gives. */
  readonly durability: "strict" | "relaxed" | null;
  readonly allowEviction: boolean;
}

export async function checkServer(connection: Connection, wishes: ServerWishes): Promise<ServerFacts> {
  const { where } = wishes;
  const info = readInfo(String(await connection.ask("INFO", [])));
  const version = info.get("redis_version") ?? "0";
  if (Number.parseInt(version, 10) < oldestMajor) {
    const sentence = `${where} is version ${version}; Millrace needs Redis 7 or Valkey 7.2, or newer.`;
    throw new MillraceError("store-too-old", sentence);
  }
  if (info.get("role") === "slave")
    throw new MillraceError(
      "store-read-only",
      `${where} is a replica, so nothing can be written there. Name the primary.`,
    );
  const warnings: string[] = [];
  const policy = info.get("maxmemory_policy") ?? "unknown";
  if (policy !== "noeviction") {
    const sentence = `${where} has maxmemory-policy "${policy}", under which the server may throw jobs away. Set it to noeviction`;
    if (!wishes.allowEviction)
      throw new MillraceError("store-misconfigured", `${sentence}, or open the store with allowEviction.`);
    warnings.push(`${sentence}.`);
  }
  const durability = await durabilityOf(connection, info, warnings);
  if (wishes.durability === "strict" && durability !== "strict") {
    if (info.get("aof_enabled") === "1" && (await canWait(connection))) {
      warnings.push(
        "Every write waits for the append-only file; with appendfsync always that takes less time.",
      );
      return { durability: "strict", waitsForFile: true, warnings };
    }
    const sentence = `${where} does not sync every write to its append-only file, so an acknowledged write may be lost with power. Set appendonly yes and appendfsync always, or open the store with durability "relaxed".`;
    throw new MillraceError("durability-refused", sentence);
  }
  if (wishes.durability === "relaxed" && durability === "memory") {
    const sentence = `${where} writes neither an append-only file nor snapshots, so an acknowledged write ends with the server. Set appendonly yes, or leave the durability open.`;
    throw new MillraceError("durability-refused", sentence);
  }
  return { durability, waitsForFile: false, warnings };
}

/** Redis and Valkey from 7.2 on. */
async function canWait(connection: Connection): Promise<boolean> {
  const answer = await connection.ask("COMMAND", ["INFO", "WAITAOF"]).catch(() => null);
  return Array.isArray(answer) && answer[0] !== null;
}

function readInfo(text: string): Map<string, string> {
  const lines = text.split(/\r?\n/).filter((line) => line.includes(":"));
  return new Map(lines.map((line) => [line.slice(0, line.indexOf(":")), line.slice(line.indexOf(":") + 1)]));
}

async function durabilityOf(
  connection: Connection,
  info: ReadonlyMap<string, string>,
  warnings: string[],
): Promise<Durability> {
  // Managed servers often refuse CONFIG; what cannot be known is not promised.
  const setting = async (name: string): Promise<string | null> => {
    const answer = await connection.ask("CONFIG", ["GET", name]).catch(() => null);
    return Array.isArray(answer) ? ((answer[1] as string | undefined) ?? null) : null;
  };
  if (info.get("aof_enabled") === "1") {
    const sync = await setting("appendfsync");
    if (sync === "always") return "strict";
    warnings.push(
      sync === "everysec"
        ? "appendfsync is everysec: with the machine, the last second of acknowledged work may be lost."
        : `appendfsync is ${sync ?? "not known"}: with the machine, the last acknowledged work may be lost.`,
    );
    return "relaxed";
  }
  const save = await setting("save");
  if (save === "") {
    warnings.push("The server writes neither an append-only file nor snapshots: all jobs end with it.");
    return "memory";
  }
  warnings.push(
    "The server writes snapshots but no append-only file: whatever came after the last snapshot may be lost with it.",
  );
  return "relaxed";
}
