/**
 * Checkpoints bound the log. The chunks of the file that were written since the last mark are put while commits go on,
 * so that they hold a mixture of moments; the log records since then make it one moment again. The mark is put after
 * everything that may be in the chunks has landed. `clean-up.ts` removes what a mark has made needless.
 */
import { readSync } from "node:fs";
import { crc32 } from "node:zlib";
import { MillraceError } from "../../../model/error.ts";
import type { Platform } from "../../../platform/platform.ts";
import { CleanUp } from "./clean-up.ts";
import { chunkName, markName, pagesPerChunk, markBytes } from "../layout.ts";
import type { Mark } from "../layout.ts";
import type { LogWriter } from "../log/log-writer.ts";
import type { Objects } from "../objects/objects.ts";
import type { Replica } from "../copy/replica.ts";
import type { Writer } from "../takeover/take-over.ts";
import type { BucketTuning } from "../tuning.ts";
import type { WalTail } from "../log/wal-tail.ts";

const checkpointBytes = 128 * 2 ** 20;
/**
 * An opener reads the log record by record, so a log of many small records is bounded by their number too: 4 records
 * for each chunk that a checkpoint would put, so that checkpoints add at most a quarter to the puts of the log, and not
 * more than one in a minute, because a fast bucket takes a thousand records in a second or two.
 */
const recordsMax = 10_000;
const recordsPerChunk = 4;
/** After a failure the next try comes after that many records more, not with every commit. */
const retryRecords = 100;
/** Each is compressed by a thread, which takes a core from the event loop for some milliseconds. */
const chunksAtOnce = 2;
/** Of zstd: chunks are kept for long, so the default one. */
export const chunkLevel = 3;

export interface CheckpointOptions {
  readonly objects: Objects;
  readonly platform: Platform;
  readonly replica: Replica;
  readonly writer: Writer;
  readonly epoch: number;
  readonly log: () => LogWriter;
  readonly tail: () => WalTail;
  readonly tuning: BucketTuning;
}

export class Checkpoints {
  readonly #options: CheckpointOptions;
  readonly #cleanUp: CleanUp;
  #changed: Set<number>;
  #bytes = 0;
  #running: Promise<void> | null = null;
  /** When the last checkpoint began, or this writer. */
  #beganUs: number;
  #last: Mark | null;
  #failed: { readonly error: unknown } | null = null;
  /** The record from which on a failed checkpoint is tried again. */
  #retryFrom = 0;
  /** What the chunks of the last try are named after: a mark may name them, so they are never put again. */
  #tried = 0;
  #isClosed = false;

  constructor(options: CheckpointOptions) {
    this.#options = options;
    const { objects, platform, replica, log, tuning } = options;
    this.#changed = new Set(replica.changedChunks);
    this.#last = replica.mark;
    this.#beganUs = platform.monotonicUs();
    this.#cleanUp = new CleanUp({ objects, platform, isFenced: () => log().isFenced, tuning });
  }

  /** What people should know: a log that cannot be bounded grows for ever. */
  warnings(): string[] {
    if (this.#failed === null) return [];
    const { error } = this.#failed;
    const why = error instanceof Error ? error.message : String(error);
    return [
      `The last checkpoint or clean-up of the bucket failed, so its log grows (${why}). It is tried again.`,
    ];
  }

  notePages(pages: ReadonlyMap<number, Uint8Array>): void {
    for (const number of pages.keys()) this.#changed.add(Math.floor((number - 1) / pagesPerChunk));
    this.#bytes += pages.size * this.#options.replica.pageSize;
  }

  /** After each record of the log. */
  noteRecord(n: number): void {
    if (this.#running !== null || this.#isClosed || n < this.#retryFrom) return;
    const records = n - (this.#last?.from ?? 0);
    const { platform, tuning } = this.#options;
    const isApart = platform.monotonicUs() - this.#beganUs >= tuning.apartMs * 1000;
    const isLong = isApart && records >= Math.max(tuning.recordsMin, recordsPerChunk * this.#changed.size);
    if (isLong || records >= recordsMax || this.#bytes >= checkpointBytes)
      this.#options.platform.defer(() => void this.run());
  }

  /** One at a time; a second caller gets the one that runs. None begins after the close: its file may be gone. */
  run(): Promise<void> {
    if (this.#isClosed) return Promise.resolve();
    this.#running ??= this.#make()
      .then(
        () => void (this.#failed = null),
        (error: unknown) => {
          this.#failed = { error };
          this.#retryFrom = this.#options.log().n + retryRecords;
        },
      )
      .finally(() => (this.#running = null));
    return this.#running;
  }

  async close(): Promise<void> {
    await this.#running;
    const { n, isFenced } = this.#options.log();
    if (!isFenced && n - (this.#last?.from ?? 0) > this.#options.tuning.closeRecords) await this.run();
    this.#isClosed = true;
  }

  async #make(): Promise<void> {
    const { platform, writer, epoch, log, tail } = this.#options;
    const { n: from, digest, pageCount, isFenced } = log();
    if (isFenced || from === (this.#last?.from ?? 0)) return;
    if (from === this.#tried && this.#failed !== null) throw this.#failed.error;
    this.#tried = from;
    const changed = this.#changed;
    const bytes = this.#bytes;
    this.#changed = new Set();
    this.#bytes = 0;
    this.#beganUs = platform.monotonicUs();
    try {
      // The chunks are read from the file, so all that has landed by `from` must be there.
      if (!tail().cut()) throw new Error("The local write-ahead log could not be cut.");
      const chunks = [...(this.#last?.chunks ?? [])];
      for (let no = chunks.length; no * pagesPerChunk < pageCount; no++) changed.add(no);
      await this.#putChunks(changed, from, chunks);
      await log().whenLanded();
      const through = log().n;
      const { id, note } = writer;
      const at = platform.now();
      const mark: Mark = { from, through, epoch, writer: id, note, digest, at, pageCount, chunks };
      await this.#putMark(mark);
      this.#last = mark;
    } catch (error) {
      for (const no of changed) this.#changed.add(no);
      this.#bytes += bytes;
      throw error;
    }
    await this.#cleanUp.run(this.#last);
  }

  async #putMark(mark: Mark): Promise<void> {
    const { objects } = this.#options;
    const name = markName(mark.through);
    const bytes = markBytes(mark);
    if ((await objects.put(name, bytes, true)) === "stored") return;
    const there = await objects.get(name);
    // Our own bytes: the reply of an earlier try was lost.
    if (there !== null && Buffer.compare(there, bytes) === 0) return;
    throw new MillraceError(
      "store-fenced",
      `Another process has made the checkpoint ${name} of this bucket.`,
    );
  }

  async #putChunks(
    changed: ReadonlySet<number>,
    from: number,
    chunks: (readonly [label: number, crc: number])[],
  ): Promise<void> {
    const { objects, platform, replica } = this.#options;
    const size = pagesPerChunk * replica.pageSize;
    const left = [...changed].sort((a, b) => a - b);
    const lane = async (): Promise<void> => {
      const raw = Buffer.allocUnsafeSlow(size);
      for (let no = left.shift(); no !== undefined; no = left.shift()) {
        const got = readSync(replica.descriptor, raw, 0, size, no * size);
        const bytes = await platform.compress(raw.subarray(0, got), chunkLevel);
        await objects.put(chunkName(no, from), bytes, false);
        chunks[no] = [from, crc32(bytes)];
      }
    };
    await Promise.all(Array.from({ length: chunksAtOnce }, lane));
  }
}
