/**
 * Reads what commits appended to SQLite's write-ahead log since the last look: the newest image of each page.
 *
 * A frame counts only up to the last commit mark, and only if salts and running checksum fit: a rolled-back
 * transaction that had spilled leaves frames with these salts after the end, a commit that failed on a full disk even
 * with a commit mark. See "File Format For WAL" in SQLite's documentation.
 */
import { closeSync, fstatSync, openSync, readSync } from "node:fs";
import type { DatabaseSync } from "node:sqlite";
import { resultName } from "../../sqlite/connection/errors.ts";

const headerBytes = 32;
const frameHeadBytes = 24;
const framesAtOnce = 64;
/** Frames after which the log is written back to the file and cut. */
const framesMax = 1000;

export interface Tail {
  /** By page number, from 1 on. */
  readonly pages: ReadonlyMap<number, Uint8Array>;
  /** Of the file after the last commit. */
  readonly pageCount: number;
}

export class WalTail {
  readonly pageSize: number;
  readonly #database: DatabaseSync;
  readonly #path: string;
  #file: number | null = null;
  /** Where the next frame begins; 0 before the header was read. */
  #offset = 0;
  #isBigEndian = false;
  #salts = new Uint8Array(8);
  #sum: [number, number] = [0, 0];

  constructor(database: DatabaseSync, databasePath: string) {
    this.#database = database;
    this.#path = `${databasePath}-wal`;
    this.pageSize = Number((database.prepare("PRAGMA page_size").get() as { page_size: number }).page_size);
  }

  /** The pages that commits have written since the last call; null if there was none. Not inside a transaction. */
  read(): Tail | null {
    const file = (this.#file ??= openSync(this.#path, "r"));
    if (this.#offset === 0 && !this.#readHeader(file)) return null;
    const tail = this.#readFrames(file);
    return tail !== null || !this.#hasBegunAgain(file) ? tail : this.#readFrames(file);
  }

  #readFrames(file: number): Tail | null {
    const frameBytes = frameHeadBytes + this.pageSize;
    const pages = new Map<number, Uint8Array>();
    let pageCount = 0;
    let pending: [number, Uint8Array][] = [];
    let sum = this.#sum;
    // Kept only after everything was read: an error on the way must not lose a commit.
    let end = { offset: this.#offset, sum };
    for (let offset = this.#offset; ;) {
      // Never reused: the images go into records that are put later, so it is no larger than what is there.
      const frames = Math.min(Math.floor((fstatSync(file).size - offset) / frameBytes), framesAtOnce);
      if (frames <= 0) break;
      const block = Buffer.allocUnsafeSlow(frameBytes * frames);
      const got = readSync(file, block, 0, block.length, offset);
      let at = 0;
      for (; at + frameBytes <= got; at += frameBytes) {
        const frame = block.subarray(at, at + frameBytes);
        if (frame.compare(this.#salts, 0, 8, 8, 16) !== 0) break;
        const next = this.#checksum(
          this.#checksum(sum, frame.subarray(0, 8)),
          frame.subarray(frameHeadBytes),
        );
        if (next[0] !== frame.readUInt32BE(16) || next[1] !== frame.readUInt32BE(20)) break;
        sum = next;
        pending.push([frame.readUInt32BE(0), frame.subarray(frameHeadBytes)]);
        const sizeAfterCommit = frame.readUInt32BE(4);
        if (sizeAfterCommit === 0) continue;
        for (const [number, image] of pending) pages.set(number, image);
        pending = [];
        pageCount = sizeAfterCommit;
        end = { offset: offset + at + frameBytes, sum };
      }
      if (at + frameBytes <= block.length) break;
      offset += at;
    }
    this.#offset = end.offset;
    this.#sum = end.sum;
    return pageCount === 0 ? null : { pages, pageCount };
  }

  /** Cuts the log if it has grown long. If the disk has no room for that, it stays until a later commit. */
  cutLong(): void {
    if (this.#offset < framesMax * (frameHeadBytes + this.pageSize)) return;
    try {
      this.cut();
    } catch (error) {
      if (resultName(error) === null) throw error;
    }
  }

  /**
   * Writes the log back to the file and cuts it. Everything must have been read. @returns false if something of it is
   * not in the file yet.
   */
  cut(): boolean {
    const done = this.#database.prepare("PRAGMA wal_checkpoint(TRUNCATE)").get() as { busy: number };
    if (done.busy === 0) this.#offset = 0;
    return done.busy === 0;
  }

  close(): void {
    if (this.#file !== null) closeSync(this.#file);
    this.#file = null;
  }

  /** After a cut that failed half-way SQLite may begin at the front again, with other salts. */
  #hasBegunAgain(file: number): boolean {
    const salts = this.#salts;
    return this.#readHeader(file, (read) => read.compare(salts) !== 0);
  }

  #readHeader(file: number, isWanted: (salts: Buffer) => boolean = () => true): boolean {
    const header = Buffer.alloc(headerBytes);
    if (readSync(file, header, 0, headerBytes, 0) < headerBytes) return false;
    const salts = header.subarray(16, 24);
    if (!isWanted(salts)) return false;
    this.#isBigEndian = (header.readUInt32BE(0) & 1) === 1;
    const sum = this.#checksum([0, 0], header.subarray(0, 24));
    if (sum[0] !== header.readUInt32BE(24) || sum[1] !== header.readUInt32BE(28)) return false;
    this.#salts = salts;
    this.#sum = sum;
    this.#offset = headerBytes;
    return true;
  }

  /** SQLite's running checksum: two sums over pairs of words, in the byte order that the header names. */
  #checksum([first, second]: readonly [number, number], bytes: Buffer): [number, number] {
    let s0 = first | 0;
    let s1 = second | 0;
    if (!this.#isBigEndian && bytes.byteOffset % 4 === 0) {
      const words = new Int32Array(bytes.buffer, bytes.byteOffset, bytes.length / 4);
      for (let at = 0; at < words.length; at += 2) {
        s0 = (s0 + (words[at] as number) + s1) | 0;
        s1 = (s1 + (words[at + 1] as number) + s0) | 0;
      }
    } else {
      const word = (at: number): number =>
        this.#isBigEndian ? bytes.readInt32BE(at) : bytes.readInt32LE(at);
      for (let at = 0; at < bytes.length; at += 8) {
        s0 = (s0 + word(at) + s1) | 0;
        s1 = (s1 + word(at + 4) + s0) | 0;
      }
    }
    return [s0 >>> 0, s1 >>> 0];
  }
}
