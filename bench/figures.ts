/**
 * The words of the bench: what is measured, on which system, and what comes out. A result carries exactly the fields below, in
 * this order, because other programs read them as JSON lines.
 */

export const works = [
  "enqueue-single",
  "enqueue-concurrent",
  "enqueue-bulk",
  "drain",
  "latency",
  "idle",
] as const;
export type Work = (typeof works)[number];

export type StoreName = "sqlite" | "stub";
export type SystemName = "millrace" | "plainjob";
export type Executor = "inline" | "thread";

/** What lies in the store beside the measured jobs. */
export type Backlog = "1000000 waiting" | "1000000 finished";
export const backlogJobs = 1_000_000;

export interface Result {
  readonly system: SystemName;
  readonly version: string;
  readonly store: StoreName;
  readonly work: Work;
  /** Null where the system has no such setting. */
  readonly concurrency: number | null;
  readonly processes: number;
  readonly jobs: number;
  readonly backlog: Backlog | null;
  readonly durability: string;
  /** Jobs per second; for idle, store calls per second. */
  readonly rate?: number;
  readonly p50Ms?: number;
  readonly p99Ms?: number;
}

/** What one round of one measurement answers. */
export type Figures = { readonly rate: number } | { readonly p50Ms: number; readonly p99Ms: number };

export function medianFigures(rounds: readonly Figures[]): Figures {
  const rates = rounds.flatMap((figures) => ("rate" in figures ? [figures.rate] : []));
  if (rates.length > 0) return { rate: median(rates) };
  const times = rounds.flatMap((figures) => ("p50Ms" in figures ? [figures] : []));
  return {
    p50Ms: median(times.map(({ p50Ms }) => p50Ms)),
    p99Ms: median(times.map(({ p99Ms }) => p99Ms)),
  };
}

function median(values: readonly number[]): number {
  return percentile(values, 0.5);
}

/** Nearest rank, without interpolation: every figure given out was measured. */
export function percentile(values: readonly number[], share: number): number {
  const sorted = [...values].sort((one, other) => one - other);
  return sorted[Math.max(0, Math.ceil(sorted.length * share) - 1)] ?? Number.NaN;
}
