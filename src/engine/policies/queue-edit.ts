/** The settings of a queue at run time: what operators write, checked before anything is written. */
import type { Duration } from "../../model/duration.ts";
import { readEdit } from "../../model/limits/limit.ts";
import type { LimitSettings, RateOptions } from "../../model/limits/limit.ts";
import { checkOptions, checkWhole, invalidOption } from "../../model/option.ts";
import type { QueuePolicy, QueuePolicyEdit } from "../../model/fleet/queue-policy.ts";
import { readAttempts, readBackoff } from "../../model/job/retry-policy.ts";
import type { BackoffOptions } from "../../model/job/retry-policy.ts";
import { readKept } from "./kept-options.ts";
import type { KeptOptions } from "./kept-options.ts";

/** A setting that is left out stays; null removes it. */
export interface QueueEdit {
  /** How many jobs of the queue run at once, over all processes. */
  concurrency?: number | null;
  /** How many jobs of the queue start per period, over all processes. */
  rate?: RateOptions | null;
  /** Slots over all live workers that serve the queue, shared out evenly, instead of what their code says. */
  total?: number | null;
  /** Slots of each worker for this queue, instead of its own option. */
  localConcurrency?: number | null;
  /** For jobs whose enqueue and definition say nothing. */
  attempts?: number | null;
  /** For jobs whose enqueue and definition say nothing. */
  backoff?: BackoffOptions | Duration | null;
  /** For jobs whose enqueue and definition say nothing. An outcome that is left out is kept as the store keeps it. */
  retention?: KeptOptions | null;
}

interface ReadQueueEdit {
  readonly bounds: Partial<LimitSettings>;
  readonly policy: QueuePolicyEdit;
}

const boundKeys = ["concurrency", "rate"];
const policyKeys = ["total", "localConcurrency", "attempts", "backoff", "retention"];
const slotsMax = 10_000;

export function readQueueEdit(options: unknown, what: string): ReadQueueEdit {
  const given = checkOptions(options, what, [...boundKeys, ...policyKeys]);
  const said = Object.entries(given).filter(([, value]) => value !== undefined);
  if (said.length === 0) throw invalidOption(`${what}: give at least one setting.`);
  const bounds = said.filter(([key]) => boundKeys.includes(key));
  const { total, localConcurrency, attempts, backoff, retention } = given;
  const read = <Key extends keyof QueuePolicy>(
    key: Key,
    value: unknown,
    check: (name: string) => QueuePolicy[Key],
  ): QueuePolicyEdit =>
    value === undefined ? {} : { [key]: value === null ? null : check(`${what}: ${key}`) };
  return {
    bounds: bounds.length === 0 ? {} : readEdit(Object.fromEntries(bounds), what),
    policy: {
      ...read("total", total, (name) => checkWhole(total, name, 1, slotsMax)),
      ...read("localConcurrency", localConcurrency, (name) =>
        checkWhole(localConcurrency, name, 1, slotsMax),
      ),
      ...read("attempts", attempts, (name) => readAttempts(attempts, name)),
      ...read("backoff", backoff, (name) => readBackoff(backoff, name)),
      ...read("retention", retention, (name) => readTimes(retention, name)),
    },
  };
}

function readTimes(given: unknown, what: string): QueuePolicy["retention"] & object {
  const times = readKept(given, what);
  if (Object.keys(times).length === 0) throw invalidOption(`${what}: give completed, failed or other.`);
  return times;
}
