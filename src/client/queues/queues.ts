/**
 * Queues at run time, for all processes of the store: pause and resume, close and open the intake, how much of a queue
 * runs, and the defaults of its jobs.
 *
 *   paused        after the call no claim passes; running jobs finish; jobs that a worker claimed ahead are handed back
 *                 as soon as it hears of the pause (with its next heartbeat, if the hint was lost)
 *   intakeClosed  new jobs are refused as `intake-closed`; jobs that are there, their retries and follow-ups run on
 */
import type { Needs } from "../../engine/services.ts";
import { allGates, changeGate, readGate } from "../../engine/limits/change-gate.ts";
import type { GateChange } from "../../engine/limits/change-gate.ts";
import { asOneCall } from "../../engine/calls/one-call.ts";
import { settlesWithin } from "../../engine/calls/settles-within.ts";
import { changePut, raise } from "../../engine/fleet/change-numbers.ts";
import { settingsOfGate } from "./queue-settings.ts";
import type { QueueSettings } from "./queue-settings.ts";
import { isQueueDefinition } from "../../engine/policies/queue-definition.ts";
import type { QueueDefinition } from "../../engine/policies/queue-definition.ts";
import { readQueueEdit } from "../../engine/policies/queue-edit.ts";
import type { QueueEdit } from "../../engine/policies/queue-edit.ts";
import type { Due } from "../../model/job/change.ts";
import { durationMs } from "../../model/duration.ts";
import type { Duration } from "../../model/duration.ts";
import { MillraceError } from "../../model/error.ts";
import { foreverMs, gateName, queueGateKey, sharesMax } from "../../model/limits/gate.ts";
import {
  afterQueueDefinition,
  afterQueueEdit,
  boundsOf,
  pauseByDefinition,
} from "../../model/limits/limit.ts";
import type { LimitBody, LimitSettings } from "../../model/limits/limit.ts";
import { checkName } from "../../model/name.ts";
import { checkOptions, invalidOption } from "../../model/option.ts";
import { withoutHidden } from "../../model/routing/hidden-queue.ts";
import { afterPolicyEdit } from "../../model/fleet/queue-policy.ts";

type QueuesNeeds = Needs<"store" | "platform" | "giveUpMs" | "log" | "queuePolicies">;

/** How long a change waits until the others are told of it. */
const tellMs = 1000;

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
    return this.#change("queues.pause", queue, (body) => ({
      closed,
      body: { ...body, isPauseEdited: true },
    }));
  }

  async resume(queue: string): Promise<QueueSettings> {
    return this.#change("queues.resume", queue, (body) => ({
      closed: null,
      body: { ...body, isPauseEdited: true },
    }));
  }

  /** The queue takes no new jobs until `openIntake`; the jobs that are there run to their end. */
  async closeIntake(queue: string): Promise<QueueSettings> {
    return this.#change("queues.closeIntake", queue, () => ({ isIntakeClosed: true }));
  }

  async openIntake(queue: string): Promise<QueueSettings> {
    return this.#change("queues.openIntake", queue, () => ({ isIntakeClosed: false }));
  }

  /** How much of the queue runs, and the defaults of its jobs, for all processes. */
  async set(queue: string, edit: QueueEdit): Promise<QueueSettings> {
    const { bounds, policy } = readQueueEdit(edit, "queues.set");
    this.#checkShares({ concurrency: null, rate: null, ...bounds }, "queues.set");
    return this.#change("queues.set", queue, (body) => ({
      body: {
        ...body,
        edited: afterQueueEdit(body, bounds),
        queue: afterPolicyEdit(body.queue ?? {}, policy, body.queueDefined),
      },
    }));
  }

  /**
   * Defines the defaults of a queue in code, made by queue(). What an operator has set stays, each setting by itself.
   * Workers define those of their option `queueDefaults` when they start.
   */
  async define(definition: QueueDefinition): Promise<QueueSettings> {
    if (!isQueueDefinition(definition))
      throw invalidOption("queues.define: the definition must be one made by queue().");
    const { queue, bounds, defined } = definition;
    this.#checkShares(bounds, `queue ${JSON.stringify(queue)}`);
    return this.#change("queues.define", queue, (body) => {
      const next = afterQueueDefinition(body, bounds, defined);
      if (next === null) return null;
      const pauses = pauseByDefinition(body, defined);
      if (pauses === null) return { body: next };
      return { body: next, closed: pauses ? { at: foreverMs } : null };
    });
  }

  /** Drops what operators have set: the queue is as the code defines it, and takes new jobs. */
  async reset(queue: string): Promise<QueueSettings> {
    return this.#change("queues.reset", queue, (body) => {
      const { edited: _edited, queue: _set, isPauseEdited: _pause, ...kept } = body;
      const closed = kept.queueDefined?.paused === true ? { at: foreverMs } : null;
      return { body: { ...kept, edited: {} }, closed, isIntakeClosed: false };
    });
  }

  /**
   * Each partition gets a share of a queue's bounds. A partition without a share would run nothing, so that is refused.
   */
  #checkShares(settings: LimitSettings, what: string): void {
    const { partitions = 1 } = this.#needs.store;
    const most = sharesMax(boundsOf(settings));
    if (most >= partitions) return;
    const sentence = `${what}: a concurrency or a burst of ${most} cannot be shared by the ${partitions} partitions of this store.`;
    const advice = `Give at least ${partitions}, or give the jobs a limit: all jobs of a limit lie in one partition.`;
    throw new MillraceError("placement-conflict", `${sentence} ${advice}`);
  }

  async #change(
    what: string,
    queue: string,
    change: (body: LimitBody) => GateChange | null,
  ): Promise<QueueSettings> {
    const key = queueGateKey(checkName(queue, `${what}: queue`));
    const { after, found } = await asOneCall(this.#needs, { what }, ({ store }) =>
      changeGate(
        store,
        key,
        ({ body }) => change(body),
        (next, now) => {
          const extra = JSON.stringify(settingsOfGate(queue, next, now));
          return { kind: "queue-changed", subject: queue, extra };
        },
      ),
    );
    // It is changed. Whoever cannot be told now reads it by the next slow read.
    await settlesWithin(this.#needs.platform, this.#tell(), tellMs);
    return settingsOfGate(queue, after, found.now);
  }

  #tell(): Promise<unknown> {
    return Promise.all([this.#needs.queuePolicies.refresh(), raise(this.#needs, [changePut("settings")])]);
  }
}
