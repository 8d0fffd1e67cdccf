/**
 * Publishing: one job for each subscription of a topic, all of them or none. The jobs are planned by the list that this
 * process remembers, and submitted with a check of the version that the list had: where somebody has changed it since,
 * the store refuses and the publish is planned anew. So a subscription that was deleted gets nothing, one that was
 * added gets the next publish, and a publish costs no read.
 *
 *  remembered list ─► plan ─► submit, checked ─► ok
 *        ▲                          │
 *        └── read the topic ◄── doc-changed
 */
import type { PayloadCoder } from "../../codec/payload.ts";
import { keepTexts } from "../../codec/sealed-texts.ts";
import { canonicalText, digestText } from "../../codec/digest.ts";
import { BoundedMap } from "../../model/bounded-map.ts";
import { readMeta, writeMeta } from "../../model/job/job-meta.ts";
import { checkName } from "../../model/name.ts";
import { checkOptions, invalidOption } from "../../model/option.ts";
import { publishedId } from "../../model/events/topic.ts";
import { storeLimits } from "../../store/contract-limits.ts";
import type { SubmitAnswer, SubmitUnit } from "../../store/operations.ts";
import type { NewJob } from "../../store/records.ts";
import { job } from "../submit/job-definition.ts";
import type { AnyJob } from "../submit/job-definition.ts";
import { passThrough } from "../submit/enqueue-middleware.ts";
import type { Needs } from "../services.ts";
import { readEnqueueOptions } from "../submit/job-options.ts";
import type { EnqueueOptions, ReadOptions } from "../submit/job-options.ts";
import { readTemplate } from "../submit/job-template.ts";
import type { JobTemplate } from "../submit/job-template.ts";
import { checkSchema } from "../submit/standard-schema.ts";
import { refusalError } from "../submit/refusal-error.ts";
import { checkTopic } from "./topic-definition.ts";
import type { TopicDefinition } from "./topic-definition.ts";
import { activeOf, contendedTopic, findTopic, stateOf, topicKind } from "./topic-docs.ts";

type PublishingNeeds = Needs<"store" | "coder" | "enqueueMiddleware" | "ids">;

/** What one publish may say of the jobs that come of it; the rest is the subscriptions'. */
export interface PublishOptions extends Pick<
  EnqueueOptions,
  "delay" | "runAt" | "headers" | "trace" | "tags"
> {
  /**
   * The caller's own id of this publish: publishing it again makes no second job for any subscription, and with another
   * input it is refused.
   */
  id?: string;
}

/** The jobs in the order of their subscriptions' names, and what the store said. */
export interface Publication {
  readonly subscriptions: readonly string[];
  readonly jobs: readonly NewJob[];
  readonly answer: Extract<SubmitAnswer, { kind: "ok" }>;
}

interface KnownTopic {
  readonly version: number;
  readonly subscriptions: readonly KnownSubscription[];
}

interface KnownSubscription {
  readonly name: string;
  readonly template: JobTemplate;
  /** As enqueue middleware sees it. */
  readonly definition: AnyJob;
}

const perJobKeys = ["delay", "runAt", "headers", "trace", "tags"];
const topicsMax = 1000;
const triesMax = 100;
const none: Publication = { subscriptions: [], jobs: [], answer: { kind: "ok", ids: [], hows: [] } };

export class Publishing {
  readonly #needs: PublishingNeeds;
  readonly #known = new BoundedMap<string, KnownTopic>(topicsMax);

  constructor(needs: PublishingNeeds) {
    this.#needs = needs;
  }

  /** @param submit hands the unit to the store, or to the caller's own transaction. */
  async publish(
    topic: TopicDefinition,
    input: unknown,
    options: PublishOptions,
    submit: (unit: SubmitUnit) => Promise<SubmitAnswer>,
  ): Promise<Publication> {
    const { name, inputSchema } = checkTopic(topic, "publish");
    const what = `publish to ${JSON.stringify(name)}`;
    const { id, ...given } = checkOptions(options, what, ["id", ...perJobKeys]) as PublishOptions;
    if (id !== undefined) checkName(id, `${what}: id`);
    readEnqueueOptions(given, what);
    if (inputSchema !== null)
      await checkSchema(inputSchema, input, { code: "invalid-input", what: `The input of ${what}` });
    for (let tries = 0; tries < triesMax; tries++) {
      const remembered = tries === 0 ? this.#known.get(name) : undefined;
      const { version, subscriptions } = remembered ?? (await this.#learn(name));
      // Nothing would be checked by the store, so an empty list has to be a fresh one.
      if (subscriptions.length === 0 && remembered !== undefined) continue;
      if (subscriptions.length === 0) return none;
      const plan = this.#planning({ name, what, id, input, given });
      const jobs = await Promise.all(subscriptions.map(plan));
      const answer = await submit({ jobs, checks: [{ kind: topicKind, id: name, version }] });
      if (answer.kind === "ok")
        return { subscriptions: subscriptions.map((each) => each.name), jobs, answer };
      if (answer.reason !== "doc-changed") throw refusalError(answer, jobs);
    }
    throw contendedTopic(name);
  }

  async #learn(name: string): Promise<KnownTopic> {
    this.#known.delete(name);
    const found = await findTopic(this.#needs, name);
    const active = activeOf(stateOf(name, found));
    const known: KnownTopic = {
      version: found?.version ?? 0,
      subscriptions: active.map((subscription) => {
        const template = readTemplate(subscription.job);
        const definition = job(template.name, { queue: template.queue }) as AnyJob;
        return { name: subscription.name, template, definition };
      }),
    };
    this.#known.set(name, known);
    return known;
  }

  /** @returns what makes the job of a subscription. The input is encoded once for all of them. */
  #planning(publish: Publish): (subscription: KnownSubscription) => Promise<NewJob> {
    const needs = this.#needs;
    const { name, what, id, input, given } = publish;
    const { coder, enqueueMiddleware } = needs;
    const partition = needs.ids.placement?.ofName(name) ?? 0;
    const digest = id === undefined ? null : digestText(`${name}\n${canonicalText(input)}`);
    const encoded = coder.encode(input, "input");
    const own = readEnqueueOptions(given, what);
    return async (subscription) => {
      const { name: of, template, definition } = subscription;
      let [text, options] = [encoded, own];
      if (enqueueMiddleware.length > 0) {
        const passed = await passThrough(enqueueMiddleware, { job: definition, input, options: given });
        if (passed.job !== definition)
          throw invalidOption(`${what}: an enqueue middleware may not change the job of a subscription.`);
        checkOptions(passed.options ?? {}, `${what}, behind its enqueue middleware`, perJobKeys);
        options = readEnqueueOptions(passed.options, what);
        if (passed.input !== input) text = coder.encode(passed.input, "input");
      }
      const jobId =
        id === undefined
          ? needs.ids.mint(partition)
          : publishedId({ topic: name, id, subscription: of }, partition);
      return {
        ...template,
        ...{ id: jobId, digest, input: text, due: options.due ?? template.due },
        tags: tagsOf(template, options, what),
        meta: metaOf(coder, template, options, { name, subscription: of }),
      };
    };
  }
}

interface Publish {
  readonly name: string;
  readonly what: string;
  readonly id: string | undefined;
  readonly input: unknown;
  readonly given: EnqueueOptions;
}

function tagsOf(template: JobTemplate, { tags }: ReadOptions, what: string): JobTemplate["tags"] {
  if (tags === undefined || tags.length === 0) return template.tags;
  const all = [...new Set([...(template.tags ?? []), ...tags])];
  const { tagsPerJobMax } = storeLimits;
  if (all.length > tagsPerJobMax)
    throw invalidOption(`${what}: with those of a subscription there are more than ${tagsPerJobMax} tags.`);
  return all;
}

function metaOf(
  coder: PayloadCoder,
  { meta }: JobTemplate,
  { headers, trace }: ReadOptions,
  topic: { readonly name: string; readonly subscription: string },
): string | null {
  return writeMeta({
    ...readMeta(meta),
    ...(headers === undefined ? {} : { headers: keepTexts(coder, headers, "headers") }),
    ...(trace === undefined ? {} : { trace }),
    topic,
  });
}
