/**
 * The calls of one stay on its journal: what is to be appended, and what was read. One append or suspend is in flight
 * at a time. A call whose reply was lost is repeated until it is answered or the lease is lost; the journal accepts
 * each entry once.
 */
import { isMillraceError } from "../../model/error.ts";
import type { JournalCursor } from "../../model/durable/journal-cursor.ts";
import { journalLimits } from "../../model/durable/journal-entry.ts";
import type { EntryBody, NewEntry } from "../../model/durable/journal-entry.ts";
import type { RestPlan } from "../../model/durable/rest-plan.ts";
import type { Platform } from "../../platform/platform.ts";
import type { LiveCall } from "./live-call.ts";
import type { JournalPage, RunJournal, Start } from "./run-journal.ts";
import type { RunEnd } from "./run-settings.ts";

const repeatMs = 100;
const repeatMaxMs = 5000;

const endsRun: ReadonlySet<EntryBody["kind"]> = new Set<EntryBody["kind"]>(["undone", "stuck", "ending"]);

/** What the calls tell the run. */
interface Caller {
  /** No answer matters any more. */
  isOver(): boolean;
  finish(end: RunEnd): void;
  /** The cursor has more entries, or a call has ended. */
  wake(): void;
}

export class JournalCalls {
  /** What is to be appended with the next call. */
  pending: NewEntry[] = [];
  /** Jobs that begin with it. */
  starts: Start[] = [];
  /** Answers of `patched` that are not durable yet. */
  unsurePatches = 0;
  /** What `runIn` has committed, by call. */
  readonly slips = new Map<string, string | null>();
  readonly #journal: RunJournal;
  readonly #cursor: JournalCursor<LiveCall>;
  readonly #platform: Pick<Platform, "setTimer" | "monotonicUs">;
  readonly #caller: Caller;
  /** With the call in flight; null if there is none. */
  #sent: readonly NewEntry[] | null = null;
  #goesOn: (() => void) | null = null;
  #isReading = false;
  /** Something came while a read was on its way. */
  #isHeard = false;
  #storeNow: number;
  #storeNowUs: number;

  constructor(
    journal: RunJournal,
    cursor: JournalCursor<LiveCall>,
    platform: Pick<Platform, "setTimer" | "monotonicUs">,
    page: JournalPage,
    caller: Caller,
  ) {
    this.#journal = journal;
    this.#cursor = cursor;
    this.#platform = platform;
    this.#caller = caller;
    this.#storeNow = page.now;
    this.#storeNowUs = platform.monotonicUs();
    this.#take(page);
  }

  /** Until the cursor has what the call has appended. */
  get isInFlight(): boolean {
    return this.#sent !== null;
  }

  /** What the cursor will have once it is appended. */
  get unrecorded(): readonly NewEntry[] {
    return this.#sent === null ? this.pending : [...this.#sent, ...this.pending];
  }

  /** Waits for the call in flight, for ever if the run is over before its answer. One caller waits at a time. */
  async untilAnswered(): Promise<void> {
    if (this.isInFlight) await new Promise<void>((resolve) => (this.#goesOn = resolve));
  }

  #answered(): void {
    this.#sent = null;
    this.#goesOn?.();
    this.#goesOn = null;
  }

  /** The store's time as far as it is known here, never ahead of it. */
  get storeNow(): number {
    return this.#storeNow + Math.floor((this.#platform.monotonicUs() - this.#storeNowUs) / 1000);
  }

  /** The journal may have grown. */
  heard(): void {
    this.#isHeard = true;
    if (!this.#isReading) void this.readOn();
  }

  /** @returns false if the run is over. */
  async append(): Promise<boolean> {
    const { pending, starts } = this;
    this.pending = [];
    this.starts = [];
    const isEnding = pending.some(({ body }) => endsRun.has(body.kind));
    const most = isEnding ? journalLimits.endingEntriesMax : journalLimits.entriesMax;
    const isTooLarge = !isEnding && this.#cursor.bytes > journalLimits.bytesMax;
    if (isTooLarge || this.#cursor.known + pending.length > most) {
      this.#caller.finish({ kind: "journal-full" });
      return false;
    }
    this.#sent = pending;
    const { answer, isRepeat } = await this.#persist(() => this.#journal.append(pending, starts));
    if (this.#caller.isOver()) return false;
    if (answer.kind === "stale") {
      this.#caller.finish({ kind: "lost" });
      return false;
    }
    const { known } = this.#cursor;
    if (!isRepeat && answer.isRepeat !== true && answer.last === known + pending.length)
      this.#cursor.add(
        pending.map((entry, index) => ({ ...entry, number: known + 1 + index, at: answer.at })),
      );
    else if (answer.last > known) await this.readOn();
    this.#answered();
    this.#hears(answer.at);
    this.unsurePatches -= pending.filter(({ body }) => body.kind === "patched").length;
    this.#caller.wake();
    return !this.#caller.isOver();
  }

  /** @returns `arrived` if the journal holds more than `seen`. */
  async suspend(rest: RestPlan, seen: number): Promise<"suspended" | "arrived" | "over"> {
    const request = { seen, entries: this.pending, starts: this.starts, rest };
    this.#sent = request.entries;
    const { answer } = await this.#persist(() => this.#journal.suspend(request));
    this.#answered();
    if (this.#caller.isOver()) return "over";
    if (answer.kind !== "stale") return answer.kind;
    this.#caller.finish({ kind: "lost" });
    return "over";
  }

  /** Reads what the journal holds after the last number that is known. */
  async readOn(): Promise<void> {
    this.#isReading = true;
    this.#isHeard = false;
    const { answer } = await this.#persist(() => this.#journal.read(this.#cursor.known));
    this.#isReading = false;
    if (this.#caller.isOver()) return;
    if (answer.kind === "stale") {
      this.#caller.finish({ kind: "lost" });
      return;
    }
    this.#take(answer);
    this.#caller.wake();
    // Whatever came while the read was on its way may not be in its answer.
    if (this.#isHeard) await this.readOn();
  }

  #take({ entries, slips, now }: JournalPage): void {
    this.#cursor.add(entries);
    for (const { call, value } of slips) this.slips.set(call, value);
    this.#hears(now);
  }

  #hears(now: number): void {
    if (now <= this.storeNow) return;
    this.#storeNow = now;
    this.#storeNowUs = this.#platform.monotonicUs();
  }

  async #persist<Answer>(call: () => Promise<Answer>): Promise<{ answer: Answer; isRepeat: boolean }> {
    for (let tries = 0; ; tries += 1) {
      try {
        return { answer: await call(), isRepeat: tries > 0 };
      } catch (error) {
        if (isMillraceError(error) && !error.retryable && error.outcome !== "unknown")
          this.#caller.finish({ kind: "refused", error });
        // The caller was abandoned with the run, so nobody reads the answer.
        if (this.#caller.isOver()) return new Promise(() => undefined);
        const delayMs = Math.min(repeatMs * 2 ** Math.min(tries, 10), repeatMaxMs);
        await new Promise<void>((resolve) => this.#platform.setTimer(delayMs, resolve));
      }
    }
  }
}
