/** Webhooks at run time, for all processes of the store: which events are sent to which URL. */
import { asOneCall } from "../../engine/calls/one-call.ts";
import type { Needs } from "../../engine/services.ts";
import { refusalError } from "../../engine/submit/refusal-error.ts";
import { readEnd } from "../../engine/events/feed-pages.ts";
import { deliveriesTo } from "../../engine/webhooks/delivery.ts";
import type { Delivery } from "../../engine/webhooks/delivery.ts";
import { positionPut, unknownWebhook, webhookKind } from "../../engine/webhooks/webhook-docs.ts";
import type { HookPosition } from "../../engine/webhooks/webhook-docs.ts";
import { writeCursor } from "../../model/events/event-cursor.ts";
import type { EventName } from "../../model/events/event.ts";
import { checkName } from "../../model/name.ts";
import { checkOptions, invalidOption } from "../../model/option.ts";
import { hookTag, readWebhook, webhookQueue, webhooksId, webhooksMax } from "../../model/events/webhook.ts";
import type { Webhook, WebhookOptions } from "../../model/events/webhook.ts";
import type { Store } from "../../store/store.ts";
import type { Answers } from "../jobs/cancel-jobs.ts";
import type { AttemptView, JobView } from "../jobs/job-view.ts";
import type { Jobs, RetryAnswer } from "../jobs/jobs.ts";

type WebhooksNeeds = Needs<
  "store" | "platform" | "giveUpMs" | "coder" | "ids" | "planner" | "submitter" | "webhookDocs"
>;

export interface WebhookView {
  readonly name: string;
  readonly url: string;
  /** How many secrets sign its deliveries; they are never shown. */
  readonly secrets: number;
  /** Null for all kinds. */
  readonly kinds: readonly EventName[] | null;
  readonly queue: string | null;
  readonly jobName: string | null;
  readonly tag: string | null;
  readonly ordered: boolean;
  readonly timeoutMs: number;
  readonly retry: NonNullable<WebhookOptions["retry"]>;
  readonly paused: boolean;
  /** The cursor of the last event for which deliveries were made. */
  readonly cursor: string | null;
  /** How often events were pruned from the feed before deliveries could be made of them. */
  readonly gaps: number;
}

/** A delivery that failed for good. */
export interface DeadDelivery {
  readonly id: string;
  readonly webhook: string;
  readonly event: Readonly<Record<string, unknown>>;
  readonly failures: readonly AttemptView[];
  readonly endedAt: Date | null;
}

/** How often a test is tried while others change the webhooks. */
const triesMax = 100;

export class Webhooks {
  readonly #needs: WebhooksNeeds;
  readonly #jobs: Jobs;

  constructor(needs: WebhooksNeeds, jobs: Jobs) {
    this.#needs = needs;
    this.#jobs = jobs;
  }

  /**
   * Sends events to a URL from now on. If a webhook of this name exists, its settings are replaced; its position in the
   * feed stays, and a pause too.
   */
  async add(name: string, options: WebhookOptions): Promise<WebhookView> {
    const needs = this.#needs;
    const { hook, secrets } = readWebhook(name, options);
    const added: Webhook = { ...hook, secrets: needs.coder.encode(secrets, "secret") };
    deliveriesTo(needs, added);
    return asOneCall(needs, { what: "webhooks.add" }, async ({ store, webhookDocs }) => {
      // The position is written first: a webhook without one would get every event that the feed keeps.
      await store.putDocs([positionPut(name, await positionNow(store), "absent")]);
      const position = (await webhookDocs.positions([name], store)).get(name);
      const hooks = await webhookDocs.change((found) => {
        const known = found.find((each) => each.name === name);
        if (known === undefined && found.length >= webhooksMax)
          throw invalidOption(`There are at most ${webhooksMax} webhooks in a store.`);
        const others = found.filter((each) => each.name !== name);
        return [...others, { ...added, isPaused: known?.isPaused ?? false }];
      }, store);
      return this.#viewOf(name, hooks, position);
    });
  }

  /**
   * Deletes a webhook: no more deliveries are made, and waiting ones end as cancelled. @returns false if there was
   * none.
   */
  async delete(name: string): Promise<boolean> {
    checkName(name, "webhooks.delete: name");
    return asOneCall(this.#needs, { what: "webhooks.delete" }, async ({ store, webhookDocs }) => {
      let isFound = false;
      await webhookDocs.change((hooks) => {
        isFound = hooks.some((each) => each.name === name);
        return isFound ? hooks.filter((each) => each.name !== name) : null;
      }, store);
      await store.putDocs([positionPut(name, null, "any")]);
      return isFound;
    });
  }

  async list(): Promise<readonly WebhookView[]> {
    const { hooks } = await this.#needs.webhookDocs.find();
    const positions = await this.#needs.webhookDocs.positions(hooks.map(({ name }) => name));
    return hooks.map((hook) => this.#view(hook, positions.get(hook.name)));
  }

  /** Null if there is no such webhook. */
  async get(name: string): Promise<WebhookView | null> {
    checkName(name, "webhooks.get: name");
    return (await this.list()).find((view) => view.name === name) ?? null;
  }

  /** Nothing is delivered until `resume`; then the events of the meantime are, as far as the feed keeps them. */
  pause(name: string): Promise<WebhookView> {
    return this.#pause("pause", name, true);
  }

  resume(name: string): Promise<WebhookView> {
    return this.#pause("resume", name, false);
  }

  /** Makes one delivery of the kind "test". @returns the id of the job that delivers it. */
  async test(name: string): Promise<string> {
    checkName(name, "webhooks.test: name");
    return asOneCall(this.#needs, { what: "webhooks.test" }, async (needs) => {
      for (let tries = 1; ; tries++) {
        const { version, hooks } = await needs.webhookDocs.find(needs.store);
        const hook = hooks.find((each) => each.name === name);
        if (hook === undefined) throw unknownWebhook(name);
        const { now } = await needs.store.describe();
        const jobs = [deliveriesTo(needs, hook)({ kind: "test", at: new Date(now) })];
        const checks = [{ kind: webhookKind, id: webhooksId, version }];
        const answer = await needs.submitter.submit({ jobs, checks });
        if (answer.kind === "ok") return answer.ids[0] as string;
        if (answer.reason !== "doc-changed" || tries === triesMax) throw refusalError(answer, jobs);
      }
    });
  }

  /** Deliveries that failed for good, the newest first: of one hook, or of all. */
  async *dead(name?: string): AsyncGenerator<DeadDelivery, void, undefined> {
    for await (const view of this.#jobs.find({ ...this.#deliveries(name), state: "failed" }))
      yield viewDead(view);
  }

  /** Tries dead deliveries again, with all their attempts: one by its id, or all of a webhook. They keep their ids. */
  redeliver(target: { id: string }): Promise<RetryAnswer>;
  redeliver(target: { webhook: string }): Promise<Answers<RetryAnswer>>;
  async redeliver(target: { id?: string; webhook?: string }): Promise<RetryAnswer | Answers<RetryAnswer>> {
    const { id, webhook } = checkOptions(target, "webhooks.redeliver", ["id", "webhook"]) as typeof target;
    if ((id === undefined) === (webhook === undefined))
      throw invalidOption("webhooks.redeliver: give either { id } or { webhook }.");
    return id === undefined
      ? this.#jobs.retry(this.#deliveries(webhook))
      : this.#jobs.retry(checkName(id, "webhooks.redeliver: id"));
  }

  #deliveries(name: string | undefined): { queue: string; tag?: string } {
    if (name === undefined) return { queue: webhookQueue };
    return { queue: webhookQueue, tag: hookTag(checkName(name, "webhooks: name")) };
  }

  async #pause(what: string, name: string, isPaused: boolean): Promise<WebhookView> {
    checkName(name, `webhooks.${what}: name`);
    return asOneCall(this.#needs, { what: `webhooks.${what}` }, async ({ store, webhookDocs }) => {
      const position = (await webhookDocs.positions([name], store)).get(name);
      const changed = await webhookDocs.change((hooks) => {
        const hook = hooks.find((each) => each.name === name);
        if (hook === undefined) throw unknownWebhook(name);
        if (hook.isPaused === isPaused) return null;
        return hooks.map((each) => (each === hook ? { ...hook, isPaused } : each));
      }, store);
      return this.#viewOf(name, changed, position);
    });
  }

  #viewOf(name: string, hooks: readonly Webhook[], position: HookPosition | undefined): WebhookView {
    const hook = hooks.find((each) => each.name === name);
    if (hook === undefined) throw unknownWebhook(name);
    return this.#view(hook, position);
  }

  #view(hook: Webhook, position: HookPosition | undefined): WebhookView {
    const { name, url, kinds, queue, jobName, tag, isOrdered, timeoutMs, retry, isPaused } = hook;
    return {
      ...{ name, url, secrets: this.#countSecrets(hook), kinds, queue, jobName, tag },
      ...{ ordered: isOrdered, timeoutMs, retry, paused: isPaused },
      cursor: position?.cursor ?? null,
      gaps: position?.gaps ?? 0,
    };
  }

  /** 0 if this process lacks the key to read them. */
  #countSecrets({ secrets }: Webhook): number {
    try {
      return (this.#needs.coder.decode(secrets) as readonly string[]).length;
    } catch {
      return 0;
    }
  }
}

async function positionNow(store: Store): Promise<HookPosition> {
  const numbers = Array.from({ length: store.partitions ?? 1 }, (_, number) => number);
  const ends = await Promise.all(numbers.map((number) => readEnd(store, number)));
  return { cursor: writeCursor(ends.map((after) => ({ after, skip: 0 }))), gaps: 0 };
}

function viewDead({ id, input, failures, endedAt }: JobView): DeadDelivery {
  const { hook, event } = input as Delivery;
  return { id, webhook: hook, event, failures, endedAt };
}
