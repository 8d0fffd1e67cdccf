/**
 * A topic and its subscriptions as code defines them. Whoever publishes knows the topic alone; a subscription says
 * which job is made of each publish, and needs nothing of the publisher. Neither needs a store.
 */
import { checkName } from "../../model/name.ts";
import { checkOptions, invalidOption } from "../../model/option.ts";
import { anySubmission, checkDefinition, readSchema } from "../submit/job-definition.ts";
import type { AnyJob, JobDefinition, Submission } from "../submit/job-definition.ts";
import { enqueueKeys, ownKeys, readEnqueueOptions } from "../submit/job-options.ts";
import type { EnqueueOptions, OwnOption } from "../submit/job-options.ts";
import type { AnySchema, SchemaInput, StandardSchema } from "../submit/standard-schema.ts";

/** @typeParam In what a publisher gives. */
export interface TopicDefinition<In = unknown> {
  readonly name: string;
  readonly inputSchema: StandardSchema | null;
  /** Only for the type checker: keeps In in the type. */
  readonly __input?: (input: In) => void;
}

export interface TopicOptions {
  /** What every publish must match; a Standard Schema. */
  input?: AnySchema;
}

export function topic<Input extends AnySchema>(
  name: string,
  options: { input: Input },
): TopicDefinition<SchemaInput<Input>>;
export function topic<In = unknown>(name: string, options?: { input?: undefined }): TopicDefinition<In>;
export function topic(name: string, options: TopicOptions = {}): TopicDefinition {
  checkName(name, "topic name");
  const what = `topic ${JSON.stringify(name)}`;
  const { input } = checkOptions(options, what, ["input"]);
  return Object.freeze({ name, inputSchema: readSchema(input, `${what}: input`) });
}

export function checkTopic(value: unknown, what: string): TopicDefinition {
  if (typeof value === "object" && value !== null && "inputSchema" in value && "name" in value)
    return value as TopicDefinition;
  throw invalidOption(`${what}: the topic must be one made by topic().`);
}

/** The subscription's name, and the options of the jobs that it gets. */
export type SubscriptionOptions<In = unknown> = Omit<
  EnqueueOptions<In>,
  OwnOption | "runAt" | "headers" | "trace"
> & {
  /** Unique in its topic; the name of the job by default. */
  name?: string;
};

export interface SubscriptionDefinition {
  readonly topic: string;
  readonly name: string;
  /** Without an input: each publish brings its own. */
  readonly submission: Submission;
}

/** What says which job it is, or belongs to one publish, is no matter of the subscription. */
const notOfSubscriptions = [...ownKeys, "runAt", "headers", "trace"];
const knownKeys = ["name", ...enqueueKeys.filter((key) => !notOfSubscriptions.includes(key))];

/** A job that takes such an input, whatever else its own input may be. */
export type JobTaking<In> = Omit<AnyJob, "with" | "__input"> & { readonly __input?: (input: In) => void };

/** A subscription for `work(handlers, { subscriptions: [...] })`. The job's input must take what the topic carries. */
export function subscription<In>(
  to: TopicDefinition<In>,
  job: JobTaking<NoInfer<In>>,
  options: SubscriptionOptions<NoInfer<In>> = {},
): SubscriptionDefinition {
  const { name: of } = checkTopic(to, "subscription");
  const what = `subscription to ${JSON.stringify(of)}`;
  checkDefinition(job, what);
  const { name = job.name, ...given } = checkOptions(options, what, knownKeys) as SubscriptionOptions;
  readEnqueueOptions(given, what);
  const ofJobs = Object.keys(given).length === 0 ? undefined : (given as EnqueueOptions<In>);
  return Object.freeze({
    topic: of,
    name: checkName(name, `${what}: name`),
    submission: anySubmission(job as JobDefinition<In>, undefined as In, ofJobs),
  });
}

export function isSubscriptionDefinition(value: unknown): value is SubscriptionDefinition {
  return typeof value === "object" && value !== null && "submission" in value && "topic" in value;
}
