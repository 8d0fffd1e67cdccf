/**
 * The settings of a queue, besides its bounds: defaults for its jobs, which come after the job's own options and before
 * the code's defaults, and the slots of each worker. They are kept in the body of the queue's gate.
 *
 *   enqueue option, definition     frozen with the job at its submit
 *   operator's queue setting       read when it is decided: here
 *   the code's queue default       the same
 *   code default, engine default   of the process that decides
 */
import { outcomesNotKept } from "../job/job-policy.ts";
import type { JobPolicy, KeptCounts, KeptHistory, Retention } from "../job/job-policy.ts";
import type { TerminalState } from "../job/job-state.ts";
import type { Backoff } from "../job/retry-policy.ts";

/** Absent fields are not set. */
export interface QueuePolicy {
  /** Slots over all live workers that serve the queue; beats what their code says. */
  readonly total?: number;
  /** Slots of each worker for this queue; beats the worker's own setting. */
  readonly localConcurrency?: number;
  readonly attempts?: number;
  readonly backoff?: Backoff;
  /** How long, and how many, finished jobs of the queue are kept; absent fields are as the store says. */
  readonly retention?: KeptHistory;
}

/** Absent fields do not change; null removes a setting. */
export type QueuePolicyEdit = { readonly [Key in keyof QueuePolicy]: QueuePolicy[Key] | null };

/** What the code says of a queue, besides its bounds. */
export interface DefinedQueue extends Pick<QueuePolicy, "attempts" | "backoff" | "retention"> {
  /** Whether the queue is paused until somebody resumes it; absent if the code leaves it alone. */
  readonly paused?: boolean;
}

/** The operator's settings after an edit. One that is taken away stays as null if the code defines it. */
export function afterPolicyEdit(
  policy: QueuePolicyEdit,
  edit: QueuePolicyEdit,
  defined: DefinedQueue = {},
): QueuePolicyEdit {
  const edited = Object.entries({ ...policy, ...edit });
  return Object.fromEntries(edited.filter(([key, value]) => value !== null || Object.hasOwn(defined, key)));
}

/** What is in force: the operator's settings before the code's. */
export function policyInForce(
  policy: QueuePolicyEdit = {},
  { paused: _paused, ...defined }: DefinedQueue = {},
): QueuePolicy {
  return Object.fromEntries(Object.entries({ ...defined, ...policy }).filter(([, value]) => value !== null));
}

/** The defaults for jobs of the queue: the operator's settings, else the code's. */
export function defaultsOfQueue(codeDefaults: JobPolicy, queue: QueuePolicy): JobPolicy {
  const { attempts, backoff, retention = {} } = queue;
  const kept = Object.fromEntries(
    Object.entries(codeDefaults.retention ?? {}).filter(([outcome]) => !(outcome in retention)),
  );
  return {
    ...codeDefaults,
    ...(attempts === undefined ? {} : { attempts }),
    ...(backoff === undefined ? {} : { backoff }),
    retention: { ...kept, ...outcomesNotKept(retention) },
  };
}

/** How long the outcome is kept; undefined if it is not set. */
export function keptMsOf(times: Retention, outcome: TerminalState): number | undefined {
  return outcome === "completed" ? times.completedMs : outcome === "failed" ? times.failedMs : times.otherMs;
}

/** How many jobs of the outcome a queue keeps; null for any number, undefined if it is not set. */
export function keptCountOf(counts: KeptCounts, outcome: TerminalState): number | null | undefined {
  const { completedCount, failedCount, otherCount } = counts;
  return outcome === "completed" ? completedCount : outcome === "failed" ? failedCount : otherCount;
}
