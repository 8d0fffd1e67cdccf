/** What the bench tells a measuring process, and what the two say to each other while it runs. */
import type { Backlog, Executor, Figures, Mode, StoreName, SystemName, Work } from "../figures.ts";
import type { JobKind } from "./job-kind.ts";
import type { Mark } from "./marks.ts";
import type { MemoryReport } from "../works/memory.ts";

/** One of two processes: latency from another process than the worker's, or from one holder of a permit to the next. */
type LatencyPart = "latency-enqueuer" | "latency-worker" | "permit-holder" | "permit-taker";

export interface Measurement {
  /** `call-worker`: the other process of calls. `listener`: one that takes events. */
  readonly work: Work | "fill" | "memory" | "call-worker" | "listener" | LatencyPart;
  readonly system: SystemName;
  readonly store: StoreName;
  /** A file, or the URL of a database or prefix. */
  readonly place: string;
  readonly mode: Mode;
  readonly jobKind: JobKind;
  readonly concurrency: number | null;
  readonly jobs: number;
  readonly backlog: Backlog | null;
  readonly executor: Executor | null;
  readonly idleSeconds: number;
  /** One of several idle processes, which begin to count when told. */
  readonly isFleet: boolean;
  /** Of works that are due at an instant: for all of it to be in the store and the process to be ready before. */
  readonly leadMs: number;
}

/** Of a bucket: objects that were put, and their bytes. */
export interface Costs {
  readonly puts: number;
  readonly putBytes: number;
}

export type Outcome =
  | { readonly kind: "figures"; readonly figures: Figures; readonly durability: string }
  | {
      readonly kind: "drained";
      readonly marks: readonly Mark[];
      readonly total: number;
      readonly costs: Costs | null;
      /** Finished jobs by the store's own count, when this process stopped. */
      readonly inStore: number;
      readonly durability: string;
    }
  | { readonly kind: "memory"; readonly report: MemoryReport }
  /** It was due before it was all in the store: to be measured again with a longer lead. */
  | { readonly kind: "late" }
  /** Nothing to tell: it was done, or told on the way. */
  | { readonly kind: "done" };

export function costsSince(before: Costs | null | undefined, after: Costs | null | undefined): Costs | null {
  if (before === null || before === undefined || after === null || after === undefined) return null;
  return { puts: after.puts - before.puts, putBytes: after.putBytes - before.putBytes };
}

export function perJob(costs: Costs | null, jobs: number): Partial<Costs> {
  return costs === null ? {} : { puts: costs.puts / jobs, putBytes: costs.putBytes / jobs };
}

export type FromProcess =
  /** Opened and warm: the work may begin. */
  | { readonly kind: "ready" }
  /** Jobs finished by this process so far. */
  | { readonly kind: "progress"; readonly total: number }
  /** A job's enqueue was called, or the permit it waits for was let go; or its handler has begun. */
  | { readonly kind: "enqueued" | "started"; readonly number: number; readonly atMs: number }
  | { readonly kind: "done"; readonly outcome: Outcome }
  | { readonly kind: "failed"; readonly message: string };

export type ToProcess = "go" | "stop" | "enqueue";
