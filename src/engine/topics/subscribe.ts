/**
 * Subscriptions reach the store: the job is planned once, when the subscription is made, and kept without an input, so
 * that a publisher needs neither its definition nor its schema. Whatever a job's own input would decide (a group or a
 * key by a function, a unique key by fields) cannot be planned so and is refused.
 */
import { MillraceError } from "../../model/error.ts";
import { invalidOption } from "../../model/option.ts";
import { askedPartition } from "../../model/routing/placement.ts";
import { afterSubscribe, subscriptionsMax } from "../../model/events/topic.ts";
import type { NewJob } from "../../store/records.ts";
import type { Needs } from "../services.ts";
import { writeTemplate } from "../submit/job-template.ts";
import type { SubscriptionDefinition } from "./topic-definition.ts";
import { changeTopic } from "./topic-docs.ts";
import type { FoundTopic } from "./topic-docs.ts";

/** All of a worker. A topic that an older or newer process wrote and this one cannot read does not stop the worker. */
export async function subscribeAll(
  needs: Needs<"store" | "log" | "ids" | "limits" | "planner">,
  definitions: readonly SubscriptionDefinition[],
): Promise<void> {
  for (const definition of definitions) {
    try {
      await subscribe(needs, definition);
    } catch (error) {
      if (!(error instanceof MillraceError) || error.code !== "topic-unreadable") throw error;
      needs.log.error("a topic is left as it is in the store", { error });
    }
  }
}

export async function subscribe(
  needs: Needs<"store" | "ids" | "limits" | "planner">,
  definition: SubscriptionDefinition,
): Promise<FoundTopic> {
  const { topic, name, submission } = definition;
  const what = `subscription ${JSON.stringify(name)} to ${JSON.stringify(topic)}`;
  const job = needs.planner.planTemplate(submission, what);
  mustLieWith(needs, topic, job);
  await needs.limits.whenMade([job]);
  const template = writeTemplate(job);
  return changeTopic(needs, topic, (state) => {
    const next = afterSubscribe(state, { name, job: template });
    if (next !== null && next.subscriptions.length > subscriptionsMax)
      throw invalidOption(`${what}: a topic has at most ${subscriptionsMax} subscriptions.`);
    return next;
  });
}

/** A publish is one step, so its jobs must lie in the partition of the topic. */
function mustLieWith({ ids: { placement } }: Needs<"ids">, topic: string, job: NewJob): void {
  if (placement !== null)
    askedPartition(placement, { jobs: [{ ...job, digest: null }], docs: [{ id: topic }] });
}
