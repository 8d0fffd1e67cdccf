/**
 * Group commit into the bucket. After each commit of SQLite its pages are taken from the write-ahead log; while one
 * record is being put, what commits joins the next one. An answer is given after its pages have landed.
 *
 * A put is repeated with the same bytes until the bucket answers, however long that takes: nobody else may use its
 * slot, and the pages after it build on it. Callers do not wait that long. They get `outcome-unknown`, and new calls
 * are refused before they change anything.
 */
import { MillraceError } from "../../../model/error.ts";
import type { ErrorOutcome } from "../../../model/error.ts";
import { Backoff } from "../../../platform/backoff.ts";
import type { Platform, Timer } from "../../../platform/platform.ts";
import type { ClaimAnswer, ExtendAnswer, ExtendRequest, SettleAnswer } from "../../../store/operations.ts";
import { isRead } from "../../sqlite/connection/commit.ts";
import type { Call, CallOutcome, CommitOutcome } from "../../sqlite/connection/commit.ts";
import type { Landing } from "../../sqlite/connection/executor.ts";
import { isPassed, logName } from "../layout.ts";
import { momentOf, sinceMs } from "../moment.ts";
import type { Moment } from "../moment.ts";
import { objectsError } from "../bucket-errors.ts";
import { bodyOf, encodeRecord } from "./log-record.ts";
import type { Page } from "./log-record.ts";
import { ObjectsError } from "../objects/objects.ts";
import type { Objects } from "../objects/objects.ts";
import type { Writer } from "../takeover/take-over.ts";
import type { WalTail } from "./wal-tail.ts";
import { waitsOf } from "./who-waits.ts";

/** A writer that lives puts a record at least this often, so that others can tell. */
export const keepAliveMs = 10_000;
/** After that others take the writer for dead. */
export const silentMs = 1.5 * keepAliveMs;
/**
 * A job that kills its process at once does so before its claim has landed, so that nobody would count its attempts.
 * So after a writer that died claims wait for their own commit for so long.
 */
const carefulMs = 60_000;
/** Commits that nobody waits for, but that changed jobs. */
const lazyMs = 1000;
/** How long the bucket may fail before new calls are refused. */
const patienceMs = 2000;
/** Of zstd: records are read once at most, so the fastest one. */
const recordLevel = 1;
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
  /** Before the fence of this writer was put. */
  readonly beganAt: Moment;
  readonly callTimeoutMs: number;
  readonly sleptMs: number;
  /** The writer before this one did not close. */
  readonly isAfterCrash: boolean;
  /** Called with the pages of each commit, before they are put. */
  readonly onPages: (pages: ReadonlyMap<number, Uint8Array>) => void;
  /** Called for each record that has landed. */
  readonly witness?: LogWitness | undefined;
  readonly onRecord: (n: number) => void;
}

/** For tests: which commit each record carries. */
export interface LogWitness {
  /**
   * Commits have positions, from 1 on; a commit that wrote nothing has that of the one before. `shown`: what the answer
   * of a read waits for.
   */
  readonly onTaken: (calls: readonly Call[], commit: CommitOutcome, position: number, shown: number) => void;
  /** Before the record is put: it carries all commits up to the position. */
  readonly onPut: (n: number, position: number) => void;
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
  /** Attempts whose end was applied. */
  settled = 0;
  readonly #options: LogWriterOptions;
  /** How many commits were taken in, and how many of them have landed. */
  #taken = 0;
  #landed = 0;
  /** The last commit with more than heartbeats: reads wait for it (who-waits.ts). */
  #shown = 0;
  #pages = new Map<number, Uint8Array>();
  /** Routes on which jobs became claimable, with the newest commit that did it; not landed yet. */
  readonly #freed = new Map<number, number>();
  #freedLanes = 0;
  #waits: Wait[] = [];
  #isPutting = false;
  #timer: Timer | null = null;
  /** Gives the waits up that have waited too long. */
  #giveUpTimer: Timer | null = null;
  #timerAtUs = Number.POSITIVE_INFINITY;
  /** Before the put of the last landed record began: since then nothing is known of other writers. */
  #landedAt: Moment;
  readonly #carefulUntilUs: number;
  #trouble: { readonly sinceUs: number; error: ObjectsError } | null = null;
  /** Why nothing more is written: another writer, a local copy that cannot be read, or the close. */
  #ended: MillraceError | null = null;
  #isClosing = false;
  #onClosed: (() => void) | null = null;

  constructor(options: LogWriterOptions) {
    this.#options = options;
    this.n = options.n;
    this.digest = options.digest;
    this.#landedAt = options.beganAt;
    const { platform } = options;
    this.#carefulUntilUs = platform.monotonicUs() + (options.isAfterCrash ? carefulMs * 1000 : 0);
    // The tables, at least the epoch: a view should find them soon.
    this.#putWithin(this.#takePages() ? lazyMs : keepAliveMs);
    this.#shown = this.#taken;
  }

  get isFenced(): boolean {
    return this.#ended !== null;
  }

  refusal(): MillraceError | null {
    if (this.#ended !== null) return this.#ended;
    if (this.#trouble === null) return null;
    const forMs = (this.#options.platform.monotonicUs() - this.#trouble.sinceUs) / 1000;
    return forMs < patienceMs ? null : objectsError(this.#trouble.error, "did-not-happen");
  }

  /** The handlers of a fenced writer hear at their next renewal that they have lost their leases. */
  answerRefused({ operation, request }: Call): unknown {
    if (this.#ended === null || operation !== "extendIfLeased") return undefined;
    const { leases } = request as ExtendRequest;
    const now = this.#options.platform.now();
    return { answers: leases.map(() => "stale" as const), others: [], now } satisfies ExtendAnswer;
  }

  take(calls: readonly Call[], commit: CommitOutcome): (call: number) => Promise<void> | null {
    const { outcomes, freed, emitted } = commit;
    let hasPages = false;
    try {
      hasPages = this.#takePages();
    } catch (cause) {
      const sentence =
        "The local copy of the bucket cannot be read, so nothing more is written. Check its disk and open the store again.";
      this.#end(new MillraceError("store-replaced", sentence, { cause }), "unknown");
    }
    // Also a claim: what it hands out belongs to the new writer.
    if (this.#ended !== null) {
      const ended = Promise.reject(this.#ended);
      ended.catch(() => undefined);
      return () => ended;
    }
    if (hasPages) {
      if (
        emitted.length > 0 ||
        calls.some(({ operation }) => !isRead(operation) && operation !== "heartbeat")
      )
        this.#shown = this.#taken;
      for (const route of freed.routes) this.#freed.set(route, this.#taken);
      if (freed.hasLanes) this.#freedLanes = this.#taken;
      this.#putWithin(emitted.length > 0 ? lazyMs : keepAliveMs);
    }
    // Such reads count as a commit: a put that begins after them has to land.
    if (calls.some(({ operation }) => isRead(operation) && this.#isDoubtful(operation)))
      this.#shown = this.#taken += 1;
    for (const [call, { operation }] of calls.entries())
      if (operation === "settleIfLeased") this.settled += appliedOf(outcomes[call]);
    this.#options.witness?.onTaken(calls, commit, this.#taken, this.#shown);
    return (call) => {
      const { operation } = calls[call] as Call;
      const waits = waitsOf[operation];
      const isLanding = waits === "for-landing" || this.#isDoubtful(operation);
      if (waits === "never" && !isLanding) return null;
      const written = isRead(operation) ? this.#shown : this.#taken;
      const position = isLanding
        ? written
        : this.#freedPosition((outcomes[call] as { answer: ClaimAnswer }).answer);
      return position <= this.#landed ? null : this.whenLanded(position);
    };
  }

  /** Resolves when everything that was committed so far has landed. */
  whenLanded(position = this.#taken): Promise<void> {
    if (this.#ended !== null) return Promise.reject(this.#ended);
    if (position <= this.#landed) return Promise.resolve();
    return new Promise((resolve, reject) => {
      this.#waits.push({ position, sinceUs: this.#options.platform.monotonicUs(), resolve, reject });
      this.#giveUpLater();
      this.#put();
    });
  }

  /** Puts what is left, and that this writer has closed. */
  async close(): Promise<void> {
    this.#isClosing = true;
    this.#timer?.cancel();
    if (this.#ended !== null) return;
    const closed = new Promise<void>((resolve) => (this.#onClosed = resolve));
    this.#put();
    await closed;
  }

  /**
   * After a pause somebody else may have the bucket. Before that is known no handler should begin or go on, and no read
   * should be answered from a copy that may be hours old.
   */
  #isDoubtful(operation: Call["operation"]): boolean {
    const isHandler = operation === "claim" || operation === "extendIfLeased";
    if (!isHandler && waitsOf[operation] !== "for-landing") return false;
    if (this.#sinceLandedMs() > silentMs) return true;
    return operation === "claim" && this.#options.platform.monotonicUs() < this.#carefulUntilUs;
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
    this.#taken += 1;
    for (const [number, image] of read.pages) this.#pages.set(number, image);
    this.pageCount = read.pageCount;
    onPages(read.pages);
    tail.cutLong();
    return true;
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
    if (this.#isPutting || this.#ended !== null) return;
    this.#isPutting = true;
    this.#timer?.cancel();
    this.#timerAtUs = Number.POSITIVE_INFINITY;
    this.#putNext().then(
      (isLast) => {
        this.#isPutting = false;
        if (isLast) return this.#onClosed?.();
        if (this.#ended !== null) return;
        if (this.#waits.length > 0 || this.#isClosing) return this.#put();
        this.#putWithin(this.#pages.size > 0 ? lazyMs : keepAliveMs);
      },
      (error: unknown) => {
        this.#isPutting = false;
        this.#end(stopped(error), "unknown");
      },
    );
  }

  /** @returns whether it was the last record of a writer that closes. */
  async #putNext(): Promise<boolean> {
    const { platform, epoch, writer, tail } = this.#options;
    const position = this.#taken;
    const isLast = this.#isClosing;
    const { pageCount } = this;
    const pages: Page[] = [...this.#pages].map(([number, image]) => ({ number, image }));
    this.#pages = new Map();
    const n = this.n + 1;
    const compressed = await platform.compress(bodyOf(pages, tail.pageSize), recordLevel);
    const head = { kind: isLast ? ("end" as const) : ("pages" as const), n, epoch, writer: writer.id };
    const { bytes, digest } = encodeRecord(
      { ...head, at: platform.now(), chain: this.digest, pageCount, pageSize: tail.pageSize },
      compressed,
    );
    this.#options.witness?.onPut(n, position);
    const beganAt = momentOf(platform);
    const outcome = await this.#putUntilLanded(n, bytes);
    if (outcome !== "landed") {
      this.#end(fenced(), outcome);
      return true;
    }
    this.n = n;
    this.digest = digest;
    // A process may sleep between the landing and its reply. So what is known is known of the time before the put.
    this.#landedAt = beganAt;
    this.#land(position);
    this.#options.onRecord(n);
    return isLast;
  }

  /** If not landed, this writer is fenced; what was to land did not, or nobody knows. */
  async #putUntilLanded(n: number, bytes: Uint8Array): Promise<"landed" | ErrorOutcome> {
    const { objects, platform } = this.#options;
    const backoff = new Backoff(platform, retryLengths);
    for (;;) {
      try {
        if ((await objects.put(logName(n), bytes, true)) === "exists") {
          const there = await objects.get(logName(n));
          if (there === null) return "unknown";
          // Our own bytes: the reply of an earlier try was lost.
          if (Buffer.compare(there, bytes) !== 0) return "did-not-happen";
        }
        // A mark of somebody else: its own are of records before this one.
        if (this.#sinceLandedMs() > this.#options.sleptMs && (await isPassed(objects, n))) return "unknown";
        this.#trouble = null;
        return "landed";
      } catch (error) {
        if (!(error instanceof ObjectsError)) throw error;
        this.#trouble ??= { sinceUs: platform.monotonicUs(), error };
        this.#trouble.error = error;
        if (this.#isClosing && this.#isTooLong(this.#trouble)) throw error;
        const delayMs = backoff.failed();
        await new Promise<void>((resolve) => void platform.setTimer(delayMs, resolve, true));
      }
    }
  }

  #sinceLandedMs(): number {
    return sinceMs(this.#landedAt, this.#options.platform);
  }

  #land(position: number): void {
    this.#landed = position;
    for (const [route, freedBy] of this.#freed) if (freedBy <= position) this.#freed.delete(route);
    const landed = this.#waits.filter((wait) => wait.position <= position);
    this.#waits = this.#waits.filter((wait) => wait.position > position);
    for (const { resolve } of landed) resolve();
  }

  /** A put may also hang without failing. */
  #giveUpLater(): void {
    const { platform, callTimeoutMs } = this.#options;
    const [first] = this.#waits;
    if (this.#giveUpTimer !== null || first === undefined) return;
    const leftMs = callTimeoutMs - (platform.monotonicUs() - first.sinceUs) / 1000;
    const giveUp = (): void => {
      this.#giveUpTimer = null;
      this.#giveUpWaits(this.#trouble?.error ?? new ObjectsError("unreachable", "a put has no answer yet"));
      this.#giveUpLater();
    };
    this.#giveUpTimer = platform.setTimer(Math.max(1, leftMs), giveUp, false);
  }

  /** Those who waited too long. What they wait for may still land. */
  #giveUpWaits(error: ObjectsError): void {
    // In the order in which they came.
    const left = this.#waits.findIndex((wait) => !this.#isTooLong(wait));
    const given = this.#waits.splice(0, left < 0 ? this.#waits.length : left);
    for (const { reject } of given) reject(objectsError(error, "unknown"));
  }

  #isTooLong({ sinceUs }: { readonly sinceUs: number }): boolean {
    const { platform, callTimeoutMs } = this.#options;
    return platform.monotonicUs() - sinceUs >= callTimeoutMs * 1000;
  }

  /** Nothing more is written. `outcome`: of what waits. */
  #end(error: MillraceError, outcome: ErrorOutcome): void {
    this.#ended = error;
    this.#timer?.cancel();
    const waits = this.#waits;
    this.#waits = [];
    const ofWaits = outcome === error.outcome ? error : unknownOutcome(error);
    for (const { reject } of waits) reject(ofWaits);
    this.#onClosed?.();
  }
}

function fenced(): MillraceError {
  const sentence =
    "Another process took this bucket over, so this one writes nothing more. Open the store again to work on.";
  return new MillraceError("store-fenced", sentence);
}

/** A close that the bucket did not answer in time, or a bug. */
function stopped(error: unknown): MillraceError {
  if (error instanceof ObjectsError) {
    const sentence = `The bucket could not be reached at the close (${error.message}), so what had not landed may be lost, and the next process takes this one for dead. Open the store again and repeat what waited with the same ids.`;
    return new MillraceError("outcome-unknown", sentence, { cause: error, outcome: "unknown" });
  }
  const sentence = "The log of the bucket cannot be written any more. Open the store again.";
  return new MillraceError("store-unavailable", sentence, { cause: error });
}

function unknownOutcome(cause: MillraceError): MillraceError {
  const sentence = `The call may or may not have happened (${cause.message}) Repeat it with the same ids.`;
  return new MillraceError("outcome-unknown", sentence, { cause, outcome: "unknown" });
}

function appliedOf(outcome: CallOutcome | undefined): number {
  if (outcome?.kind !== "answer") return 0;
  return (outcome.answer as readonly SettleAnswer[]).filter(({ kind }) => kind === "ok").length;
}
