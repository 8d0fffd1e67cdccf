/**
 * The SQLite file as the bucket has it: the chunks of the newest mark, then the log, record after record. The writer
 * starts from it, a view and a standby keep following it.
 *
 * The file keeps one descriptor for its life. Closing any descriptor of a file drops the locks that SQLite holds on it
 * in the same process.
 */
import { closeSync, fdatasyncSync, ftruncateSync, openSync, writeSync } from "node:fs";
import { dirname } from "node:path";
import { crc32, zstdDecompressSync } from "node:zlib";
import { MillraceError } from "../../../model/error.ts";
import { chunkName, damaged, isPassed, logName, markFrom, markPrefix, pagesPerChunk } from "../layout.ts";
import type { Mark } from "../layout.ts";
import { cacheError } from "./cache-folder.ts";
import { chainAfter, decodeRecord, noChain } from "../log/log-record.ts";
import type { LogRecord } from "../log/log-record.ts";
import type { Objects } from "../objects/objects.ts";

/** Gets in flight at once while a file is read. */
const getsAhead = 16;
/** How often a restore begins again because a clean-up removed what it was about to read. */
const restoresMax = 5;

export class Replica {
  readonly path: string;
  readonly pageSize: number;
  /** The mark that it was read from, or null. */
  mark: Mark | null = null;
  /** The last record that was applied. */
  n = 0;
  digest = noChain;
  /** The highest epoch of any fence so far. */
  epoch = 0;
  pageCount = 0;
  /** Who put the last fence, what it says of its process, and when the last record was written by its clock. */
  writer = "";
  writerNote = "";
  writerAt = 0;
  /** The last fence has an epoch that another one had before: its writer must not begin. */
  hasDoubtfulFence = false;
  /** The writer has closed, or there has never been one. */
  isFree = true;
  /** Chunks with pages that were written after the mark. */
  readonly changedChunks = new Set<number>();
  readonly #objects: Objects;
  #file: number;

  private constructor(objects: Objects, path: string, pageSize: number) {
    this.#objects = objects;
    this.path = path;
    this.pageSize = pageSize;
    this.#file = onDisk(path, () => openSync(path, "w+"));
  }

  /** `until` and `mark`: the last record to apply and where to begin; for a restore by hand. */
  static async restore(
    objects: Objects,
    { path, pageSize, until = null, mark }: RestoreOptions,
  ): Promise<Replica> {
    const replica = new Replica(objects, path, pageSize);
    try {
      await replica.restoreAgain(until, mark);
      return replica;
    } catch (error) {
      replica.close();
      throw error;
    }
  }

  /** From the newest mark on, as if nothing had been read before. */
  async restoreAgain(until: number | null = null, mark?: Mark | null): Promise<void> {
    for (let tries = 1; !(await this.#readWhole(until, mark)); tries++)
      if (tries >= restoresMax) throw vanished();
  }

  /** For the checkpoint, which reads the file beside SQLite. */
  get descriptor(): number {
    return this.#file;
  }

  /** Applies what has come since. @returns how many records that were. */
  async catchUp(until: number | null = null): Promise<number> {
    const before = this.n;
    // Most looks find nothing or one record, and an open some few; a long tail is read ahead.
    for (let ahead = 1; ; ahead = Math.min(4 * ahead, getsAhead)) {
      const room = until === null ? ahead : Math.min(ahead, until - this.n);
      const gets = Array.from({ length: room }, (_, at) => this.#objects.get(logName(this.n + 1 + at)));
      const found = await Promise.all(gets);
      const end = found.findIndex((bytes) => bytes === null);
      const first = this.n + 1;
      for (const [at, bytes] of (end < 0 ? found : found.slice(0, end)).entries()) {
        const record = decodeRecord(first + at, bytes as Uint8Array);
        if (record.kind !== "restored") this.#apply(record);
        else if (!(await this.#beginFrom(restoredMark(record)))) throw vanished();
      }
      if (end >= 0 || room === 0) return this.n - before;
    }
  }

  /**
   * Begins again from the newest mark if that one has passed what was applied: the next records may have been removed,
   * so that the log seems to end here. @returns whether it did.
   */
  async renewIfPassed(): Promise<boolean> {
    if (!(await isPassed(this.#objects, this.n + 1))) return false;
    await this.restoreAgain();
    return true;
  }

  close(): void {
    closeSync(this.#file);
  }

  /** False if something was removed while it was read: a newer mark has what is needed. */
  async #readWhole(until: number | null, given: Mark | null | undefined): Promise<boolean> {
    const mark = given === undefined ? await newestMark(this.#objects) : given;
    // The fences are read again, so nothing of an earlier reading may make them doubtful.
    this.epoch = 0;
    this.hasDoubtfulFence = false;
    if (!(await this.#beginFrom(mark))) return false;
    await this.catchUp(until);
    if (this.n < (mark?.through ?? 0)) return false;
    onDisk(this.path, () => fdatasyncSync(this.#file));
    return true;
  }

  /** The file becomes what the mark says, without the log after it. False if a chunk is gone. */
  async #beginFrom(mark: Mark | null): Promise<boolean> {
    this.mark = mark;
    this.changedChunks.clear();
    onDisk(this.path, () => ftruncateSync(this.#file, 0));
    this.n = mark?.from ?? 0;
    this.epoch = Math.max(this.epoch, mark?.epoch ?? 0);
    this.digest = mark?.digest ?? noChain;
    this.writer = mark?.writer ?? "";
    this.writerNote = mark?.note ?? "";
    this.writerAt = mark?.at ?? 0;
    // A restore leaves no writer.
    this.isFree = this.writerNote === "";
    if (mark !== null && !(await this.#readChunks(mark))) return false;
    this.pageCount = mark?.pageCount ?? 0;
    return true;
  }

  async #readChunks({ chunks }: Mark): Promise<boolean> {
    let next = 0;
    let isWhole = true;
    const lane = async (): Promise<void> => {
      while (next < chunks.length && isWhole) {
        const no = next++;
        const [label, crc] = chunks[no] as readonly [number, number];
        const name = chunkName(no, label);
        const bytes = await this.#objects.get(name);
        if (bytes === null) isWhole = false;
        else if (crc32(bytes) !== crc) throw damaged(name, "its checksum is wrong");
        else this.#write(zstdDecompressSync(bytes), no * pagesPerChunk * this.pageSize);
      }
    };
    await Promise.all(Array.from({ length: getsAhead }, lane));
    return isWhole;
  }

  #apply(record: LogRecord): void {
    const { kind, n, pages, pageCount } = record;
    if (kind === "pages" || kind === "end") {
      if (record.pageSize !== this.pageSize) throw damaged(logName(n), "its pages have another size");
      if (record.chain !== this.digest) throw damaged(logName(n), "it does not follow the record before it");
      for (const { number, image } of pages) {
        this.#write(image, (number - 1) * this.pageSize);
        this.changedChunks.add(Math.floor((number - 1) / pagesPerChunk));
      }
      this.pageCount = pageCount;
    }
    if (kind === "fence") {
      this.hasDoubtfulFence = record.epoch <= this.epoch;
      this.epoch = Math.max(this.epoch, record.epoch);
      this.writer = record.writer;
      this.writerNote = record.note;
    }
    if (kind !== "void") this.isFree = kind === "end";
    this.n = n;
    this.digest = chainAfter(this.digest, record);
    this.writerAt = record.at;
  }

  #write(bytes: Uint8Array, at: number): void {
    onDisk(this.path, () => {
      for (let written = 0; written < bytes.length;)
        written += writeSync(this.#file, bytes, written, bytes.length - written, at + written);
    });
  }
}

/** An error of the disk names the folder. */
function onDisk<T>(path: string, act: () => T): T {
  try {
    return act();
  } catch (error) {
    throw cacheError(dirname(path), error);
  }
}

interface RestoreOptions {
  readonly path: string;
  readonly pageSize: number;
  readonly until?: number | null;
  /** Null: from the first record of the log on. Without it, from the newest mark. */
  readonly mark?: Mark | null;
}

/** A restore was the last record that the file is made from: its mark, whose own digest it could not know. */
function restoredMark({ n, note, digest }: LogRecord): Mark {
  return { ...(JSON.parse(note) as Mark), from: n, through: n, digest };
}

function vanished(): MillraceError {
  const sentence =
    "Objects of the bucket vanished while it was read. Look for a lifecycle rule that deletes objects; millrace doctor names what is missing.";
  return new MillraceError("store-unavailable", sentence);
}

/** Null if there is none. */
export async function newestMark(objects: Objects): Promise<Mark | null> {
  for (let after: string | null = null; ;) {
    const { names, isLast } = await objects.list(markPrefix, after);
    for (const name of names) {
      const bytes = await objects.get(name);
      if (bytes !== null) return markFrom(bytes, name);
    }
    if (isLast) return null;
    after = names.at(-1) as string;
  }
}
