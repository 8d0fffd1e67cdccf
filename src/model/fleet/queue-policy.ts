/**
 * What an operator sets of a queue beside its bounds: defaults for its jobs, in between what a job carries and what the
 * code of a process says, and how many slots each worker has for it. It is kept in the body of the queue's gate.
 *
 *   enqueue option, definition     frozen with the job at its submit
 *   operator's queue setting       read when it is decided: here
 *   code default, engine default   of the process that decides
 */
import { outcomesNotKept } from "../job/job-policy.ts";
import type { JobPolicy, KeptCounts, KeptHistory, Retention } from "../job/job-policy.ts";
import type { TerminalState } from "../job/job-state.ts";
import type { Backoff } from "../job/retry-policy.ts";

/** What is left out is not set. */
export interface QueuePolicy {
  /** Slots over all live workers that serve the queue; beats what their code says. */
  readonly total?: number;
  /** Slots of each worker for this queue; beats the worker's own setting. */
  readonly localConcurrency?: number;
  readonly attempts?: number;
  readonly backoff?: Backoff;
  /** How long, and how many, finished jobs of the queue are kept; what is left out is as the store says. */
  readonly retention?: KeptHistory;
}

/** What is left out stays; null takes a setting away. */
export type QueuePolicyEdit = { readonly [Key in keyof QueuePolicy]: QueuePolicy[Key] | null };

export function afterPolicyEdit(policy: QueuePolicy, edit: QueuePolicyEdit): QueuePolicy {
  return Object.fromEntries(Object.entries({ ...policy, ...edit }).filter(([, value]) => value !== null));
}

/** The defaults for jobs of the queue: the operator's where they say something, else the code's. */
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

/** How long the outcome is kept by such times; undefined where they do not say. */
export function keptMsOf(times: Retention, outcome: TerminalState): number | undefined {
  return outcome === "completed" ? times.completedMs : outcome === "failed" ? times.failedMs : times.otherMs;
}

/** How many of the outcome a queue keeps by such counts, null for any number; undefined where they do not say. */
export function keptCountOf(counts: KeptCounts, outcome: TerminalState): number | null | undefined {
  const { completedCount, failedCount, otherCount } = counts;
  return outcome === "completed" ? completedCount : outcome === "failed" ? failedCount : otherCount;
}
