/**
 * Reading policies: from the text that a job carries to every field decided, by what the operator has set of its queue,
 * then the code's defaults, then Millrace's own.
 */
import { createPolicyReader, outcomesNotKept } from "../../model/job/job-policy.ts";
import type { DecidedPolicy, JobPolicy } from "../../model/job/job-policy.ts";
import { defaultsOfQueue } from "../../model/fleet/queue-policy.ts";
import type { QueuePolicy } from "../../model/fleet/queue-policy.ts";
import type { DecidedTimes } from "./store-retention.ts";

type PolicyReader = (text: string | null) => DecidedPolicy;

export class Policies {
  readonly #queuePolicy: (queue: string) => QueuePolicy;
  /** Of queues of which something is set. */
  readonly #byQueue = new Map<string, PolicyReader>();
  #codeDefaults: JobPolicy;
  #plain: PolicyReader;
  /** The outcomes that the store keeps nothing of, as text. */
  #notKept = "{}";

  constructor(codeDefaults: JobPolicy, queuePolicy: (queue: string) => QueuePolicy) {
    this.#codeDefaults = codeDefaults;
    this.#plain = createPolicyReader(codeDefaults);
    this.#queuePolicy = queuePolicy;
  }

  /** @param queue left out, where nothing that an operator sets of a queue is asked for. */
  read(text: string | null, queue?: string): DecidedPolicy {
    const reader = queue === undefined ? this.#plain : (this.#byQueue.get(queue) ?? this.#plain);
    return reader(text);
  }

  /** How long the store keeps finished jobs was read: a job whose outcome is not kept at all says so itself. */
  retentionRead({ feedMs: _feed, ...times }: DecidedTimes): void {
    const retention = outcomesNotKept(times);
    if (JSON.stringify(retention) === this.#notKept) return;
    this.#notKept = JSON.stringify(retention);
    this.#codeDefaults = { ...this.#codeDefaults, retention };
    this.#plain = createPolicyReader(this.#codeDefaults);
    for (const queue of this.#byQueue.keys()) this.queueChanged(queue);
  }

  queueChanged(queue: string): void {
    const policy = this.#queuePolicy(queue);
    if (Object.keys(policy).length === 0) this.#byQueue.delete(queue);
    else this.#byQueue.set(queue, createPolicyReader(defaultsOfQueue(this.#codeDefaults, policy)));
  }
}
