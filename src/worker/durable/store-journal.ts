/**
 * The journal of a run over the store, under the fence of its attempt. Reads and appends of many runs share calls
 * (`engine/calls/store-batchers.ts`).
 */
import type { Needs } from "../../engine/services.ts";
import { durableMarks, roundOf } from "../../model/durable/durable-marks.ts";
import { readEntry, writeEntry } from "../../model/durable/entry-text.ts";
import type { JournalEntry, NewEntry } from "../../model/durable/journal-entry.ts";
import { afterRest } from "../../model/durable/run-end.ts";
import { stepEventText } from "../../model/durable/step-event.ts";
import { MillraceError } from "../../model/error.ts";
import { clearedLog, noteSpent } from "../../model/job/attempt-log.ts";
import type { Schedule, Suspend } from "../../model/job/change.ts";
import type { JournalAnswer, SettleAnswer } from "../../store/operations.ts";
import type { Effects, Entry, EntryPut, LeaseRef } from "../../store/records.ts";
import type { Attempt } from "../run/attempt.ts";
import { KeyedWaits } from "./keyed-waits.ts";
import type {
  AppendAnswer,
  JournalPage,
  ReadAnswer,
  RunJournal,
  Slip,
  SlipAnswer,
  Start,
  SuspendAnswer,
  SuspendRequest,
} from "./run-journal.ts";

type StoreJournalNeeds = Needs<
  "store" | "changes" | "journals" | "records" | "settles" | "reads" | "strideMs"
>;

export interface StoreJournalOptions {
  /** The job wants events of its steps. */
  readonly hasEvents: boolean;
  /** What a call starts, as effects of the append of its entry. */
  readonly effectsOf: (starts: readonly Start[]) => Promise<Effects>;
  /** The settle was answered: a cancel was requested meanwhile. */
  readonly cancelAsked: () => void;
}

/** The maximum of entries that one read of a journal brings. */
const pageMax = 1000;
/** Stands for the value `undefined` of a step, which has no payload. */
const noValue = "";

export class StoreJournal implements RunJournal {
  /** What the last settle has done, if it was applied. */
  rested: Suspend | Schedule | null = null;
  readonly #needs: StoreJournalNeeds;
  readonly #attempt: Attempt;
  readonly #options: StoreJournalOptions;
  readonly #keyedWaits: KeyedWaits;

  constructor(needs: StoreJournalNeeds, attempt: Attempt, options: StoreJournalOptions) {
    this.#needs = needs;
    this.#attempt = attempt;
    this.#options = options;
    const { id, durable } = attempt.job;
    this.#keyedWaits = new KeyedWaits(needs, { run: id, round: roundOf(durable) });
  }

  async read(after: number): Promise<ReadAnswer> {
    const { id, seq, fence } = this.#attempt.job;
    const entries: JournalEntry[] = [];
    for (;;) {
      const from = entries.at(-1)?.number ?? after;
      const page: JournalAnswer = await this.#needs.journals.add({
        ...{ id, after: from, max: pageMax },
        lease: { seq, fence },
      });
      if (page.kind !== "ok") return { kind: "stale" };
      for (const entry of page.entries) entries.push(readOrRefuse(entry));
      const last = entries.at(-1)?.number ?? after;
      if (last < page.last && page.entries.length > 0) continue;
      this.#keyedWaits.note(entries);
      return { kind: "ok", entries, slips: page.slips.map(readSlip), now: page.now };
    }
  }

  async append(entries: readonly NewEntry[], starts: readonly Start[]): Promise<AppendAnswer> {
    const attempt = this.#attempt;
    const { job } = attempt;
    // What a step has written is durable before its record: a replay does not write it again.
    if (attempt.frames !== null) await attempt.frames.flush();
    const puts = entries.map(writeEntry);
    await this.#keyedWaits.prepare(entries);
    const effects = starts.length === 0 ? undefined : await this.#options.effectsOf(starts);
    // The run has got further, so what failed before is no reason to give it up.
    const setsBack = entries.some(isProgress) && (job.attempt > 1 || clearedLog(job.attempts) !== null);
    const steps = this.#options.hasEvents ? entries.flatMap(({ body }) => stepEventText(body) ?? []) : [];
    // Whoever ends the run before the answer must not forget an undo that may be recorded.
    attempt.mark(marksOf(puts) & durableMarks.hasUndo);
    const answer = await this.#needs.records.append({
      ...this.#ref,
      entries: puts,
      ...(effects === undefined ? {} : { effects }),
      ...(setsBack ? { setsBack } : {}),
      ...(steps.length === 0 ? {} : { steps }),
    });
    if (typeof answer === "string") return { kind: "stale" };
    if (answer.kind !== "appended") throw effectRefused(answer);
    this.#keyedWaits.note(entries);
    if (setsBack) attempt.setBack();
    attempt.mark(marksOf(puts));
    const { last, at, isRepeat } = answer;
    return { kind: "ok", last, at, ...(isRepeat === true ? { isRepeat } : {}) };
  }

  async suspend({ seen, entries, starts, rest }: SuspendRequest): Promise<SuspendAnswer> {
    const attempt = this.#attempt;
    const next = afterRest(attempt.policy, rest, this.#needs.strideMs);
    const effects = starts.length === 0 ? undefined : await this.#options.effectsOf(starts);
    await this.#keyedWaits.prepare(entries);
    await this.#keyedWaits.prepareRest();
    if (attempt.hasCalls) await new Promise<void>((resolve) => attempt.whenCallsEnd(resolve));
    // While the settle is on its way, nobody takes the lease for lost.
    attempt.phase = "settling";
    let answer: SettleAnswer | null = null;
    try {
      answer = await this.#needs.settles.add({
        ...this.#ref,
        next,
        journal: { seen, entries: entries.map(writeEntry) },
        attempts: logAtRest(attempt),
        ...(effects === undefined ? {} : { effects }),
      });
    } finally {
      if (answer?.kind !== "ok" && answer?.kind !== "already") this.#goOn();
    }
    switch (answer.kind) {
      case "ok":
      case "already":
        this.rested = next;
        return { kind: "suspended" };
      case "stale":
      case "gone":
        return { kind: "stale" };
      case "arrived":
        return { kind: "arrived" };
      case "cancel-asked":
        this.#options.cancelAsked();
        return { kind: "arrived" };
      default:
        throw effectRefused(answer);
    }
  }

  /** The run does not rest. A timer that ended meanwhile was not heard. */
  #goOn(): void {
    const attempt = this.#attempt;
    attempt.phase = "running";
    if (!attempt.hasTimer) attempt.origin.aborting.watch(attempt);
  }

  async commitSlip(connection: unknown, { call, value }: Slip): Promise<SlipAnswer> {
    const slip = { key: call, body: value ?? noValue };
    if (this.#attempt.frames !== null) await this.#attempt.frames.flush();
    const answer = await this.#needs.store.inTransaction(connection).commitSlip(this.#ref, slip);
    return answer.kind === "recorded"
      ? { kind: "recorded", value: readSlip({ key: call, body: answer.body }).value }
      : answer;
  }

  get #ref(): LeaseRef {
    const { id, seq, fence } = this.#attempt.job;
    return { id, seq, fence };
  }
}

/** The journal of a run that has recorded nothing. */
export function emptyPage(now: number): JournalPage {
  return { entries: [], slips: [], now };
}

function readOrRefuse(entry: Entry): JournalEntry {
  try {
    return readEntry(entry);
  } catch (cause) {
    const { number } = entry;
    throw new MillraceError("payload-unreadable", `The entry ${number} of the journal cannot be read.`, {
      cause,
    });
  }
}

function readSlip({ key, body }: { readonly key: string; readonly body: string }): Slip {
  return { call: key, value: body === noValue ? null : body };
}

/** A result, a failure for good, or a wait that is over: not what a crash would only begin again. */
function isProgress({ body }: NewEntry): boolean {
  return (
    body.kind !== "version" && body.kind !== "patched" && body.kind !== "opened" && body.kind !== "failed"
  );
}

function marksOf(puts: readonly EntryPut[]): number {
  return puts.reduce((all, { marks = 0 }) => all | marks, durableMarks.hasJournal);
}

function effectRefused({ kind, id }: { readonly kind: string; readonly id: string }): MillraceError {
  return new MillraceError("id-conflict", `A job that a step starts was refused: ${kind} (${id}).`);
}

/** The log of a run that rests. Null keeps the one that the store has. */
function logAtRest({ job, spent }: Attempt): string | null {
  const cleared = clearedLog(job.attempts);
  return spent === null ? cleared : noteSpent(cleared ?? job.attempts, spent);
}
