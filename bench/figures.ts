/**
 * The words of the bench: what is measured, on which system, and what comes out. A result carries exactly the fields
 * below, in this order, because other programs read them as JSON lines.
 */

/** What only a bucket is asked. */
export const bucketWorks = ["acknowledge", "steady", "reopen", "take-over"] as const;
type BucketWork = (typeof bucketWorks)[number];

export const isBucketWork = (work: string): work is BucketWork =>
  bucketWorks.some((bucketWork) => bucketWork === work);

export const works = [
  "enqueue-single",
  "enqueue-concurrent",
  "enqueue-bulk",
  "drain",
  "retry",
  "unique",
  "tagged",
  "limited",
  "rated",
  "grouped",
  "fifo",
  "keyed",
  "budget",
  "closed",
  "metrics",
  "thread",
  "process",
  "pool",
  "latency",
  "delayed",
  "cancel",
  "stall",
  "permit",
  "call",
  "tracing",
  "idle",
  "schedules",
  "schedules-idle",
  "topics",
  "flow-chain",
  "flow-alone",
  "flow-fan",
  "first-wins",
  "flow-submit",
  "steps",
  "steps-sequential",
  "signal-resume",
  "invoke",
  "suspend-resume",
  "suspended",
  "suspended-memory",
  "replay",
  "events",
  "events-delay",
  "events-read",
  "frames",
  "frames-delay",
  "frames-readers",
  "footprint",
  ...bucketWorks,
] as const;
export type Work = (typeof works)[number];

/** What a run in a hurry measures. */
const hurriedWorks: ReadonlySet<Work> = new Set<Work>([
  ...(["enqueue-single", "enqueue-concurrent", "enqueue-bulk"] as const),
  ...(["drain", "latency", "idle", "footprint"] as const),
  ...bucketWorks,
]);

/** Works that take longer: with --quick they are measured only when they are named. */
export const unhurriedWorks: readonly Work[] = works.filter((work) => !hurriedWorks.has(work));

export const storeNames = ["sqlite", "postgres", "redis", "bucket", "stub"] as const;
export type StoreName = (typeof storeNames)[number];
/** `millrace-sqlite`: Millrace on a SQLite file, beside a bucket. */
export type SystemName =
  | "millrace"
  | "millrace-sqlite"
  | "plainjob"
  | "pg-boss"
  | "graphile-worker"
  | "bullmq"
  | "@dbos-inc/dbos-sdk"
  | "openworkflow";
export type Executor = "inline" | "thread";

/** Where a bucket's objects lie: in a folder, in memory, in Azurite, in our own server that speaks S3. */
export const objectsKinds = ["disk", "memory", "azurite", "s3"] as const;
export type ObjectsKind = (typeof objectsKinds)[number];

/** What lies in the store beside the measured jobs. */
export type Backlog =
  | "1000000 waiting"
  | "1000000 finished"
  | "10000000 finished"
  | `${number} due at once`
  | "2000 closed keys"
  | "100000 closed keys";

/** The ways a system can be run, where it has more than one; said as a note with the figure. */
export const modeNotes = {
  plain: null,
  "no-history": "keeps no finished jobs",
  "reader-open": "a reader's transaction open throughout",
  "plain-jobs": "plain jobs",
  "wide-cap": "a cap of 1000",
  "no-metrics": "metrics off",
  default: "default mode",
  "local-queue": "local-queue mode",
  "local-queue-2000": "local-queue mode, queue of 2000",
  fetch: "3 loops of fetch and complete, by 1000",
  work: "work(), by 1000, 3 at a time",
  notify: "work() with LISTEN/NOTIFY",
  rested: "each after a pause",
  "api-only": "openTelemetry() without an SDK",
  sdk: "openTelemetry(), every span recorded",
  "1-listener": "1 listener in another process",
  "10-in-one": "10 listeners in one other process",
  "10-listeners": "10 listeners in 10 other processes",
  totals: "its queue has a total",
  "partitions-16": "in 16 partitions",
  "partitions-16-totals": "in 16 partitions, its queue has a total",
  busy: "5 ms of CPU per job",
  "10-alarms": "10 listeners for failures in 10 other processes",
} as const;
export type Mode = keyof typeof modeNotes;

/**
 * Jobs of a backlog that are waiting, that are finished, that come due at one moment, and that wait at a closed gate,
 * each under a key of its own. Such a gate was closed by a first job of its key, which is finished.
 */
export function jobsBeside(
  backlog: Backlog | null,
): Record<"waiting" | "finished" | "due" | "closed", number> {
  const [text, state] = (backlog ?? "0 waiting").split(" ");
  const count = Number(text);
  const none = { waiting: 0, finished: 0, due: 0, closed: 0 };
  return state === "closed"
    ? { ...none, closed: count, finished: count }
    : { ...none, [state as string]: count };
}

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
  /**
   * Jobs per second; for idle and suspended, store calls per second of all processes; for frames-readers, reads per
   * write; for schedules-idle, per cent of a core.
   */
  readonly rate?: number;
  readonly p50Ms?: number;
  readonly p99Ms?: number;
  /** Memory of the server per waiting job, its input included; for suspended-memory, of the worker per run. */
  readonly bytesPerJob?: number;
  /** Of a bucket: objects that were put for a job, and their bytes. For idle: objects put in a minute. */
  readonly puts?: number;
  readonly putBytes?: number;
  /** How the system was run, or under what; absent where there is nothing to say. */
  readonly note?: string;
}

/** What one round of one measurement answers. */
export type Figures = (
  | { readonly rate: number }
  | { readonly p50Ms: number; readonly p99Ms: number }
  | { readonly bytesPerJob: number }
) & { readonly puts?: number; readonly putBytes?: number };

export function medianFigures(rounds: readonly Figures[]): Figures {
  const puts = rounds.flatMap((figures) => figures.puts ?? []);
  const putBytes = rounds.flatMap((figures) => figures.putBytes ?? []);
  return {
    ...medianOf(rounds),
    ...(puts.length === 0 ? {} : { puts: median(puts) }),
    ...(putBytes.length === 0 ? {} : { putBytes: median(putBytes) }),
  };
}

function medianOf(rounds: readonly Figures[]): Figures {
  const rates = rounds.flatMap((figures) => ("rate" in figures ? [figures.rate] : []));
  if (rates.length > 0) return { rate: median(rates) };
  const sizes = rounds.flatMap((figures) => ("bytesPerJob" in figures ? [figures.bytesPerJob] : []));
  if (sizes.length > 0) return { bytesPerJob: median(sizes) };
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
