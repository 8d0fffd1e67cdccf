/**
 * Checkpoints bound the log. The chunks of the file that were written since the last mark are put while commits go on,
 * so that they hold a mixture of moments; the log records since then make it one moment again. The mark is put after
 * everything that may be in the chunks has landed.
 *
 * After a mark, what only older marks need is removed: not before an hour has passed, because a sleeping writer is
 * kept out by the objects in its slots, and never after somebody else's mark was seen.
 */
import { readSync } from "node:fs";
import { crc32, zstdCompress } from "node:zlib";
import type { Platform } from "../../platform/platform.ts";
import {
  chunkName,
  chunkOf,
  chunkPrefix,
  logName,
  logPrefix,
  markName,
  markPrefix,
  numberOf,
  pagesPerChunk,
  toJson,
} from "./layout.ts";
import type { Mark } from "./layout.ts";
import type { LogWriter } from "./log-writer.ts";
import type { Objects } from "./objects/objects.ts";
import type { Replica } from "./replica.ts";
import type { Writer } from "./take-over.ts";
import type { WalTail } from "./wal-tail.ts";

const checkpointBytes = 128 * 2 ** 20;
/** At the close a mark is worth its requests if the next opener would have to read more than this. */
const closeRecords = 100;
const chunksAtOnce = 4;
const graceMs = 60 * 60_000;
const removesAtOnce = 200;

export interface CheckpointOptions {
  readonly objects: Objects;
  readonly platform: Platform;
  readonly replica: Replica;
  readonly writer: Writer;
  readonly epoch: number;
  readonly log: () => LogWriter;
  readonly tail: () => WalTail;
  /** A checkpoint that failed is made up for by the next one. */
  readonly onFailed: (error: unknown) => void;
}

export class Checkpoints {
  readonly #options: CheckpointOptions;
  #changed: Set<number>;
  #bytes = 0;
  #running: Promise<void> | null = null;
  #marks: Mark[];

  constructor(options: CheckpointOptions) {
    this.#options = options;
    this.#changed = new Set(options.replica.changedChunks);
    this.#marks = options.replica.mark === null ? [] : [options.replica.mark];
  }

  notePages(pages: ReadonlyMap<number, Uint8Array>): void {
    for (const number of pages.keys()) this.#changed.add(Math.floor((number - 1) / pagesPerChunk));
    this.#bytes += pages.size * this.#options.replica.pageSize;
    if (this.#bytes >= checkpointBytes) this.#options.platform.defer(() => void this.run());
  }

  /** One at a time; a second caller gets the one that runs. */
  run(): Promise<void> {
    this.#running ??= this.#make()
      .catch((error: unknown) => this.#options.onFailed(error))
      .finally(() => (this.#running = null));
    return this.#running;
  }

  async close(): Promise<void> {
    await this.#running;
    const { n, isFenced } = this.#options.log();
    if (!isFenced && n - (this.#marks.at(-1)?.from ?? 0) > closeRecords) await this.run();
  }

  async #make(): Promise<void> {
    const { objects, platform, writer, epoch, log, tail } = this.#options;
    const { n: from, digest, pageCount } = log();
    const last = this.#marks.at(-1);
    if (from === (last?.from ?? 0)) return;
    const changed = this.#changed;
    this.#changed = new Set();
    this.#bytes = 0;
    try {
      tail().cut(true);
      const chunks = [...(last?.chunks ?? [])];
      for (let no = chunks.length; no * pagesPerChunk < pageCount; no++) changed.add(no);
      await this.#putChunks(changed, from, chunks);
      await log().whenLanded();
      const through = log().n;
      const { id, note } = writer;
      const at = platform.now();
      const mark: Mark = { from, through, epoch, writer: id, note, digest, at, pageCount, chunks };
      if ((await objects.put(markName(through), toJson(mark), true)) === "stored") this.#marks.push(mark);
    } catch (error) {
      for (const no of changed) this.#changed.add(no);
      throw error;
    }
    await this.#cleanUp();
  }

  async #putChunks(
    changed: ReadonlySet<number>,
    from: number,
    chunks: (readonly [label: number, crc: number])[],
  ): Promise<void> {
    const { objects, replica } = this.#options;
    const size = pagesPerChunk * replica.pageSize;
    const left = [...changed].sort((a, b) => a - b);
    const lane = async (): Promise<void> => {
      for (let no = left.shift(); no !== undefined; no = left.shift()) {
        const raw = Buffer.alloc(size);
        const got = readSync(replica.descriptor, raw, 0, size, no * size);
        const bytes = await compressed(raw.subarray(0, got));
        await objects.put(chunkName(no, from), bytes, false);
        chunks[no] = [from, crc32(bytes)];
      }
    };
    await Promise.all(Array.from({ length: chunksAtOnce }, lane));
  }

  /** Removes what neither the newest mark past its grace needs, nor the one before it. */
  async #cleanUp(): Promise<void> {
    const oldFrom = this.#options.platform.now() - graceMs;
    const past = this.#marks.filter(({ at }) => at <= oldFrom);
    const oldest = past.at(-2);
    if (oldest === undefined) return;
    this.#marks = this.#marks.slice(this.#marks.indexOf(oldest));
    const isNamed = (no: number, label: number): boolean => oldest.chunks[no]?.[0] === label;
    const isOldChunk = (name: string): boolean => {
      const { no, n } = chunkOf(name);
      return n <= oldest.from && !isNamed(no, n);
    };
    if (!(await this.#removeFrom(logPrefix, null, (name) => name <= logName(oldest.from)))) return;
    if (!(await this.#removeFrom(chunkPrefix, null, isOldChunk))) return;
    await this.#removeFrom(markPrefix, markName(oldest.through), () => true);
  }

  /** False: somebody else has made a mark, and this writer removes nothing more. */
  async #removeFrom(
    prefix: string,
    start: string | null,
    isOld: (name: string) => boolean,
  ): Promise<boolean> {
    const { objects } = this.#options;
    for (let after = start; ;) {
      const { names, isLast } = await objects.list(prefix, after);
      const old = names.filter(isOld);
      for (let at = 0; at < old.length; at += removesAtOnce) {
        if (!(await this.#isNewest())) return false;
        await objects.remove(old.slice(at, at + removesAtOnce));
      }
      // Log records are listed in their order: behind the first that stays all stay.
      if (isLast || (prefix === logPrefix && old.length < names.length)) return true;
      after = names.at(-1) as string;
    }
  }

  async #isNewest(): Promise<boolean> {
    if (this.#options.log().isFenced) return false;
    const { names } = await this.#options.objects.list(markPrefix, null);
    return names[0] === undefined || numberOf(names[0]) === this.#marks.at(-1)?.through;
  }
}

function compressed(raw: Uint8Array): Promise<Uint8Array> {
  return new Promise((resolve, reject) =>
    zstdCompress(raw, (error, bytes) => (error === null ? resolve(bytes) : reject(error))),
  );
}
