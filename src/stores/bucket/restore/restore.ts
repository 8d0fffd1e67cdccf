/**
 * Putting a store back to the end of an earlier record, by hand: into a SQLite file, or the bucket itself.
 *
 * In the bucket one put decides it: a record `restored`, some slots after the end of the log, which carries a mark of
 * the store as it was. Whoever follows the log and meets it begins anew from that mark, and whoever opens later begins
 * there. Its epoch is the highest so far and one, so no fence is given twice. Everything from the mark that the store
 * is made from up to that record is copied to `kept/<n>/` before, as a bucket of its own.
 */
import { closeSync, existsSync, fsyncSync, openSync, readSync, renameSync, rmSync } from "node:fs";
import { dirname, sep } from "node:path";
import { DatabaseSync } from "node:sqlite";
import { crc32 } from "node:zlib";
import { MillraceError } from "../../../model/error.ts";
import type { ErrorOutcome } from "../../../model/error.ts";
import type { Platform } from "../../../platform/platform.ts";
import { inWriteTransaction, writeMeta } from "../../sqlite/connection/migrate.ts";
import { bucketError } from "../bucket-errors.ts";
import { cacheError, makeCacheFolder } from "../copy/cache-folder.ts";
import { chunkLevel } from "../checkpoint/checkpoint.ts";
import { buildStore, eachRecord, listRecords, readHead, readMarks } from "./history.ts";
import { chunkName, headName, keptPrefix, logName, markBytes, markName, pagesPerChunk } from "../layout.ts";
import type { Mark } from "../layout.ts";
import { silentMs } from "../log/log-writer.ts";
import type { Objects } from "../objects/objects.ts";
import { emptyRecord, noChain } from "../log/log-record.ts";
import type { Replica } from "../copy/replica.ts";

const distanceMax = 1024;
const copiesAtOnce = 8;
const lookMs = 500;

export interface RestoredFile {
  /** The last record that is in the file. */
  readonly n: number;
  readonly at: number;
}

/** `until` null: everything that the bucket has. The file must not exist. */
export async function restoreToFile(
  objects: Objects,
  { path, until }: { readonly path: string; readonly until: number | null },
): Promise<RestoredFile> {
  const taken = ["", "-wal", "-shm"].find((end) => existsSync(`${path}${end}`));
  if (taken !== undefined) {
    const sentence = `${path}${taken} exists already, and a restore overwrites nothing. Name another file, or move it away.`;
    throw new MillraceError("invalid-option", sentence);
  }
  const partial = `${path}.restoring`;
  const { pageSize } = await readHead(objects);
  try {
    const replica = await buildStore(objects, { path: partial, pageSize, until });
    const { n, writerAt: at, pageCount } = replica;
    const epoch = await highestEpoch(objects, replica);
    replica.close();
    if (pageCount === 0)
      throw new MillraceError("store-missing", `After record ${n} there was no store yet.`);
    raiseEpoch(partial, epoch + 1);
    renameSync(partial, path);
    syncFolder(dirname(path));
    return { n, at };
  } catch (error) {
    throw cacheError(dirname(path), error);
  } finally {
    for (const end of ["", "-wal", "-shm"]) rmSync(`${partial}${end}`, { force: true });
  }
}

export interface RestoredBucket {
  readonly n: number;
  /** The record of the restore itself. */
  readonly record: number;
  readonly epoch: number;
  /** Where everything lies that came after record n. */
  readonly kept: string;
  /** How many records of the log that is. */
  readonly dropped: number;
}

export interface RestoreOptions {
  readonly platform: Platform;
  readonly until: number;
  /** Also if a process writes to the bucket: its calls are refused from then on. */
  readonly takes: boolean;
  readonly cacheFolder?: string;
}

export async function restoreBucket(objects: Objects, options: RestoreOptions): Promise<RestoredBucket> {
  const { platform, until, takes } = options;
  const { pageSize } = await readHead(objects);
  const folder = makeCacheFolder(options.cacheFolder ?? null, platform);
  let replica: Replica | null = null;
  let outcome: ErrorOutcome = "did-not-happen";
  try {
    replica = await buildStore(objects, { path: folder.path, pageSize, until });
    if (!takes) await untilSilent(objects, replica.n, platform);
    const base = replica.mark;
    const first = (base?.from ?? 0) + 1;
    let numbers = await listRecords(objects, first);
    const kept = keptPrefix(numbers.at(-1) ?? until);
    await keepHead(objects, kept, base);
    await keepRecords(objects, kept, numbers);
    const epoch = (await highestEpoch(objects, replica)) + 1;
    const writer = Buffer.from(platform.randomBytes(16)).toString("hex");
    const made = { epoch, writer, at: platform.now(), pageSize };
    // One put decides it.
    outcome = "unknown";
    const { record, mark } = await putRestored(objects, replica, made, platform);
    const voids = await closeBefore(objects, { from: replica.n + 1, to: record }, made);
    // What a living writer got in meanwhile.
    numbers = await listRecords(objects, (numbers.at(-1) ?? until) + 1);
    await keepRecords(
      objects,
      kept,
      numbers.filter((n) => n < record),
    );
    const end = emptyRecord("end", record + 1, { ...made, chain: mark.digest, pageCount: mark.pageCount });
    await objects.put(markName(record), markBytes(mark), true);
    await objects.put(logName(record + 1), end.bytes, true);
    return { n: replica.n, record, epoch, kept, dropped: record - 1 - replica.n - voids };
  } catch (error) {
    throw bucketError(error, outcome);
  } finally {
    replica?.close();
    folder.remove();
  }
}

/** A writer that lives puts a record every ten seconds; damaged ones count too. */
async function untilSilent(objects: Objects, from: number, platform: Platform): Promise<void> {
  const last = (await listRecords(objects, from)).at(-1) ?? from;
  for await (const { record } of eachRecord(objects, [last]))
    if (record?.kind === "end" || record?.kind === "restored") return;
  const startUs = platform.monotonicUs();
  while (platform.monotonicUs() - startUs < silentMs * 1000) {
    await new Promise<void>((resolve) => void platform.setTimer(lookMs, resolve, true));
    if ((await objects.get(logName(last + 1))) === null) continue;
    const sentence =
      "A process writes to this bucket. Stop it first, or restore with --take: then everything it does is refused.";
    throw new MillraceError("store-held", sentence);
  }
}

/** The highest epoch of anything that can be read: damaged records have none, but those around them do. */
async function highestEpoch(objects: Objects, { n, epoch }: Replica): Promise<number> {
  let highest = epoch;
  for (const { mark } of await readMarks(objects)) highest = Math.max(highest, mark?.epoch ?? 0);
  for await (const { record } of eachRecord(objects, await listRecords(objects, n + 1)))
    highest = Math.max(highest, record?.epoch ?? 0);
  return highest;
}

interface Made {
  readonly epoch: number;
  readonly writer: string;
  readonly at: number;
  readonly pageSize: number;
}

/** Puts the chunks, then the record that decides. A living writer may take its slot; then both are put anew. */
async function putRestored(
  objects: Objects,
  replica: Replica,
  made: Made,
  platform: Platform,
): Promise<{ record: number; mark: Mark }> {
  for (let distance = 2; ; distance = Math.min(2 * distance, distanceMax)) {
    const last = (await listRecords(objects, replica.n)).at(-1) ?? replica.n;
    const record = last + distance;
    const chunks = await putChunks(objects, replica, record, platform);
    const { epoch, writer, at } = made;
    const { pageCount } = replica;
    const mark: Mark = {
      ...{ from: record, through: record, epoch, writer, note: "", digest: noChain, at, pageCount, chunks },
    };
    const { bytes, digest } = emptyRecord("restored", record, {
      ...made,
      pageCount,
      note: JSON.stringify(mark),
    });
    if ((await objects.put(logName(record), bytes, true)) === "stored")
      return { record, mark: { ...mark, digest } };
    const there = await objects.get(logName(record));
    // The reply of an earlier try was lost.
    if (there !== null && Buffer.compare(there, bytes) === 0) return { record, mark: { ...mark, digest } };
  }
}

/** All of them anew: an earlier one may be removed meanwhile by a clean-up of the writer that is taken over. */
async function putChunks(
  objects: Objects,
  replica: Replica,
  label: number,
  platform: Platform,
): Promise<[number, number][]> {
  const { pageCount, pageSize, descriptor } = replica;
  const size = pagesPerChunk * pageSize;
  const chunks: [number, number][] = [];
  const raw = Buffer.allocUnsafeSlow(size);
  for (let no = 0; no * pagesPerChunk < pageCount; no++) {
    const got = readSync(descriptor, raw, 0, size, no * size);
    const bytes = await platform.compress(raw.subarray(0, got), chunkLevel);
    await objects.put(chunkName(no, label), bytes, false);
    chunks.push([label, crc32(bytes)]);
  }
  return chunks;
}

/**
 * Every slot before the record is filled, so that no put of an older writer can land any more. @returns how many were
 * empty.
 */
async function closeBefore(
  objects: Objects,
  { from, to }: { readonly from: number; readonly to: number },
  made: Made,
): Promise<number> {
  const there = new Set(await listRecords(objects, from));
  let voids = 0;
  for (let n = from; n < to; n++) {
    if (there.has(n)) continue;
    if ((await objects.put(logName(n), emptyRecord("void", n, made).bytes, true)) === "stored") voids += 1;
  }
  return voids;
}

async function keepHead(objects: Objects, kept: string, base: Mark | null): Promise<void> {
  const names = [headName];
  if (base !== null) names.push(...base.chunks.map(([label], no) => chunkName(no, label)));
  await copyAll(objects, kept, names);
  if (base !== null) await objects.put(`${kept}${markName(base.through)}`, markBytes(base), false);
}

async function keepRecords(objects: Objects, kept: string, numbers: readonly number[]): Promise<void> {
  await copyAll(objects, kept, numbers.map(logName));
}

/** As they are, also damaged ones. */
async function copyAll(objects: Objects, kept: string, names: readonly string[]): Promise<void> {
  const left = names.toReversed();
  const lane = async (): Promise<void> => {
    for (let name = left.pop(); name !== undefined; name = left.pop()) {
      const bytes = await objects.get(name);
      if (bytes !== null) await objects.put(`${kept}${name}`, bytes, false);
    }
  };
  await Promise.all(Array.from({ length: copiesAtOnce }, lane));
}

function raiseEpoch(path: string, epoch: number): void {
  const database = new DatabaseSync(path);
  try {
    inWriteTransaction(database, () => writeMeta(database, "epoch", epoch));
    database.exec("PRAGMA wal_checkpoint(TRUNCATE)");
  } finally {
    database.close();
  }
}

function syncFolder(folder: string): void {
  // Windows does not sync a folder.
  if (sep === "\\") return;
  const descriptor = openSync(folder, "r");
  try {
    fsyncSync(descriptor);
  } finally {
    closeSync(descriptor);
  }
}
