/** The settings of a queue as they are in force: what an operator has set, else what the code defines. */
import type { NextGate } from "../../engine/limits/change-gate.ts";
import type { KeptHistory } from "../../model/job/job-policy.ts";
import type { Backoff } from "../../model/job/retry-policy.ts";
import { foreverMs } from "../../model/limits/gate.ts";
import { queuePolicyOf, readBody, settingsOf } from "../../model/limits/limit.ts";
import type { Rate } from "../../model/limits/limit.ts";
import type { Gate } from "../../store/records.ts";

export interface QueueSettings {
  readonly queue: string;
  readonly paused: boolean;
  /** When the pause ends by itself; null if it does not, or if the queue is not paused. */
  readonly pausedUntil: Date | null;
  readonly intakeClosed: boolean;
  /** How many jobs of the queue run at once, over all processes; null for any number. */
  readonly concurrency: number | null;
  /** How many jobs of the queue start per period; null for any number. */
  readonly rate: Rate | null;
  /** Slots over all live workers, set by an operator; null leaves it to the workers. */
  readonly total: number | null;
  /** Slots of each worker for this queue; null leaves it to the workers. */
  readonly localConcurrency: number | null;
  /** For jobs whose enqueue and definition say nothing; null leaves it to the code's defaults. */
  readonly attempts: number | null;
  readonly backoff: Backoff | null;
  /** How long and how many finished jobs are kept, by outcome; null leaves it to the store's retention. */
  readonly retention: KeptHistory | null;
}

export function isPaused({ closedUntil }: Pick<Gate, "closedUntil">, now: number): boolean {
  return closedUntil !== null && closedUntil > now;
}

export function settingsOfGate(queue: string, gate: NextGate | null, now: number): QueueSettings {
  const paused = gate !== null && isPaused(gate, now);
  const until = paused ? gate.closedUntil : null;
  const body = readBody(gate?.body ?? null);
  const { total, localConcurrency, attempts, backoff, retention } = queuePolicyOf(body);
  return {
    queue,
    paused,
    pausedUntil: until === null || until === foreverMs ? null : new Date(until),
    intakeClosed: gate?.isIntakeClosed ?? false,
    ...settingsOf(body),
    total: total ?? null,
    localConcurrency: localConcurrency ?? null,
    attempts: attempts ?? null,
    backoff: backoff ?? null,
    retention: retention ?? null,
  };
}
