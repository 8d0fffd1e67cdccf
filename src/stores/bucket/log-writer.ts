/**
 * Group commit into the bucket. After each commit of SQLite its pages are taken from the write-ahead log; while one
 * record is being put, what commits joins the next one. An answer is given after its pages have landed.
 *
 * A put is repeated with the same bytes until the bucket answers, however long that takes: nobody else may use its
 * slot, and the pages after it build on it. Callers do not wait that long. They get `outcome-unknown`, and new calls
 * are refused before they change anything.
 */
import { constants, zstdCompress, zstdCompressSync } from "node:zlib";
import { MillraceError } from "../../model/error.ts";
import { Backoff } from "../../platform/backoff.ts";
import type { Platform, Timer } from "../../platform/platform.ts";
import type { ClaimAnswer, ExtendAnswer, ExtendRequest } from "../../store/operations.ts";
import type { Call, CommitOutcome } from "../sqlite/commit.ts";
import type { Landing } from "../sqlite/executor.ts";
import { logName, markPrefix, numberOf } from "./layout.ts";
import { objectsError } from "./bucket-errors.ts";
import { bodyOf, encodeRecord } from "./record.ts";
import type { Page } from "./record.ts";
import { ObjectsError } from "./objects/objects.ts";
import type { Objects } from "./objects/objects.ts";
import type { Writer } from "./take-over.ts";
import type { WalTail } from "./wal-tail.ts";
import { waitsOf } from "./who-waits.ts";

/** A writer that lives puts a record at least this often, so that others can tell. */
export const keepAliveMs = 10_000;
/** Commits that nobody waits for, but that changed jobs. */
const lazyMs = 1000;
/** How long the bucket may fail before new calls are refused. */
const patienceMs = 2000;
/**
 * After such a pause the slot may have been used and removed again, so that it no longer keeps this writer out. Log
 * objects stay for an hour after a newer mark made them needless.
 */
const sleptMs = 10 * 60_000;
/** Smaller bodies are compressed at once: a trip to another thread takes longer. */
const smallBytes = 128 * 1024;
const retryLengths = { firstMs: 20, maxMs: 2000 };

export interface LogWriterOptions {
  readonly objects: Objects;
  readonly platform: Platform;
  readonly tail: WalTail;
  readonly writer: Writer;
  readonly epoch: number;
  /** The last record of the log, and its digest. */
  readonly n: number;
  readonly digest: string;
  readonly callTimeoutMs: number;
  /** Told of the pages of each commit, before they are put. */
  readonly onPages: (pages: ReadonlyMap<number, Uint8Array>) => void;
  /** Told of each record that has landed. */
  readonly onRecord: (n: number) => void;
}

interface Wait {
  readonly position: number;
  readonly sinceUs: number;
  readonly resolve: () => void;
  readonly reject: (error: unknown) => void;
}

export class LogWriter implements Landing {
  /** The last record that has landed. */
  n: number;
  digest: string;
  pageCount = 0;
  readonly #options: LogWriterOptions;
  /** How many commits were taken in, and how many of them have landed. */
  #taken = 0;
  #landed = 0;
  #pages = new Map<number, Uint8Array>();
  /** Routes on which jobs became claimable, with the newest commit that did it; not landed yet. */
  readonly #freed = new Map<number, number>();
  #freedLanes = 0;
  #waits: Wait[] = [];
  #isPutting = false;
  #timer: Timer | null = null;
  #timerAtUs = Number.POSITIVE_INFINITY;
  #landedAt: { nowMs: number; monotonicUs: number };
  #trouble: { readonly sinceUs: number; error: ObjectsError } | null = null;
  #fenced: MillraceError | null = null;
  #isClosing = false;
  #onClosed: (() => void) | null = null;

  constructor(options: LogWriterOptions) {
    this.#options = options;
    this.n = options.n;
    this.digest = options.digest;
    this.#landedAt = this.#clocks();
    this.#takePages();
    this.#putWithin(keepAliveMs);
  }

  get isFenced(): boolean {
    return this.#fenced !== null;
  }

  refusal(): MillraceError | null {
    if (this.#fenced !== null) return this.#fenced;
    if (this.#trouble === null) return null;
    const forMs = (this.#options.platform.monotonicUs() - this.#trouble.sinceUs) / 1000;
    return forMs < patienceMs ? null : objectsError(this.#trouble.error, "did-not-happen");
  }

  /** The handlers of a fenced writer hear at their next renewal that they have lost their leases. */
  answerRefused({ operation, request }: Call): unknown {
    if (this.#fenced === null || operation !== "extendIfLeased") return undefined;
    const { leases } = request as ExtendRequest;
    const now = this.#options.platform.now();
    return { answers: leases.map(() => "stale" as const), others: [], now } satisfies ExtendAnswer;
  }

  take(calls: readonly Call[], commit: CommitOutcome): (call: number) => Promise<void> | null {
    const { outcomes, freed, told } = commit;
    const hasPages = this.#takePages();
    if (hasPages) {
      for (const route of freed.routes) this.#freed.set(route, this.#taken);
      if (freed.hasLanes) this.#freedLanes = this.#taken;
      this.#putWithin(told.length > 0 ? lazyMs : keepAliveMs);
    }
    return (call) => {
      const { operation } = calls[call] as Call;
      const waits = waitsOf[operation];
      if (waits === "never") return null;
      const position =
        waits === "for-landing"
          ? this.#taken
          : this.#freedPosition((outcomes[call] as { answer: ClaimAnswer }).answer);
      return position <= this.#landed ? null : this.whenLanded(position);
    };
  }

  /** Resolves when everything that was committed so far has landed. */
  whenLanded(position = this.#taken): Promise<void> {
    if (this.#fenced !== null) return Promise.reject(this.#fenced);
    if (position <= this.#landed) return Promise.resolve();
    return new Promise((resolve, reject) => {
      this.#waits.push({ position, sinceUs: this.#options.platform.monotonicUs(), resolve, reject });
      this.#put();
    });
  }

  /** Puts what is left, and that this writer has closed. */
  async close(): Promise<void> {
    this.#isClosing = true;
    this.#timer?.cancel();
    if (this.#fenced !== null) return;
    const closed = new Promise<void>((resolve) => (this.#onClosed = resolve));
    this.#put();
    await closed;
  }

  #freedPosition({ jobs }: ClaimAnswer): number {
    let position = jobs.length === 0 ? 0 : this.#freedLanes;
    for (const { route } of jobs) position = Math.max(position, this.#freed.get(route) ?? 0);
    return position;
  }

  #takePages(): boolean {
    const { tail, onPages } = this.#options;
    const read = tail.read();
    if (read === null) return false;
    tail.cut();
    this.#taken += 1;
    for (const [number, image] of read.pages) this.#pages.set(number, image);
    this.pageCount = read.pageCount;
    onPages(read.pages);
    return true;
  }

  #clocks(): { nowMs: number; monotonicUs: number } {
    const { platform } = this.#options;
    return { nowMs: platform.now(), monotonicUs: platform.monotonicUs() };
  }

  #putWithin(delayMs: number): void {
    const { platform } = this.#options;
    const atUs = platform.monotonicUs() + delayMs * 1000;
    if (atUs >= this.#timerAtUs || this.#isClosing) return;
    this.#timer?.cancel();
    this.#timerAtUs = atUs;
    this.#timer = platform.setTimer(delayMs, () => this.#put(), false);
  }

  #put(): void {
    if (this.#isPutting || this.#fenced !== null) return;
    this.#isPutting = true;
    this.#timer?.cancel();
    this.#timerAtUs = Number.POSITIVE_INFINITY;
    this.#putNext().then(
      (isLast) => {
        this.#isPutting = false;
        if (isLast) return this.#onClosed?.();
        if (this.#fenced !== null) return;
        if (this.#waits.length > 0 || this.#isClosing) return this.#put();
        this.#putWithin(this.#pages.size > 0 ? lazyMs : keepAliveMs);
      },
      (error: unknown) => {
        this.#isPutting = false;
        this.#fence(error);
      },
    );
  }

  /** @returns whether it was the last record of a writer that closes. */
  async #putNext(): Promise<boolean> {
    const { platform, epoch, writer, tail } = this.#options;
    const position = this.#taken;
    const isLast = this.#isClosing;
    const pages: Page[] = [...this.#pages].map(([number, image]) => ({ number, image }));
    this.#pages = new Map();
    const n = this.n + 1;
    const compressed = await compress(bodyOf(pages, tail.pageSize));
    const head = { kind: isLast ? ("end" as const) : ("pages" as const), n, epoch, writer: writer.id };
    const { pageCount } = this;
    const { bytes, digest } = encodeRecord(
      { ...head, at: platform.now(), chain: this.digest, pageCount, pageSize: tail.pageSize },
      compressed,
    );
    if (!(await this.#putUntilLanded(n, bytes))) {
      this.#fence(null);
      return true;
    }
    this.n = n;
    this.digest = digest;
    this.#land(position);
    this.#options.onRecord(n);
    return isLast;
  }

  /** False: somebody else's record is there, so this writer is fenced. */
  async #putUntilLanded(n: number, bytes: Uint8Array): Promise<boolean> {
    const { objects, platform } = this.#options;
    const backoff = new Backoff(platform, retryLengths);
    for (;;) {
      try {
        const isStored = (await objects.put(logName(n), bytes, true)) === "stored";
        if (!isStored) {
          const there = await objects.get(logName(n));
          // Our own bytes: the reply of an earlier try was lost.
          if (there === null || Buffer.compare(there, bytes) !== 0) return false;
        }
        if (this.#hasSlept() && (await this.#isPassed(n))) return false;
        this.#trouble = null;
        return true;
      } catch (error) {
        if (!(error instanceof ObjectsError)) throw error;
        this.#trouble ??= { sinceUs: platform.monotonicUs(), error };
        this.#trouble.error = error;
        this.#giveUpWaits(error);
        if (this.#isClosing && this.#isTooLong(this.#trouble)) throw error;
        const delayMs = backoff.failed();
        await new Promise<void>((resolve) => void platform.setTimer(delayMs, resolve, true));
      }
    }
  }

  #hasSlept(): boolean {
    const { nowMs, monotonicUs } = this.#clocks();
    const sinceMs = Math.max(nowMs - this.#landedAt.nowMs, (monotonicUs - this.#landedAt.monotonicUs) / 1000);
    return sinceMs > sleptMs;
  }

  /** Whether a mark of somebody else has passed this slot; its own marks are of records before it. */
  async #isPassed(n: number): Promise<boolean> {
    const { names } = await this.#options.objects.list(markPrefix, null);
    const [newest] = names;
    return newest !== undefined && numberOf(newest) >= n;
  }

  #land(position: number): void {
    this.#landed = position;
    this.#landedAt = this.#clocks();
    for (const [route, freedBy] of this.#freed) if (freedBy <= position) this.#freed.delete(route);
    const landed = this.#waits.filter((wait) => wait.position <= position);
    this.#waits = this.#waits.filter((wait) => wait.position > position);
    for (const { resolve } of landed) resolve();
  }

  /** Those who waited too long. What they wait for may still land. */
  #giveUpWaits(error: ObjectsError): void {
    const given = this.#waits.filter((wait) => this.#isTooLong(wait));
    this.#waits = this.#waits.filter((wait) => !given.includes(wait));
    for (const { reject } of given) reject(objectsError(error, "unknown"));
  }

  #isTooLong({ sinceUs }: { readonly sinceUs: number }): boolean {
    const { platform, callTimeoutMs } = this.#options;
    return platform.monotonicUs() - sinceUs >= callTimeoutMs * 1000;
  }

  /** Nothing that waits has landed or ever will. */
  #fence(cause: unknown): void {
    const sentence =
      "Another process took this bucket over, so this one writes nothing more. Nothing of this call happened.";
    this.#fenced = new MillraceError("store-fenced", sentence, { cause });
    this.#timer?.cancel();
    const waits = this.#waits;
    this.#waits = [];
    for (const { reject } of waits) reject(this.#fenced);
    this.#onClosed?.();
  }
}

const level = { params: { [constants.ZSTD_c_compressionLevel]: 1 } };

function compress(body: Uint8Array): Promise<Uint8Array> | Uint8Array {
  if (body.length <= smallBytes) return zstdCompressSync(body, level);
  return new Promise((resolve, reject) =>
    zstdCompress(body, level, (error, bytes) => (error === null ? resolve(bytes) : reject(error))),
  );
}
