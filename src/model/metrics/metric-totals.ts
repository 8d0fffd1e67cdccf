/**
 * Metrics added up for good, as Prometheus wants them: counters that only grow, and histograms with fixed bounds. They
 * are made from tables, minute by minute, and keep no sketches, so they stay small.
 */
import { attemptOutcomes, MetricTable } from "./metric-table.ts";
import type { CountedOutcome } from "./metric-table.ts";
import { packNumbers, unpackNumbers } from "../packed-numbers.ts";
import type { Sketch } from "./sketch.ts";

/** The upper bounds of the histograms' buckets, in seconds. Stored totals use the index: never change them. */
export const histogramBounds = [
  0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60, 300, 1800, 7200,
] as const;

export class Histogram {
  count = 0;
  sumUs = 0;
  /** How many values are not above the bound with the same index. */
  readonly upTo: number[] = histogramBounds.map(() => 0);

  absorb(sketch: Sketch): void {
    this.count += sketch.count;
    this.sumUs += sketch.sumUs;
    for (const [place, bound] of histogramBounds.entries())
      (this.upTo[place] as number) += sketch.countUpTo(bound * 1_000_000);
  }

  numbers(): readonly number[] {
    return [this.count, Math.round(this.sumUs), ...this.upTo];
  }

  read(next: () => number): void {
    this.count = next();
    this.sumUs = next();
    for (const place of histogramBounds.keys()) this.upTo[place] = next();
  }
}

export interface TotalSeries {
  readonly queue: string;
  readonly name: string;
  enqueued: number;
  readonly outcomes: Map<CountedOutcome, number>;
  readonly wait: Histogram;
  readonly run: Histogram;
  readonly total: Histogram;
  /** Of durable runs; null if no step's code has ended. */
  steps: TotalSteps | null;
}

export interface TotalSteps {
  completed: number;
  failed: number;
  readonly run: Histogram;
}

export interface TotalCalls {
  failed: number;
  readonly took: Histogram;
}

export interface PackedTotals {
  readonly version: 1;
  readonly series: readonly (readonly [queue: string, name: string, numbers: string])[];
  readonly calls: readonly (readonly [operation: string, numbers: string])[];
}

function noSteps(): TotalSteps {
  return { completed: 0, failed: 0, run: new Histogram() };
}

export class MetricTotals {
  /** A table with empty sketches, which says to which series a name belongs: so totals are bounded as a table is. */
  readonly #places = new MetricTable();
  readonly #series = new Map<object, TotalSeries>();
  readonly calls = new Map<string, TotalCalls>();

  get series(): Iterable<TotalSeries> {
    return this.#series.values();
  }

  absorb(table: MetricTable): void {
    for (const { queue, name, enqueued, outcomes, wait, run, total, steps } of table.series()) {
      const into = this.#of(queue, name);
      into.enqueued += enqueued;
      for (const [place, outcome] of attemptOutcomes.entries())
        into.outcomes.set(outcome, (into.outcomes.get(outcome) ?? 0) + (outcomes[place] as number));
      into.wait.absorb(wait);
      into.run.absorb(run);
      into.total.absorb(total);
      if (steps === null) continue;
      const ofSteps = (into.steps ??= noSteps());
      ofSteps.completed += steps.completed;
      ofSteps.failed += steps.failed;
      ofSteps.run.absorb(steps.run);
    }
    for (const { operation, failed, took } of table.calls()) {
      const into = this.#callsOf(operation);
      into.failed += failed;
      into.took.absorb(took);
    }
  }

  pack(): PackedTotals {
    return {
      version: 1,
      series: [...this.series].map(({ queue, name, enqueued, outcomes, wait, run, total, steps }) => {
        const counts = attemptOutcomes.map((outcome) => outcomes.get(outcome) ?? 0);
        const times = [wait, run, total].flatMap((histogram) => histogram.numbers());
        // At the end, and only if there were any: an earlier version skips them.
        const ofSteps = steps === null ? [] : [steps.completed, steps.failed, ...steps.run.numbers()];
        return [queue, name, packNumbers([enqueued, counts.length, ...counts, ...times, ...ofSteps])];
      }),
      calls: [...this.calls].map(([operation, { failed, took }]) => [
        operation,
        packNumbers([failed, ...took.numbers()]),
      ]),
    };
  }

  /** @throws if `pack` did not make it. */
  static unpack({ version, series, calls }: PackedTotals): MetricTotals {
    if (version !== 1) throw new RangeError("totals of metrics are of a version that is not known");
    const totals = new MetricTotals();
    for (const [queue, name, numbers] of series) {
      const next = unpackNumbers(numbers);
      const into = totals.#of(queue, name);
      into.enqueued = next();
      const length = next();
      for (let place = 0; place < length; place++) {
        const count = next();
        const outcome = attemptOutcomes[place];
        if (outcome !== undefined) into.outcomes.set(outcome, count);
      }
      for (const histogram of [into.wait, into.run, into.total]) histogram.read(next);
      if (next.isAtEnd()) continue;
      const steps = (into.steps = noSteps());
      steps.completed = next();
      steps.failed = next();
      steps.run.read(next);
    }
    for (const [operation, numbers] of calls) {
      const next = unpackNumbers(numbers);
      const into = totals.#callsOf(operation);
      into.failed = next();
      into.took.read(next);
    }
    return totals;
  }

  #of(queue: string, name: string): TotalSeries {
    const place = this.#places.of(queue, name);
    let series = this.#series.get(place);
    if (series === undefined) {
      const times = { wait: new Histogram(), run: new Histogram(), total: new Histogram() };
      const counts = { enqueued: 0, outcomes: new Map(), steps: null };
      series = { queue: place.queue, name: place.name, ...counts, ...times };
      this.#series.set(place, series);
    }
    return series;
  }

  #callsOf(operation: string): TotalCalls {
    let calls = this.calls.get(operation);
    if (calls === undefined) this.calls.set(operation, (calls = { failed: 0, took: new Histogram() }));
    return calls;
  }
}
