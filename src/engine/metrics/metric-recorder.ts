/**
 * What this process counts: attempts that have ended, jobs that its duties have ended, jobs that were submitted, and
 * the calls to the store. The counts are kept in one table, which is written as a part of its minute (metric-docs.ts) a
 * quarter of a minute after the first job was counted in it, and at the end of the minute. The first parts of a process
 * come sooner, so that processes that crash again and again are seen.
 *
 *   nothing counted ──a job──► counting ──0.1 s, 1 s, 4 s, then 15 s, or the minute ends──► a part is written
 *
 * A process that is killed loses what it has not written yet, at most 15 s. A process without jobs writes nothing:
 * calls to the store alone begin no part. A part that could not be written is written again, under the same name.
 */
import { isMillraceError } from "../../model/error.ts";
import { isTerminal } from "../../model/job/job-state.ts";
import type { TerminalState } from "../../model/job/job-state.ts";
import { attemptOutcomes, MetricTable, StepCounts } from "../../model/metrics/metric-table.ts";
import type { PackedTable, Series } from "../../model/metrics/metric-table.ts";
import { isHiddenQueue } from "../../model/routing/hidden-queue.ts";
import type { Platform, Timer } from "../../platform/platform.ts";
import type { DocPut, NewJob } from "../../store/records.ts";
import type { Store } from "../../store/store.ts";
import { endedAs } from "../attempts/attempt-observer.ts";
import type { ObservedAttempt } from "../attempts/attempt-observer.ts";
import { answersWithin } from "../calls/settles-within.ts";
import type { RepeatedLines } from "../log/repeated-line.ts";
import { minuteMs, partPut } from "./metric-docs.ts";

/** For how long a process counts before it writes its first parts; each one behind them comes after `partMaxMs`. */
const firstPartsMs = [100, 1000, 4000];
const partMaxMs = 15_000;
const callMaxMs = 10_000;
/** Parts that are kept while the store is away: about an hour of them. */
const unwrittenMax = 240;
const putsMax = 20;

const places = new Map<string, number>(attemptOutcomes.map((outcome, place) => [outcome, place]));

const completedPlace = attemptOutcomes.indexOf("completed");

export interface RecorderSurroundings {
  readonly store: Pick<Store, "putDocs" | "describe">;
  readonly platform: Platform;
  readonly repeated: RepeatedLines;
}

/** What was counted in a part of a minute, until the store has it. */
interface Part {
  readonly name: string;
  readonly since: number;
  readonly table: PackedTable;
  put: DocPut | null;
}

function putOf({ since, name, table }: Part, aheadMs: number): DocPut {
  return partPut(Math.floor((since + aheadMs) / minuteMs), name, table);
}

export class MetricRecorder {
  readonly #around: RecorderSurroundings;
  readonly #process: string;
  #parts = 0;
  #table = new MetricTable();
  /** The series that was added to last: most attempts are of the same route as the one before. */
  #last: { readonly title: ObservedAttempt["title"]; readonly series: Series } | null = null;
  /** When the table's first job was counted, by the machine's clock; null before that. */
  #since: number | null = null;
  /**
   * How far the store's clock is ahead of the machine's, by the last attempt or answer of the store; null before that.
   */
  #aheadMs: number | null = null;
  #timer: Timer | null = null;
  #unwritten: Part[] = [];
  #writing: Promise<void> | null = null;
  #hasWritten = false;

  constructor(around: RecorderSurroundings) {
    this.#around = around;
    this.#process = [...around.platform.randomBytes(5)].map((byte) => byte.toString(36)).join("");
  }

  /** Whether a part was written since it was last asked: somebody has to roll it up. */
  takeHasWritten(): boolean {
    const has = this.#hasWritten;
    this.#hasWritten = false;
    return has;
  }

  readonly ended = (attempt: ObservedAttempt): void => {
    if (this.#since === null) {
      this.#aheadMs = attempt.endedAt - this.#around.platform.now();
      this.#begin();
    }
    const { title, settled } = attempt;
    const series = this.#seriesOf(title);
    const as = endedAs(attempt);
    const place = as === "completed" ? completedPlace : places.get(as);
    if (place !== undefined) (series.outcomes[place] as number) += 1;
    series.wait.add(attempt.waitedUs);
    series.run.add(attempt.ranUs);
    if (settled !== null && isTerminal(settled.to)) series.total.add(attempt.totalUs);
  };

  /**
   * A duty has ended the job. It had no attempt, or one whose worker does not know how it ended, so only the outcome
   * is counted.
   */
  jobEnded({ queue, name }: ObservedAttempt["title"], as: TerminalState): void {
    const place = places.get(as);
    if (place === undefined || isHiddenQueue(queue)) return;
    if (this.#since === null) this.#begin();
    (this.#table.of(queue, name).outcomes[place] as number) += 1;
  }

  /** The code of a step of a durable run has ended. */
  stepEnded(title: ObservedAttempt["title"], ranUs: number, isFailed: boolean): void {
    if (this.#since === null) this.#begin();
    const steps = (this.#seriesOf(title).steps ??= new StepCounts());
    if (isFailed) steps.failed += 1;
    else steps.completed += 1;
    steps.run.add(ranUs);
  }

  #seriesOf(title: ObservedAttempt["title"]): Series {
    if (this.#last?.title !== title) this.#last = { title, series: this.#table.of(title.queue, title.name) };
    return this.#last.series;
  }

  submitted({ queue, name }: Pick<NewJob, "queue" | "name">, count: number): void {
    if (isHiddenQueue(queue)) return;
    if (this.#since === null) this.#begin();
    this.#table.of(queue, name).enqueued += count;
  }

  called(operation: string, tookUs: number, isFailed: boolean): void {
    const calls = this.#table.call(operation);
    calls.took.add(tookUs);
    if (isFailed) calls.failed += 1;
  }

  /** Writes what was counted so far. Never rejects. */
  async flush(): Promise<void> {
    this.#cut();
    await this.#writing;
    if (this.#unwritten.length > 0) await this.#write();
  }

  #begin(): void {
    // What was called while there were no jobs belongs to no minute that is written.
    this.#table = new MetricTable();
    this.#last = null;
    const now = this.#around.platform.now();
    this.#since = now;
    this.#set(Math.min(firstPartsMs[this.#parts] ?? partMaxMs, minuteMs - (now % minuteMs)));
  }

  #set(inMs: number): void {
    this.#timer?.cancel();
    this.#timer = this.#around.platform.setTimer(inMs, () => void this.flush(), false);
  }

  #cut(): void {
    this.#timer?.cancel();
    if (this.#since === null) return;
    this.#parts += 1;
    const name = `${this.#process}-${this.#parts}`;
    this.#unwritten.push({ name, since: this.#since, table: this.#table.pack(), put: null });
    this.#table = new MetricTable();
    this.#last = null;
    this.#since = null;
    if (this.#unwritten.length <= unwrittenMax) return;
    this.#unwritten.shift();
    this.#around.repeated.say(
      "warn",
      "metrics of this process are lost: the store has been away for too long",
    );
  }

  #write(): Promise<void> {
    this.#writing ??= this.#writeAll().finally(() => (this.#writing = null));
    return this.#writing;
  }

  async #writeAll(): Promise<void> {
    const { store, platform, repeated } = this.#around;
    try {
      this.#aheadMs ??= (await answersWithin(platform, store.describe(), callMaxMs)).now - platform.now();
      while (this.#unwritten.length > 0) {
        const parts = this.#unwritten.slice(0, putsMax);
        // One that is there already was written by a call whose reply was lost; so a part never changes its name.
        for (const part of parts) part.put ??= putOf(part, this.#aheadMs);
        const puts = parts.map(({ put }) => put as DocPut);
        await answersWithin(platform, store.putDocs(puts), callMaxMs);
        this.#hasWritten = true;
        this.#unwritten = this.#unwritten.filter((part) => !parts.includes(part));
      }
    } catch (error) {
      // Nothing of this process is ever written again.
      if (isMillraceError(error, "store-fenced")) {
        this.#unwritten = [];
        return repeated.say("warn", "the last metrics of this process are lost", { error });
      }
      repeated.say("warn", "metrics could not be written; they are kept and written later", { error });
      if (this.#since === null) this.#set(partMaxMs);
    }
  }
}
