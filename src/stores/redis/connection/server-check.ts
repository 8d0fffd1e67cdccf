/**
 * What is asked of a server before anything is written there, and again of every connection: a version, a role and
 * settings under which the promises can be kept. A promise that the server would break is refused by name, not watched
 * failing later.
 */
import { MillraceError } from "../../../model/error.ts";
import type { Durability } from "../../../store/store.ts";
import type { Connection } from "./connection.ts";

const oldestMajor = 7;

export interface ServerFacts {
  readonly durability: Durability;
  /** What an acknowledgement is worth, in words. */
  readonly acknowledged: string;
  /** Every write has to wait until the append-only file is on disk. */
  readonly waitsForFile: boolean;
  readonly warnings: readonly string[];
}

export interface ServerWishes {
  readonly where: string;
  /** Null takes what the server gives. */
  readonly durability: "strict" | "relaxed" | null;
  readonly allowEviction: boolean;
  /** The store was opened as one on a cluster, so that it follows its slots. */
  readonly isCluster?: boolean;
}

/** What the server says of itself. */
export interface ServerWords {
  readonly info: ReadonlyMap<string, string>;
  /** Null where the server does not answer, as managed ones do: what cannot be known is not promised. */
  readonly settings: { readonly appendfsync: string | null; readonly save: string | null };
  /** Whether it has WAITAOF: Redis and Valkey from 7.2 on. */
  readonly canWait: boolean;
}

export async function checkServer(ask: Connection["ask"], wishes: ServerWishes): Promise<ServerFacts> {
  await ask("CLIENT", ["SETNAME", "millrace"]).catch(nullIfRefused);
  return judgeServer(await readWords(ask), wishes);
}

/** What a server refuses to this user stays unknown. A call that got lost is no answer. */
export function nullIfRefused(error: unknown): null {
  if (error instanceof MillraceError && error.code !== "store-denied" && error.code !== "store-too-old")
    throw error;
  return null;
}

export async function readWords(ask: Connection["ask"]): Promise<ServerWords> {
  const setting = async (name: string): Promise<string | null> => {
    const answer = await ask("CONFIG", ["GET", name]).catch(nullIfRefused);
    return Array.isArray(answer) ? ((answer[1] as string | undefined) ?? null) : null;
  };
  const info = readInfo(String(await ask("INFO", [])));
  const [appendfsync, save] = [await setting("appendfsync"), await setting("save")];
  const command = await ask("COMMAND", ["INFO", "WAITAOF"]).catch(nullIfRefused);
  const canWait = Array.isArray(command) && command[0] !== null;
  return { info, settings: { appendfsync, save }, canWait };
}

export function judgeServer(words: ServerWords, wishes: ServerWishes): ServerFacts {
  const { info } = words;
  const { where } = wishes;
  const version = info.get("redis_version") ?? "0";
  if (Number.parseInt(version, 10) < oldestMajor) {
    const sentence = `${where} is version ${version}; Millrace needs Redis 7 or Valkey 7.2, or newer.`;
    throw new MillraceError("store-too-old", sentence);
  }
  if (info.get("cluster_enabled") === "1" && wishes.isCluster !== true) {
    const sentence = `${where} is one server of a cluster. Add ?cluster=true to the URL, or pass a cluster client.`;
    throw new MillraceError("store-misconfigured", sentence);
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
  return { ...judgePersistence(words, wishes), warnings };
}

const waited =
  "survives power loss: each one waits until the append-only file is on disk, which takes less time with appendfsync always";

function judgePersistence(words: ServerWords, wishes: ServerWishes): Omit<ServerFacts, "warnings"> {
  const { where, durability: wish } = wishes;
  const { durability, acknowledged } = worthOf(words);
  if (wish === "strict" && durability !== "strict") {
    if (words.info.get("aof_enabled") === "1" && words.canWait)
      return { ...worth("strict", waited), waitsForFile: true };
    const sentence = `${where} does not sync every write to its append-only file, so an acknowledged write may be lost with power. Set appendonly yes and appendfsync always, or open the store with durability "relaxed".`;
    throw new MillraceError("durability-refused", sentence);
  }
  if (wish === "relaxed" && durability === "memory") {
    const sentence = `${where} writes neither an append-only file nor snapshots, so an acknowledged write ends with the server. Set appendonly yes, or leave the durability open.`;
    throw new MillraceError("durability-refused", sentence);
  }
  return { durability, acknowledged, waitsForFile: false };
}

export function worthOf({ info, settings }: ServerWords): Pick<ServerFacts, "durability" | "acknowledged"> {
  const { appendfsync, save } = settings;
  if (info.get("aof_enabled") === "1") {
    if (appendfsync === "always")
      return worth(
        "strict",
        "survives power loss: appendfsync is always, so it is on disk before the answer",
      );
    const last = appendfsync === "everysec" ? "second" : "moments";
    const why = `with the machine the last ${last} may be lost (appendfsync is ${appendfsync ?? "not known"})`;
    return worth("relaxed", `survives the end of the server; ${why}`);
  }
  if (save === "")
    return worth("memory", "ends with the server, which writes neither an append-only file nor snapshots");
  const since = "otherwise whatever came after the last snapshot is lost, for there is no append-only file";
  return worth("relaxed", `survives a clean end of the server only; ${since}`);
}

function worth(durability: Durability, fate: string): Pick<ServerFacts, "durability" | "acknowledged"> {
  return { durability, acknowledged: `An acknowledged write ${fate}.` };
}

export function readInfo(text: string): Map<string, string> {
  const lines = text.split(/\r?\n/).filter((line) => line.includes(":"));
  return new Map(lines.map((line) => [line.slice(0, line.indexOf(":")), line.slice(line.indexOf(":") + 1)]));
}
