/**
 * The counts of a period: for every queue and job name the number of submitted jobs, the ends of attempts by outcome,
 * and sketches of wait and run times; and how long the calls to the store took. Tables are merged by adding them up.
 *
 * Always true: a table has a bounded number of series, whatever the names of jobs. Further names are counted for their
 * queue, and further queues together.
 */
import type { EventKind } from "../events/event-kind.ts";
import { packNumbers, unpackNumbers } from "../packed-numbers.ts";
import type { PackedNumbers } from "../packed-numbers.ts";
import { Sketch } from "./sketch.ts";

/** How an attempt can end. New outcomes are added at the end, because stored tables use the index. */
export const attemptOutcomes = [
  "completed",
  "failed",
  "retry-scheduled",
  "cancelled",
  "expired",
  "snoozed",
  "throttled",
  "handed-back",
  "lost",
  "suspended",
] as const satisfies readonly (EventKind | "lost")[];
export type CountedOutcome = (typeof attemptOutcomes)[number];

/** The name, or the queue, of series that are counted together because there are too many. */
export const otherSeries = "(other)";
/** The maximum number of series of a table. */
export const seriesMax = 300;

/** The code of steps of durable runs, by how it ended. A step that is replayed calls no code. */
export class StepCounts {
  completed = 0;
  /** Each try that failed. */
  failed = 0;
  readonly run = new Sketch();

  merge({ completed, failed, run }: StepCounts): void {
    this.completed += completed;
    this.failed += failed;
    this.run.merge(run);
  }
}

export class Series {
  readonly queue: string;
  readonly name: string;
  enqueued = 0;
  /** By the index in `attemptOutcomes`. */
  readonly outcomes: number[] = attemptOutcomes.map(() => 0);
  /** From the time at which the job was due to the call of its handler. */
  readonly wait = new Sketch();
  readonly run = new Sketch();
  /** From the submit of the job to its end, over all attempts; only of jobs that have ended. */
  readonly total = new Sketch();
  /** Of durable runs; null if no step's code has ended. */
  steps: StepCounts | null = null;

  constructor(queue: string, name: string) {
    this.queue = queue;
    this.name = name;
  }

  countOf(outcome: CountedOutcome): number {
    return this.outcomes[attemptOutcomes.indexOf(outcome)] as number;
  }

  merge(other: Series): void {
    this.enqueued += other.enqueued;
    for (const [place, count] of other.outcomes.entries()) (this.outcomes[place] as number) += count;
    this.wait.merge(other.wait);
    this.run.merge(other.run);
    this.total.merge(other.total);
    if (other.steps !== null) (this.steps ??= new StepCounts()).merge(other.steps);
  }

  numbers(): readonly number[] {
    const { enqueued, outcomes, wait, run, total, steps } = this;
    const ofSteps = steps === null ? [] : [steps.completed, steps.failed, ...steps.run.numbers()];
    const times = [...wait.numbers(), ...run.numbers(), ...total.numbers()];
    return [enqueued, outcomes.length, ...outcomes, ...times, ...ofSteps];
  }

  /**
   * Adds a packed series. A later version may count more outcomes; they are skipped. The numbers of steps are there
   * only if there were any, and an earlier version skips them.
   */
  absorb(next: PackedNumbers): void {
    this.enqueued += next();
    const length = next();
    for (let place = 0; place < length; place++) {
      const count = next();
      if (place < attemptOutcomes.length) (this.outcomes[place] as number) += count;
    }
    this.wait.absorb(next);
    this.run.absorb(next);
    this.total.absorb(next);
    if (next.isAtEnd()) return;
    const steps = (this.steps ??= new StepCounts());
    steps.completed += next();
    steps.failed += next();
    steps.run.absorb(next);
  }
}

/** The calls of one operation of the store. */
export class CallSeries {
  readonly operation: string;
  failed = 0;
  readonly took = new Sketch();

  constructor(operation: string) {
    this.operation = operation;
  }

  merge({ failed, took }: CallSeries): void {
    this.failed += failed;
    this.took.merge(took);
  }
}

export interface PackedTable {
  readonly version: 1;
  readonly series: readonly (readonly [queue: string, name: string, numbers: string])[];
  readonly calls: readonly (readonly [operation: string, numbers: string])[];
}

export class MetricTable {
  readonly #queues = new Map<string, Map<string, Series>>();
  readonly #calls = new Map<string, CallSeries>();
  #size = 0;

  get isEmpty(): boolean {
    return this.#size === 0 && this.#calls.size === 0;
  }

  /** The series of a queue and a name, created if needed. */
  of(queue: string, name: string): Series {
    return this.#queues.get(queue)?.get(name) ?? this.#make(queue, name);
  }

  call(operation: string): CallSeries {
    let series = this.#calls.get(operation);
    if (series === undefined) this.#calls.set(operation, (series = new CallSeries(operation)));
    return series;
  }

  *series(): Generator<Series, void, undefined> {
    for (const names of this.#queues.values()) yield* names.values();
  }

  calls(): IterableIterator<CallSeries> {
    return this.#calls.values();
  }

  merge(other: MetricTable): void {
    for (const series of other.series()) this.of(series.queue, series.name).merge(series);
    for (const calls of other.calls()) this.call(calls.operation).merge(calls);
  }

  pack(): PackedTable {
    return {
      version: 1,
      series: [...this.series()].map((each) => [each.queue, each.name, packNumbers(each.numbers())]),
      calls: [...this.#calls.values()].map(({ operation, failed, took }) => [
        operation,
        packNumbers([failed, ...took.numbers()]),
      ]),
    };
  }

  /** Adds what `pack` made of another table. @param wants which series; all by default. */
  absorb(
    { version, series, calls }: PackedTable,
    wants: (queue: string, name: string) => boolean = () => true,
  ): void {
    if (version !== 1) throw new RangeError("a table of metrics is of a version that is not known");
    for (const [queue, name, numbers] of series)
      if (wants(queue, name)) this.of(queue, name).absorb(unpackNumbers(numbers));
    for (const [operation, numbers] of calls) {
      const next = unpackNumbers(numbers);
      const call = this.call(operation);
      call.failed += next();
      call.took.absorb(next);
    }
  }

  #make(queue: string, name: string): Series {
    let names = this.#queues.get(queue);
    if (this.#size >= seriesMax) {
      if (names === undefined && queue !== otherSeries) return this.of(otherSeries, otherSeries);
      if (name !== otherSeries) return this.of(queue, otherSeries);
    }
    if (names === undefined) this.#queues.set(queue, (names = new Map()));
    const series = new Series(queue, name);
    names.set(name, series);
    this.#size += 1;
    return series;
  }
}
