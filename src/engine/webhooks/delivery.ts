/**
 * A delivery: the job that brings one event to one hook. Its id is the same for all of its attempts, so a receiver can
 * drop doubles by it. What it needs of the hook (address, secrets) it reads when it runs.
 */
import { deliveryName, hookId, hookTag, webhookQueue } from "../../model/events/webhook.ts";
import type { Webhook } from "../../model/events/webhook.ts";
import type { NewJob } from "../../store/records.ts";
import { anySubmission, job } from "../submit/job-definition.ts";
import type { Needs } from "../services.ts";
import type { EnqueueOptions } from "../submit/job-options.ts";

export interface Delivery {
  readonly hook: string;
  /** As JSON has it: times are texts. */
  readonly event: Readonly<Record<string, unknown>>;
}

/** So much longer than the request an attempt may take. */
const aroundRequestMs = 30_000;

/** Half of the slots of a process: a receiver that hangs holds up no other. */
const atOncePerHook = 10;

export const deliverWebhook = job<Delivery, { status: number }>(deliveryName, {
  queue: webhookQueue,
  retention: { completed: "1d", failed: "30d" },
});

/** @returns from an event to the job that delivers it. */
export function deliveriesTo(
  needs: Needs<"coder" | "ids" | "planner">,
  hook: Webhook,
): (event: object) => NewJob {
  const { name, retry, timeoutMs, isOrdered } = hook;
  const options: EnqueueOptions<Delivery> = {
    retry,
    timeout: timeoutMs + aroundRequestMs,
    tags: [hookTag(name)],
    group: { key: hookId(name), concurrency: isOrdered ? 1 : atOncePerHook },
  };
  const what = `webhook ${JSON.stringify(name)}`;
  const submission = anySubmission(deliverWebhook, undefined as never, options);
  const template = needs.planner.planTemplate(submission, what);
  const { coder } = needs;
  return (event) => {
    const delivery: Delivery = { hook: name, event: JSON.parse(JSON.stringify(event)) as Delivery["event"] };
    return { ...template, id: needs.ids.mint(), input: coder.encode(delivery, "input") };
  };
}
