/**
 * The keys of a store on one server, by kind: how many, how much is in them, how large they are, and which of them
 * belong to jobs that are gone. The walk takes small steps (SCAN), so that the server can answer others in between, and
 * ends after a fixed number of steps.
 */
import { isMillraceError } from "../../../model/error.ts";
import type { Connection } from "../connection/connection.ts";
import { nullIfRefused } from "../connection/server-check.ts";

type Ask = Connection["ask"];

export interface KeyCondition {
  /** The first word after the tag: "spec", "ready", "tag". */
  readonly kind: string;
  readonly keys: number;
  /** Fields, members or items of the keys that were read. */
  readonly entries: number;
  /** Null if the server does not say. */
  readonly bytes: number | null;
  /** Not all keys of the kind were read. */
  readonly isPartial: boolean;
}

export interface PartitionCondition {
  readonly number: number;
  readonly epoch: number;
  readonly layout: number;
  readonly kinds: readonly KeyCondition[];
  /** Log lines, journals and tags of jobs that are gone. */
  readonly orphans: readonly string[];
}

/** Kinds of keys of which each belongs to one job. The name ends with the job's handle. */
const ofOneJob = ["log", "frames", "summary", "journal", "known", "others"];
const scanMax = 2000;
const scanCount = 1000;
const lookedIntoMax = 500;
const membersMax = 1000;
const membersPerRead = 100;
const lengths: Readonly<Record<string, string>> = {
  hash: "HLEN",
  zset: "ZCARD",
  list: "LLEN",
  stream: "XLEN",
  set: "SCARD",
  string: "STRLEN",
};

/** Empty if the user has no right to walk the keys. */
export async function readKeys(ask: Ask, prefix: string): Promise<readonly PartitionCondition[]> {
  const begin = `{${prefix}:`;
  const pattern = `${begin.replace(/[*?[\]\\]/g, String.raw`\$&`)}*`;
  const found = new Map<number, Map<string, Set<string>>>();
  let cursor = "0";
  for (let step = 0; step < scanMax; step++) {
    const args = [cursor, "MATCH", pattern, "COUNT", String(scanCount)];
    const answer = (await ask("SCAN", args).catch(nullIfRefused)) as [string, string[]] | null;
    if (answer === null) return [];
    for (const key of answer[1]) place(found, key.slice(begin.length), key);
    [cursor] = answer;
    if (cursor === "0") break;
  }
  const partitions: PartitionCondition[] = [];
  for (const [number, kinds] of [...found].toSorted(([one], [other]) => one - other))
    partitions.push(await examinePartition(ask, `{${prefix}:${number}}`, number, kinds));
  return partitions;
}

/** `rest`: what follows the prefix: "0}:ready:1". A key that was seen twice, as a walk may, counts once. */
function place(found: Map<number, Map<string, Set<string>>>, rest: string, key: string): void {
  const [, number, kind] = /^(\d+)\}:([^:]+)/.exec(rest) ?? [];
  if (number === undefined || kind === undefined) return;
  const kinds = found.get(Number(number)) ?? new Map<string, Set<string>>();
  found.set(Number(number), kinds);
  const keys = kinds.get(kind) ?? new Set<string>();
  kinds.set(kind, keys.add(key));
}

async function examinePartition(
  ask: Ask,
  tag: string,
  number: number,
  found: ReadonlyMap<string, ReadonlySet<string>>,
): Promise<PartitionCondition> {
  const [epoch, layout] = (await ask("HMGET", [`${tag}:meta`, "epoch", "version"])) as (string | null)[];
  const kinds: KeyCondition[] = [];
  for (const [kind, keys] of [...found].toSorted(([one], [other]) => (one < other ? -1 : 1)))
    kinds.push(await examineKind(ask, kind, [...keys]));
  const owned = async (key: string, from: number): Promise<string[]> =>
    from === 0 ? [key.slice(key.lastIndexOf(":") + 1)] : [];
  const tagged = async (key: string, from: number): Promise<string[]> => {
    const range = [String(from), String(from + membersPerRead - 1)];
    return ((await ask("ZRANGE", [key, ...range]).catch(ifUsable)) ?? []) as string[];
  };
  const orphans: string[] = [];
  for (const kind of ofOneJob) orphans.push(...(await orphansOf(ask, tag, found.get(kind) ?? [], owned)));
  orphans.push(...(await orphansOf(ask, tag, found.get("tag") ?? [], tagged)));
  return { number, epoch: Number(epoch ?? 0), layout: Number(layout ?? 0), kinds, orphans };
}

async function examineKind(ask: Ask, kind: string, keys: readonly string[]): Promise<KeyCondition> {
  const some = keys.slice(0, lookedIntoMax);
  const [entries, bytes] = await Promise.all([
    Promise.all(some.map((key) => lengthOf(ask, key))),
    Promise.all(some.map((key) => ask("MEMORY", ["USAGE", key]).catch(nullIfRefused))),
  ]);
  return {
    kind,
    keys: keys.length,
    entries: entries.reduce((sum, each) => sum + each, 0),
    bytes: bytes.includes(null) ? null : bytes.reduce<number>((sum, each) => sum + Number(each), 0),
    isPartial: keys.length > some.length,
  };
}

async function lengthOf(ask: Ask, key: string): Promise<number> {
  const command = lengths[String(await ask("TYPE", [key]))];
  return command === undefined ? 0 : Number(await ask(command, [key]).catch(nullIfRefused));
}

/** A key whose type is not the store's is left out; the store itself reports it. */
function ifUsable(error: unknown): null {
  return isMillraceError(error, "not-a-store") ? null : nullIfRefused(error);
}

/** @returns those of the keys whose jobs are gone, so that they may be unlinked. */
async function orphansOf(
  ask: Ask,
  tag: string,
  keys: Iterable<string>,
  handlesOf: (key: string, from: number) => Promise<string[]>,
): Promise<string[]> {
  const isGone = async (handle: string): Promise<boolean> =>
    (await ask("HEXISTS", [`${tag}:spec`, handle]).catch(ifUsable)) === 0;
  const isOrphan = async (key: string): Promise<boolean> => {
    for (let from = 0; from < membersMax; from += membersPerRead) {
      const handles = await handlesOf(key, from);
      if (handles.length === 0) return from > 0;
      const gone = await Promise.all(handles.map(isGone));
      if (gone.includes(false)) return false;
    }
    return false;
  };
  const orphans: string[] = [];
  for (const key of [...keys].slice(0, lookedIntoMax)) if (await isOrphan(key)) orphans.push(key);
  return orphans;
}
