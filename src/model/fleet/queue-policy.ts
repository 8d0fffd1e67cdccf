/**
 * The settings that an operator makes for a queue, besides its bounds: defaults for its jobs, which come after the
 * job's own options and before the code's defaults, and the slots of each worker. They are kept in the body of the
 * queue's gate.
 *
 *   enqueue option, definition     frozen with the job at its submit
 *   operator's queue setting       read when it is decided: here
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

export function afterPolicyEdit(policy: QueuePolicy, edit: QueuePolicyEdit): QueuePolicy {
  return Object.fromEntries(Object.entries({ ...policy, ...edit }).filter(([, value]) => value !== null));
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
