/**
 * What doctor looks at in a bucket. It makes a copy of the store as any opener would, which proves that the newest
 * mark, its chunks and the log after it are whole and fit together. Only if that fails is each object looked at by
 * itself.
 *
 * It never fences. Its one write puts the object `millrace` again if it is absent, with the bytes that it has: a
 * storage that ignores the condition changes nothing by it.
 */
import { crc32 } from "node:zlib";
import { isMillraceError } from "../../../model/error.ts";
import type { Platform } from "../../../platform/platform.ts";
import { readNote } from "../takeover/held-bucket.ts";
import { eachName, eachRecord, findHole, listRecords, readHead, readMarks } from "./history.ts";
import type { FoundMark } from "./history.ts";
import { chunkName, chunkOf, chunkPrefix, headBytes, headName, keptPrefix, logName } from "../layout.ts";
import { silentMs } from "../log/log-writer.ts";
import type { Mark } from "../layout.ts";
import { CountedObjects } from "../objects/counted.ts";
import type { RequestCounts } from "../objects/counted.ts";
import type { Objects } from "../objects/objects.ts";
import { ObjectsError } from "../objects/objects.ts";
import { retrying } from "../objects/retrying.ts";
import { chainAfter, noChain } from "../log/log-record.ts";
import { Replica } from "../copy/replica.ts";
import { defaultTuning } from "../tuning.ts";

export interface BucketCondition {
  /** Objects that are damaged or gone, with what is wrong. */
  readonly broken: readonly { readonly object: string; readonly problem: string }[];
  /** Whether the copy is the whole store. */
  readonly isWhole: boolean;
  readonly marks: number;
  readonly newestMark: { readonly record: number; readonly at: Date } | null;
  /** After the newest mark: what an opener reads. */
  readonly log: {
    readonly records: number;
    readonly bytes: number;
    /** By the writers' clocks, from the first of these records to the last. */
    readonly spanMs: number;
    readonly last: number;
    /** When the last record was written. */
    readonly lastAt: Date;
  };
  /** What the newest mark names. */
  readonly chunks: { readonly count: number; readonly bytes: number };
  /** Chunks that no mark names, older than any clean-up leaves them. */
  readonly orphans: readonly string[];
  /** What restores have left for a person to remove. */
  readonly kept: readonly string[];
  readonly conditions: "kept" | "ignored" | "not-tried";
  /** Null: not known. */
  readonly deletionRules: readonly string[] | null;
  readonly saysRules: boolean;
  readonly writer: {
    /** Unknown: the end of the log could not be read. */
    readonly state: "writes" | "silent" | "none" | "unknown";
    readonly host: string | null;
    readonly pid: number | null;
    /** How old the last record is; null if that is unknown. */
    readonly ageMs: number | null;
  };
  readonly epoch: number;
  /** Of this examination. */
  readonly requests: RequestCounts;
}

/** `path`: where the copy goes. It is whole only if the condition says so. */
export async function examineBucket(
  given: Objects,
  { path, platform }: { readonly path: string; readonly platform: Platform },
): Promise<BucketCondition> {
  const counted = new CountedObjects(given);
  const objects = retrying(counted, platform);
  const head = await readHead(objects);
  const conditions = await tryConditions(objects, headBytes(head));
  const marks = await readMarks(objects);
  const broken: { object: string; problem: string }[] = marks
    .filter(({ mark }) => mark === null)
    .map(({ name }) => ({ object: name, problem: "its checksum is wrong" }));
  const newest = marks[0]?.mark ?? null;
  const before = counted.counts;
  let replica: Replica | null = null;
  try {
    replica = await Replica.restore(objects, { path, pageSize: head.pageSize });
    const hole = await findHole(objects, replica);
    if (hole !== null) broken.push(hole);
  } catch (error) {
    if (!isMillraceError(error, "store-corrupt") && !isMillraceError(error, "store-unavailable")) throw error;
    broken.push(...(await brokenChunks(objects, newest)), ...(await brokenRecords(objects, newest)));
    // Something that was there a moment ago: a clean-up went on meanwhile.
    if (broken.length === 0) throw error;
  }
  const after = counted.counts;
  const logGot = after.logGot - before.logGot;
  const logBytes = after.logBytesGot - before.logBytesGot;
  const numbers = await listRecords(objects, (newest?.from ?? 0) + 1);
  const condition: BucketCondition = {
    broken,
    isWhole: replica !== null && broken.length === 0,
    marks: marks.length,
    newestMark: newest === null ? null : { record: newest.through, at: new Date(newest.at) },
    log: {
      records: replica === null ? numbers.length : logGot,
      bytes: logBytes,
      spanMs: replica === null ? 0 : await spanOf(objects, numbers[0], replica.writerAt),
      last: replica?.n ?? numbers.at(-1) ?? 0,
      lastAt: new Date(replica?.writerAt ?? newest?.at ?? 0),
    },
    chunks: {
      count: newest?.chunks.length ?? 0,
      bytes: after.bytesGot - before.bytesGot - logBytes,
    },
    orphans: await orphansOf(objects, marks, platform.now()),
    kept: await keptOf(objects),
    conditions,
    deletionRules: (await given.deletionRules?.()) ?? null,
    saysRules: given.deletionRules !== undefined,
    writer: writerOf(replica, platform.now()),
    epoch: replica?.epoch ?? newest?.epoch ?? 0,
    requests: counted.counts,
  };
  replica?.close();
  return condition;
}

async function tryConditions(objects: Objects, head: Uint8Array): Promise<BucketCondition["conditions"]> {
  try {
    return (await objects.put(headName, head, true)) === "exists" ? "kept" : "ignored";
  } catch (error) {
    if (error instanceof ObjectsError && error.kind === "denied") return "not-tried";
    throw error;
  }
}

async function brokenChunks(objects: Objects, mark: Mark | null) {
  const found: { object: string; problem: string }[] = [];
  for (const [no, [label, crc]] of (mark?.chunks ?? []).entries()) {
    const object = chunkName(no, label);
    const bytes = await objects.get(object);
    if (bytes === null) found.push({ object, problem: "it is gone" });
    else if (crc32(bytes) !== crc) found.push({ object, problem: "its checksum is wrong" });
  }
  return found;
}

async function brokenRecords(objects: Objects, mark: Mark | null) {
  const found: { object: string; problem: string }[] = [];
  let next = (mark?.from ?? 0) + 1;
  // Null: not known, because a record is damaged or gone.
  let digest: string | null = mark?.digest ?? noChain;
  for await (const { n, record } of eachRecord(objects, await listRecords(objects, next))) {
    if (n !== next) {
      found.push({ object: logName(next), problem: `it is gone, and record ${n} is there` });
      digest = null;
    }
    next = n + 1;
    if (record === null) {
      found.push({ object: logName(n), problem: "its checksum is wrong" });
      digest = null;
      continue;
    }
    const hasChain = record.kind === "pages" || record.kind === "end";
    if (hasChain && digest !== null && record.chain !== digest)
      found.push({ object: logName(n), problem: "it does not follow the record before it" });
    const isFolded = record.kind === "fence" || record.kind === "void";
    digest = isFolded && digest === null ? null : chainAfter(digest ?? noChain, record);
  }
  return found;
}

async function spanOf(objects: Objects, first: number | undefined, lastAt: number): Promise<number> {
  if (first === undefined) return 0;
  for await (const { record } of eachRecord(objects, [first]))
    if (record !== null) return Math.max(0, lastAt - record.at);
  return 0;
}

async function orphansOf(objects: Objects, marks: readonly FoundMark[], now: number): Promise<string[]> {
  const oldest = marks.at(-1)?.mark ?? null;
  if (oldest === null || now - oldest.at <= defaultTuning.graceMs || marks.some(({ mark }) => mark === null))
    return [];
  const named = new Set(
    marks.flatMap(({ mark }) => (mark as Mark).chunks.map(([label], no) => chunkName(no, label))),
  );
  const orphans: string[] = [];
  for await (const name of eachName(objects, chunkPrefix, null))
    if (chunkOf(name).n < oldest.from && !named.has(name)) orphans.push(name);
  return orphans;
}

/** The folders of restores, one look for each of them and one after the last. */
async function keptOf(objects: Objects): Promise<string[]> {
  const kept: string[] = [];
  const length = keptPrefix(0).length;
  for (let after: string | null = null; ;) {
    const { names } = await objects.list("kept/", after);
    const [first] = names;
    if (first === undefined) return kept;
    const prefix = first.slice(0, length);
    kept.push(prefix);
    // Sorts after everything under it.
    after = `${prefix}~`;
  }
}

function writerOf(replica: Replica | null, now: number): BucketCondition["writer"] {
  if (replica === null) return { state: "unknown", host: null, pid: null, ageMs: null };
  const note = readNote(replica);
  const ageMs = Math.max(0, now - replica.writerAt);
  if (replica.isFree || note === null) return { state: "none", host: null, pid: null, ageMs };
  const state = ageMs <= silentMs ? "writes" : "silent";
  return { state, host: note.host, pid: note.pid, ageMs };
}
