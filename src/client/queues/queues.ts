/**
 * Queues at run time, for all processes of the store: pause and resume, drain and undrain, how much of a queue runs,
 * and the defaults of its jobs.
 *
 *   paused     after the call no claim passes; running jobs finish; jobs that a worker claimed ahead are handed back as
 *              soon as it hears of the pause (at its next slow poll at the latest, if the hint was lost)
 *   draining   new jobs are refused as `draining`; jobs that are there, their retries and their follow-ups run on
 */
import type { Needs } from "../../engine/services.ts";
import { allGates, changeGate, readGate } from "../../engine/limits/change-gate.ts";
import type { GateChange, NextGate } from "../../engine/limits/change-gate.ts";
import { changePut, raise } from "../../engine/fleet/change-numbers.ts";
import { readQueueEdit } from "./queue-edit.ts";
import type { QueueEdit } from "./queue-edit.ts";
import type { Due } from "../../model/job/change.ts";
import { durationMs } from "../../model/duration.ts";
import type { Duration } from "../../model/duration.ts";
import { MillraceError } from "../../model/error.ts";
import { foreverMs, gateName, queueGateKey, sharesMax } from "../../model/limits/gate.ts";
import type { KeptHistory } from "../../model/job/job-policy.ts";
import { boundsOf, readBody, settingsOf } from "../../model/limits/limit.ts";
import type { LimitBody, LimitSettings, Rate } from "../../model/limits/limit.ts";
import { checkName } from "../../model/name.ts";
import { checkOptions, invalidOption } from "../../model/option.ts";
import { withoutHidden } from "../../model/routing/hidden-queue.ts";
import { afterPolicyEdit } from "../../model/fleet/queue-policy.ts";
import type { Backoff } from "../../model/job/retry-policy.ts";
import type { Gate } from "../../store/records.ts";

type QueuesNeeds = Needs<"store" | "log" | "queuePolicies">;

export interface QueueSettings {
  readonly queue: string;
  readonly paused: boolean;
  /** When the pause ends by itself; null if it does not, or if the queue is not paused. */
  readonly pausedUntil: Date | null;
  readonly draining: boolean;
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

export class Queues {
  readonly #needs: QueuesNeeds;

  constructor(needs: QueuesNeeds) {
    this.#needs = needs;
  }

  async settings(queue: string): Promise<QueueSettings> {
    checkName(queue, "queues.settings: queue");
    const { gate, now } = await readGate(this.#needs.store, queueGateKey(queue));
    return settingsOfGate(queue, gate, now);
  }

  /** The queues that have ever had a job or a setting, by name. */
  async list(): Promise<readonly QueueSettings[]> {
    const found = new Map<string, QueueSettings>();
    for await (const { gate, now } of allGates(this.#needs.store, queueGateKey(""))) {
      const queue = gateName(gate.key);
      found.set(queue, settingsOfGate(queue, gate, now));
    }
    for (const { queue } of withoutHidden(await this.#needs.store.readRoutes()))
      if (!found.has(queue)) found.set(queue, settingsOfGate(queue, null, 0));
    return [...found.values()].toSorted((one, other) => (one.queue < other.queue ? -1 : 1));
  }

  /** No job of the queue starts until `resume`, or until the time is over. */
  async pause(queue: string, options: { for?: Duration } = {}): Promise<QueueSettings> {
    const { for: length } = checkOptions(options, "queues.pause", ["for"]);
    let closed: Due = { at: foreverMs };
    if (length !== undefined) {
      closed = { inMs: durationMs(length, "queues.pause: for") };
      if (closed.inMs === 0) throw invalidOption("queues.pause: for must be longer than 0.");
    }
    return this.#change("queues.pause", queue, () => ({ closed }));
  }

  async resume(queue: string): Promise<QueueSettings> {
    return this.#change("queues.resume", queue, () => ({ closed: null }));
  }

  /** The queue takes no new jobs until `undrain`; the jobs that are there run to their end. */
  async drain(queue: string): Promise<QueueSettings> {
    return this.#change("queues.drain", queue, () => ({ isDraining: true }));
  }

  async undrain(queue: string): Promise<QueueSettings> {
    return this.#change("queues.undrain", queue, () => ({ isDraining: false }));
  }

  /** How much of the queue runs, and the defaults of its jobs, for all processes. */
  async set(queue: string, edit: QueueEdit): Promise<QueueSettings> {
    const { bounds, policy } = readQueueEdit(edit, "queues.set");
    this.#checkShares({ concurrency: null, rate: null, ...bounds });
    return this.#change("queues.set", queue, (body) => ({
      body: {
        ...body,
        edited: { ...body.edited, ...bounds },
        queue: afterPolicyEdit(body.queue ?? {}, policy),
      },
    }));
  }

  /**
   * Each partition gets a share of a queue's bounds. A partition without a share would run nothing, so that is refused.
   */
  #checkShares(settings: LimitSettings): void {
    const { partitions = 1 } = this.#needs.store;
    const most = sharesMax(boundsOf(settings));
    if (most >= partitions) return;
    const sentence = `queues.set: a concurrency or a burst of ${most} cannot be shared by the ${partitions} partitions of this store.`;
    const advice = `Give at least ${partitions}, or give the jobs a limit: all jobs of a limit lie in one partition.`;
    throw new MillraceError("placement-conflict", `${sentence} ${advice}`);
  }

  async #change(
    what: string,
    queue: string,
    change: (body: LimitBody) => GateChange,
  ): Promise<QueueSettings> {
    const key = queueGateKey(checkName(queue, `${what}: queue`));
    await changeGate(
      this.#needs.store,
      key,
      ({ body }) => change(body),
      (next, now) => {
        const extra = JSON.stringify(settingsOfGate(queue, next, now));
        return { kind: "queue-changed", subject: queue, extra };
      },
    );
    await Promise.all([this.#needs.queuePolicies.refresh(), raise(this.#needs, [changePut("settings")])]);
    return this.settings(queue);
  }
}

export function isPaused({ closedUntil }: Pick<Gate, "closedUntil">, now: number): boolean {
  return closedUntil !== null && closedUntil > now;
}

function settingsOfGate(queue: string, gate: NextGate | null, now: number): QueueSettings {
  const paused = gate !== null && isPaused(gate, now);
  const until = paused ? gate.closedUntil : null;
  const body = readBody(gate?.body ?? null);
  const { total, localConcurrency, attempts, backoff, retention } = body.queue ?? {};
  return {
    queue,
    paused,
    pausedUntil: until === null || until === foreverMs ? null : new Date(until),
    draining: gate?.isDraining ?? false,
    ...settingsOf(body),
    total: total ?? null,
    localConcurrency: localConcurrency ?? null,
    attempts: attempts ?? null,
    backoff: backoff ?? null,
    retention: retention ?? null,
  };
}
