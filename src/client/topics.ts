/** Topics at run time, for all processes of the store: which subscriptions get what is published. */
import { allDocs } from "../engine/docs/all-docs.ts";
import { asOneCall } from "../engine/calls/one-call.ts";
import type { Needs } from "../engine/services.ts";
import { readTemplate } from "../engine/submit/job-template.ts";
import { subscribe } from "../engine/topics/subscribe.ts";
import { checkTopic, subscription } from "../engine/topics/topic-definition.ts";
import type { JobTaking, SubscriptionOptions, TopicDefinition } from "../engine/topics/topic-definition.ts";
import { changeTopic, findTopic, foundTopic, topicKind } from "../engine/topics/topic-docs.ts";
import type { FoundTopic } from "../engine/topics/topic-docs.ts";
import { MillraceError } from "../model/error.ts";
import { checkName } from "../model/name.ts";
import { afterPause, afterUnsubscribe } from "../model/events/topic.ts";
import type { Subscription } from "../model/events/topic.ts";

type TopicsNeeds = Needs<"store" | "platform" | "giveUpMs" | "ids" | "limits" | "planner">;

export interface TopicView {
  readonly name: string;
  /** Sorted by name; empty for a topic that this process cannot read. */
  readonly subscriptions: readonly SubscriptionView[];
  /** Why this process cannot read it; null if it can. */
  readonly problem: string | null;
}

export interface SubscriptionView {
  readonly name: string;
  /** The name of the jobs that a publish makes for it. */
  readonly job: string;
  readonly queue: string;
  /** True until `resume`: no jobs are made for it, and none later for what is published meanwhile. */
  readonly paused: boolean;
}

export class Topics {
  readonly #needs: TopicsNeeds;

  constructor(needs: TopicsNeeds) {
    this.#needs = needs;
  }

  /** All topics, by name. */
  async list(): Promise<readonly TopicView[]> {
    const views: TopicView[] = [];
    for await (const doc of allDocs(this.#needs.store, { kind: topicKind }))
      views.push(viewTopic(foundTopic(doc)));
    return views.toSorted((one, other) => (one.name < other.name ? -1 : 1));
  }

  /** Null if there is no such topic. */
  async get(topic: TopicDefinition<never> | string): Promise<TopicView | null> {
    const found = await findTopic(this.#needs, nameOf(topic, "topics.get"));
    return found === null ? null : viewTopic(found);
  }

  /** Makes the topic known to the store before it has a subscription. A publish then makes no job, and is no error. */
  async declare(topic: TopicDefinition<never> | string): Promise<TopicView> {
    const what = "topics.declare";
    const name = nameOf(topic, what);
    return viewTopic(await asOneCall(this.#needs, { what }, (needs) => changeTopic(needs, name, () => null)));
  }

  /**
   * From the next publish on, each publish makes a job for the subscription. Subscribing again unchanged does nothing.
   */
  async subscribe<In>(
    topic: TopicDefinition<In>,
    job: JobTaking<NoInfer<In>>,
    options: SubscriptionOptions<NoInfer<In>> = {},
  ): Promise<TopicView> {
    const definition = subscription(topic, job, options);
    return viewTopic(
      await asOneCall(this.#needs, { what: "topics.subscribe" }, (needs) => subscribe(needs, definition)),
    );
  }

  /**
   * After this returns, no publish makes a job for it; its jobs stay. @returns false if there was no such subscription.
   */
  async unsubscribe(topic: TopicDefinition<never> | string, name: string): Promise<boolean> {
    checkName(name, "topics.unsubscribe: name");
    let isFound = false;
    const decide: Parameters<typeof changeTopic>[2] = (state) => {
      const next = afterUnsubscribe(state, name);
      isFound = next !== null;
      return next;
    };
    const what = "topics.unsubscribe";
    const of = nameOf(topic, what);
    await asOneCall(this.#needs, { what }, (needs) => changeTopic(needs, of, decide, { mustExist: true }));
    return isFound;
  }

  pause(topic: TopicDefinition<never> | string, name: string): Promise<TopicView> {
    return this.#pause("pause", topic, name, true);
  }

  resume(topic: TopicDefinition<never> | string, name: string): Promise<TopicView> {
    return this.#pause("resume", topic, name, false);
  }

  /** Deletes the topic and its subscriptions; jobs stay. @returns false if there was no such topic. */
  async delete(topic: TopicDefinition<never> | string): Promise<boolean> {
    const name = nameOf(topic, "topics.delete");
    return asOneCall(this.#needs, { what: "topics.delete" }, async (needs) => {
      const found = await findTopic(needs, name);
      await needs.store.putDocs([{ kind: topicKind, id: name, body: null, guard: "any" }]);
      return found !== null;
    });
  }

  async #pause(
    what: string,
    topic: TopicDefinition<never> | string,
    name: string,
    isPaused: boolean,
  ): Promise<TopicView> {
    checkName(name, `topics.${what}: name`);
    const of = nameOf(topic, `topics.${what}`);
    const decide: Parameters<typeof changeTopic>[2] = (state) => {
      const next = afterPause(state, name, isPaused);
      if (next !== undefined) return next;
      throw new MillraceError(
        "unknown-subscription",
        `The topic ${JSON.stringify(of)} has no subscription ${JSON.stringify(name)}.`,
      );
    };
    const found = await asOneCall(this.#needs, { what: `topics.${what}` }, (needs) =>
      changeTopic(needs, of, decide, { mustExist: true }),
    );
    return viewTopic(found);
  }
}

function nameOf(topic: TopicDefinition<never> | string, what: string): string {
  return checkName(typeof topic === "string" ? topic : checkTopic(topic, what).name, `${what}: topic`);
}

function viewTopic({ name, state, problem }: FoundTopic): TopicView {
  return { name, subscriptions: (state?.subscriptions ?? []).map(viewSubscription), problem };
}

function viewSubscription({ name, job, isPaused }: Subscription): SubscriptionView {
  const template = readTemplate(job);
  return { name, job: template.name, queue: template.queue, paused: isPaused };
}
