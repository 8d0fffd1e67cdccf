/**
 * Metrics as people read them: the counts of all processes of the store, minute by minute, and the present gauges.
 * Percentiles come from merged sketches, with an error of at most 1 %; they are never averaged.
 */
import type { Needs } from "../../engine/services.ts";
import { readAllTotals } from "../../engine/metrics/add-up-totals.ts";
import { absorbAll, minuteMs, readMinutes } from "../../engine/metrics/metric-docs.ts";
import { durationMs } from "../../model/duration.ts";
import type { Duration } from "../../model/duration.ts";
import { MillraceError } from "../../model/error.ts";
import { readInstant } from "../../model/instant.ts";
import { attemptOutcomes, MetricTable, Series } from "../../model/metrics/metric-table.ts";
import type { CallSeries, CountedOutcome } from "../../model/metrics/metric-table.ts";
import { checkName } from "../../model/name.ts";
import { checkOptions } from "../../model/option.ts";
import { prometheusText } from "../../model/metrics/prometheus-text.ts";
import type { Sketch } from "../../model/metrics/sketch.ts";
import type { StoreMeasure, StoreRequests } from "../../store/store.ts";
import { readProcessDuties } from "../workers/duty-views.ts";
import { metricFamilies } from "./metric-families.ts";
import { readQueueGauges, readStoreGauges } from "./metric-gauges.ts";
import type { QueueGauges } from "./metric-gauges.ts";

type MetricsNeeds = Needs<"store" | "metrics">;

export interface ReadMetricsOptions {
  /** Default: an hour before `to`. */
  from?: Date | number;
  /** Default: now. */
  to?: Date | number;
  /** The length of a point, a multiple of a minute. Default: a minute. */
  step?: Duration;
  /** Only this queue. */
  queue?: string;
  /** Only jobs of this name. */
  name?: string;
}

/** How long something took, in milliseconds, within 1 %. */
export interface Times {
  readonly count: number;
  readonly meanMs: number;
  readonly p50Ms: number;
  readonly p90Ms: number;
  readonly p95Ms: number;
  readonly p99Ms: number;
  readonly maxMs: number;
}

export interface MetricCounts {
  readonly enqueued: number;
  /** Attempts that have ended. */
  readonly attempts: number;
  /**
   * How the attempts ended, and the jobs that a duty ended: after a deadline, a time-to-live, a crash loop or a
   * timeout, or without a handler. Outcomes that did not occur are left out.
   */
  readonly outcomes: Readonly<Partial<Record<CountedOutcome, number>>>;
  /** From the time at which a job was due until its handler was called. */
  readonly wait: Times | null;
  /** How long handlers ran. */
  readonly run: Times | null;
  /** From the submit of a job to its end, over all its attempts; of jobs that have ended. */
  readonly total: Times | null;
  /** Of durable runs: the code of steps that ended here, each try of it; null if there was none. */
  readonly steps: StepMetrics | null;
}

export interface StepMetrics {
  readonly completed: number;
  readonly failed: number;
  readonly run: Times | null;
}

export interface MetricPoint extends MetricCounts {
  /** When the point begins, by the store's clock. */
  readonly at: Date;
}

export interface MetricSeries {
  readonly queue: string;
  readonly name: string;
  /** Over the whole period. */
  readonly all: MetricCounts;
  /** The points in which something was counted, in order. */
  readonly points: readonly MetricPoint[];
}

export interface StoreCalls {
  readonly operation: string;
  readonly failed: number;
  readonly took: Times | null;
}

export interface MetricsAnswer {
  readonly from: Date;
  readonly to: Date;
  readonly stepMs: number;
  /** All series together. */
  readonly all: MetricCounts;
  /** By queue and name. */
  readonly series: readonly MetricSeries[];
  /** The calls of all processes to the store, over the whole period. */
  readonly calls: readonly StoreCalls[];
}

const pointsMax = 50_000;

export class Metrics {
  readonly #needs: MetricsNeeds;

  constructor(needs: MetricsNeeds) {
    this.#needs = needs;
  }

  /** What was counted in a period; by default the last hour. */
  async read(options: ReadMetricsOptions = {}): Promise<MetricsAnswer> {
    const { metrics, store } = this.#needs;
    const { from, to, steps, wants } = readOptions(options, (await store.describe()).now);
    await metrics?.flush();
    const whole = new MetricTable();
    const points = new Map<Series, MetricPoint[]>();
    let table = new MetricTable();
    let step = -1;
    const end = (): void => {
      for (const series of table.series()) {
        const into = whole.of(series.queue, series.name);
        into.merge(series);
        const list = points.get(into) ?? [];
        points.set(into, list);
        list.push({ at: new Date((from + step * steps) * minuteMs), ...countsOf(series) });
      }
      for (const calls of table.calls()) whole.call(calls.operation).merge(calls);
      table = new MetricTable();
    };
    for await (const [minute, tables] of readMinutes(store, { from, to })) {
      const next = Math.floor((minute - from) / steps);
      if (next !== step) {
        end();
        step = next;
      }
      absorbAll(table, tables, wants);
    }
    end();
    const all = [...whole.series()].toSorted(byTitle);
    return {
      from: new Date(from * minuteMs),
      to: new Date((to + 1) * minuteMs),
      stepMs: steps * minuteMs,
      all: countsOf(sumOf(all)),
      series: all.map((series) => ({
        queue: series.queue,
        name: series.name,
        all: countsOf(series),
        points: points.get(series) ?? [],
      })),
      calls: [...whole.calls()]
        .toSorted((one, other) => (one.operation < other.operation ? -1 : 1))
        .map(callsOf),
    };
  }

  /** How large the store is and how many clients are connected to it, by server or file. */
  store(): Promise<readonly StoreMeasure[]> {
    return readStoreGauges(this.#needs);
  }

  /** The requests of this process to a bucket since it opened it, and their cost; null on any other store. */
  async requests(): Promise<StoreRequests | null> {
    return (await this.#needs.store.describe()).requests ?? null;
  }

  /** The present state, by queue. */
  queues(): Promise<readonly QueueGauges[]> {
    return readQueueGauges(this.#needs);
  }

  /**
   * Everything in the text format of Prometheus: the counts of all processes since the store was made, and the present
   * gauges. Every process gives the same answer, so scrape one. On a bucket scrape the writer, which has its requests
   * too.
   */
  async prometheus(): Promise<string> {
    const { metrics, store } = this.#needs;
    await metrics?.flush();
    const [totals, queues, servers, processes, requests] = await Promise.all([
      readAllTotals(store),
      this.queues(),
      this.store(),
      readProcessDuties(store),
      this.requests(),
    ]);
    return prometheusText(metricFamilies({ totals, queues, servers, processes, requests }));
  }
}

function byTitle(one: Series, other: Series): number {
  const [left, right] = [`${one.queue}\0${one.name}`, `${other.queue}\0${other.name}`];
  return left < right ? -1 : 1;
}

function sumOf(all: readonly Series[]): Series {
  const sum = new Series("", "");
  for (const series of all) sum.merge(series);
  return sum;
}

function countsOf({ enqueued, outcomes, wait, run, total, steps }: Series): MetricCounts {
  const occurred = attemptOutcomes.flatMap((outcome, place) => {
    const count = outcomes[place] as number;
    return count === 0 ? [] : [[outcome, count] as const];
  });
  return {
    enqueued,
    attempts: wait.count,
    outcomes: Object.fromEntries(occurred),
    wait: timesOf(wait),
    run: timesOf(run),
    total: timesOf(total),
    steps:
      steps === null ? null : { completed: steps.completed, failed: steps.failed, run: timesOf(steps.run) },
  };
}

function callsOf({ operation, failed, took }: CallSeries): StoreCalls {
  return { operation, failed, took: timesOf(took) };
}

function timesOf(sketch: Sketch): Times | null {
  if (sketch.count === 0) return null;
  const inMs = (us: number): number => Math.round(us) / 1000;
  const at = (share: number): number => inMs(sketch.quantileUs(share));
  return {
    count: sketch.count,
    meanMs: inMs(sketch.sumUs / sketch.count),
    ...{ p50Ms: at(0.5), p90Ms: at(0.9), p95Ms: at(0.95), p99Ms: at(0.99), maxMs: inMs(sketch.maxUs) },
  };
}

interface Asked {
  /** The first and the last minute. */
  readonly from: number;
  readonly to: number;
  /** Minutes of a step. */
  readonly steps: number;
  readonly wants: (queue: string, name: string) => boolean;
}

function readOptions(options: ReadMetricsOptions, now: number): Asked {
  const what = "metrics.read";
  const given = checkOptions(options, what, ["from", "to", "step", "queue", "name"]);
  const to = given.to === undefined ? now : readInstant(given.to, `${what}: to`);
  const from = given.from === undefined ? to - 60 * minuteMs : readInstant(given.from, `${what}: from`);
  if (from >= to) throw new MillraceError("invalid-option", `${what}: from must be before to.`);
  const stepMs = durationMs(given.step ?? minuteMs, `${what}: step`);
  if (stepMs < minuteMs || stepMs % minuteMs !== 0)
    throw new MillraceError("invalid-option", `${what}: step must be whole minutes.`);
  if ((to - from) / stepMs > pointsMax)
    throw new MillraceError(
      "invalid-option",
      `${what}: this period has more than ${pointsMax} steps; make the step longer.`,
    );
  const queue = given.queue === undefined ? null : checkName(given.queue, `${what}: queue`);
  const name = given.name === undefined ? null : checkName(given.name, `${what}: name`);
  const steps = stepMs / minuteMs;
  return {
    // Points begin at multiples of the step, so that answers to different questions line up.
    from: Math.floor(from / stepMs) * steps,
    to: Math.ceil(to / minuteMs) - 1,
    steps,
    wants: (ofQueue, ofName) => (queue ?? ofQueue) === ofQueue && (name ?? ofName) === ofName,
  };
}
