/**
 * Submit: from a definition, an input and options to the record a store keeps. Everything that can be refused is
 * refused here, before any write.
 *
 * A definition used without options is planned once; after that an enqueue costs its validation, its encoding and an
 * id.
 */
import { canonicalText, compilePick, digestText } from "../../codec/digest.ts";
import { isMillraceError, MillraceError } from "../../model/error.ts";
import type { Due } from "../../model/job/change.ts";
import type { LaneFields } from "../../model/routing/lane.ts";
import { writeMeta } from "../../model/job/job-meta.ts";
import { writePolicy } from "../../model/job/job-policy.ts";
import type { JobPolicy } from "../../model/job/job-policy.ts";
import { rankingOf } from "../../model/routing/rank.ts";
import type { Ranking } from "../../model/routing/rank.ts";
import { scopedKey } from "../../model/job/unique-key.ts";
import type { Unique, UniquePlan } from "../../model/job/unique-key.ts";
import { quoteNames } from "../../model/name.ts";
import type { SubmitAnswer, SubmitUnit } from "../../store/operations.ts";
import type { NewJob } from "../../store/records.ts";
import { passThrough } from "./enqueue-middleware.ts";
import { checkDefinition } from "./job-definition.ts";
import type { AnyJob, Submission } from "./job-definition.ts";
import type { Engine } from "../engine.ts";
import { checkKnownBackoff, customBackoffOf } from "./known-backoff.ts";
import { readEnqueueOptions } from "./job-options.ts";
import { readGroup } from "./group.ts";
import type { ReadGroup } from "./group.ts";
import type { ReadOptions } from "./job-options.ts";
import { planLane } from "./lane-plan.ts";
import { gatesOf, onRoute } from "../limits/limit-definition.ts";
import { queueOf } from "./router.ts";
import { checkSchema } from "./standard-schema.ts";

/** What all jobs planned with the same options have in common. */
interface Plan {
  /** From an input to its unique key; null for none. */
  readonly unique: ((input: unknown) => Unique) | null;
  readonly queue: string;
  readonly policy: string | null;
  readonly ranking: Ranking;
  readonly ttlMs: number | null;
  readonly meta: string | null;
  readonly customBackoff: string | null;
  /** Gates and capabilities, where the job has any. */
  readonly beside: Pick<NewJob, "gates" | "caps">;
  /** From an input to its lane; null for none. */
  readonly lane: ((input: unknown) => LaneFields) | null;
  /** It has neither gates nor capabilities nor a lane. */
  readonly isPlain: boolean;
  readonly options: ReadOptions;
}

const now = { inMs: 0 };
const plansByEngine = new WeakMap<Engine, WeakMap<AnyJob, Plan>>();

/**
 * The job as a store takes it. A promise only where the schema or a middleware answers with one: most enqueues plan
 * without awaiting.
 */
export function planJob(
  engine: Engine,
  submission: Submission,
  mintId: () => string = engine.ids.mint,
): NewJob | Promise<NewJob> {
  const { enqueueMiddleware } = engine.settings;
  if (enqueueMiddleware.length === 0) return checkAndBuild(engine, submission, mintId);
  return passThrough(enqueueMiddleware, submission).then((passed) => {
    if (passed !== null) return checkAndBuild(engine, passed, mintId);
    throw notPassedOn(submission);
  });
}

function notPassedOn({ job }: Submission): MillraceError {
  return new MillraceError("aborted", `An enqueue middleware did not pass ${JSON.stringify(job.name)} on.`);
}

function checkAndBuild(
  engine: Engine,
  submission: Submission,
  mintId: () => string,
): NewJob | Promise<NewJob> {
  const { job: definition, input } = submission;
  const plan = planFor(engine, submission);
  if (plan.customBackoff !== null && engine.isHandledHere(definition.name))
    checkKnownBackoff(
      engine.settings.backoffs,
      plan.customBackoff,
      `enqueue ${JSON.stringify(definition.name)}`,
    );
  if (definition.inputSchema === null) return build(engine, submission, plan, mintId);
  // The checked value is thrown away and the input stored as given: the worker applies the schema again, so transforms
  // happen once, there.
  const checked = checkSchema(definition.inputSchema, input, {
    code: "invalid-input",
    what: `The input of ${JSON.stringify(definition.name)}`,
  });
  return checked instanceof Promise
    ? checked.then(() => build(engine, submission, plan, mintId))
    : build(engine, submission, plan, mintId);
}

/**
 * A job whose input is complete only when it starts: its schema is asked then.
 * @param guard the input as whoever computes a key of it may see it: reading what is not known yet throws.
 */
export async function planIncomplete(
  engine: Engine,
  submission: Submission,
  guard: (input: unknown) => unknown,
): Promise<NewJob> {
  const { enqueueMiddleware } = engine.settings;
  const passed =
    enqueueMiddleware.length === 0 ? submission : await passThrough(enqueueMiddleware, submission);
  if (passed === null) throw notPassedOn(submission);
  const plan = planFor(engine, passed);
  computeKeys(plan, guard(passed.input));
  return build(engine, passed, plan, engine.ids.mint);
}

/** What the input decides about a job, for the refusals that it meets. */
function computeKeys({ unique, lane }: Plan, input: unknown): void {
  try {
    unique?.(input);
    lane?.(input);
  } catch (error) {
    throw isMillraceError(error) && isMillraceError(error.cause, "invalid-flow") ? error.cause : error;
  }
}

/**
 * The job that makes jobs of a list. It is of their name and queue, but their list is nobody's input: no middleware
 * sees it, no schema, and no key is computed of it. What bounds all of them without a key bounds it too, so that it
 * lies where they have to.
 */
export function planExpander(engine: Engine, submission: Submission): NewJob {
  const { job: definition } = submission;
  checkDefinition(definition, "enqueue");
  const { unique: _unique, due: _due, group = null, limits = [], ...options } = definition.options;
  const fixed = limits.filter(({ key }) => !isFunction(key));
  const isFixed = !(typeof group === "object" && group !== null && isByInput(group));
  const plan = makePlan(engine, definition, { ...options, limits: fixed, group: isFixed ? group : null });
  return build(engine, submission, plan, engine.ids.mint);
}

const isByInput = ({ key, weight }: ReadGroup): boolean => isFunction(key) || isFunction(weight);

/**
 * A job for inputs that are not known yet, to be kept and completed later. What only the input could decide is refused.
 */
export function planTemplate(engine: Engine, submission: Submission, what: string): NewJob {
  const plan = planFor(engine, submission);
  const { unique, group = null, limits = [] } = plan.options;
  const byInput = (name: string): MillraceError =>
    new MillraceError(
      "invalid-option",
      `${what}: ${name} is computed from the input, which whoever makes the job cannot do without its definition. Give a fixed one, or let the job enqueue a second one.`,
    );
  if (unique !== undefined && unique.fields !== null) throw byInput("its unique key");
  if (typeof group === "object" && group !== null && isByInput(group)) throw byInput("its group");
  if (limits.some(({ key }) => isFunction(key))) throw byInput("the key of a limit");
  return { ...build(engine, { ...submission, input: null }, plan, engine.ids.mint), input: "" };
}

const isFunction = (value: unknown): boolean => typeof value === "function";

function planFor(engine: Engine, { job: definition, options }: Submission): Plan {
  checkDefinition(definition, "enqueue");
  if (options !== undefined) {
    const given = readEnqueueOptions(options, `enqueue ${JSON.stringify(definition.name)}`);
    return makePlan(engine, definition, mergeOptions(definition.options, given));
  }
  let plans = plansByEngine.get(engine);
  if (plans === undefined) plansByEngine.set(engine, (plans = new WeakMap()));
  let plan = plans.get(definition);
  if (plan === undefined) plans.set(definition, (plan = makePlan(engine, definition, definition.options)));
  return plan;
}

/**
 * Options of the enqueue come before those of the definition. What neither says is left to the defaults of the process
 * that decides.
 */
function mergeOptions(definition: ReadOptions, enqueue: ReadOptions): ReadOptions {
  const retention = { ...definition.policy.retention, ...enqueue.policy.retention };
  const keeps = Object.keys(retention).length > 0 ? { retention } : {};
  const merged = { ...definition, ...enqueue, policy: { ...definition.policy, ...enqueue.policy, ...keeps } };
  const { group } = definition;
  return typeof enqueue.group === "string" && typeof group === "object" && group !== null
    ? { ...merged, group: { ...group, key: enqueue.group } }
    : merged;
}

function makePlan(engine: Engine, definition: AnyJob, options: ReadOptions): Plan {
  const { codeDefaults, router, strideMs } = engine.settings;
  const { name } = definition;
  const { limits = [] } = options;
  const group = groupOf(options, name);
  const named = onRoute(limits).map(({ limit, weight }) => [limit.name, weight] as const);
  const policy: JobPolicy = {
    ...options.policy,
    ...(named.length === 0 ? {} : { limits: named }),
    ...(group?.holdsOnRetry === true ? { holdsGroup: true } : {}),
    ...(group?.holdsOnFailure === true ? { holdsGroupFailed: true } : {}),
  };
  const gates = gatesOf(limits);
  const caps = options.requires ?? [];
  engine.limits.enter(limits);
  const queue = queueOf(router, { name, queue: options.queue });
  const lane = planLane({ queue, name, caps, gates, group, limits });
  return {
    unique: options.unique === undefined ? null : planUnique(options.unique, { queue, name }, options.due),
    queue,
    policy: writePolicy(policy),
    ranking: rankingOf({ level: engine.levelOf(policy), order: policy.order ?? "fifo" }, strideMs),
    ttlMs: policy.ttlMs ?? codeDefaults.ttlMs ?? null,
    meta: writeMeta(options),
    customBackoff: customBackoffOf(policy),
    beside: { ...(gates.length === 0 ? {} : { gates }), ...(caps.length === 0 ? {} : { caps }) },
    lane,
    isPlain: gates.length === 0 && caps.length === 0 && lane === null,
    options,
  };
}

function groupOf({ group = null }: ReadOptions, name: string): ReadGroup | null {
  return typeof group === "string" ? readGroup(group, `${JSON.stringify(name)}: group`) : group;
}

/**
 * What every job has. A class, because V8 gives objects of a literal to its old generation once those of the first
 * bulks have outlived a collection; from then on nothing of a bulk was freed by the cheap collections, which a bulk
 * paid with a third of its time outside of the store.
 */
class BuiltJob implements NewJob {
  readonly id: string;
  readonly digest: string | null;
  readonly queue: string;
  readonly name: string;
  readonly input: string;
  readonly policy: string | null;
  readonly meta: string | null;
  readonly tags: readonly string[] | null;
  readonly due: Due;
  readonly rankBase: number;
  readonly rankSlope: number;
  readonly deadline: Due | null;
  readonly ttlMs: number | null;
  readonly unique: Unique | null;

  constructor(engine: Engine, { job: definition, input }: Submission, plan: Plan, mintId: () => string) {
    const { options, ranking } = plan;
    const { id, repeatOf } = options;
    this.id = id ?? repeatOf ?? mintId();
    this.digest = id === undefined ? null : digestText(`${definition.name}\n${canonicalText(input)}`);
    this.queue = plan.queue;
    this.name = definition.name;
    this.input = engine.settings.coder.encode(input, "input");
    this.policy = plan.policy;
    this.meta = plan.meta;
    this.tags = options.tags ?? null;
    this.due = options.due ?? now;
    this.rankBase = ranking.rankBase;
    this.rankSlope = ranking.rankSlope;
    this.deadline = options.deadline ?? null;
    this.ttlMs = plan.ttlMs;
    this.unique = plan.unique === null ? null : plan.unique(input);
  }
}

function build(engine: Engine, submission: Submission, plan: Plan, mintId: () => string): NewJob {
  const built: NewJob = new BuiltJob(engine, submission, plan, mintId);
  return plan.isPlain ? built : { ...built, ...plan.beside, ...plan.lane?.(submission.input) };
}

function planUnique(
  plan: UniquePlan,
  job: { readonly queue: string; readonly name: string },
  due: Due | undefined,
): (input: unknown) => Unique {
  const what = `enqueue ${JSON.stringify(job.name)}: unique`;
  if (plan.needsDelay && due === undefined)
    throw new MillraceError(
      "invalid-option",
      `${what}: the debounce policy needs a delay or runAt to move on.`,
    );
  const { scope, hold, onHeld, key, fields } = plan;
  const withKey = (given: string): Unique => ({ key: scopedKey({ scope, key: given }, job), hold, onHeld });
  if (key !== null) {
    const unique = withKey(key);
    return () => unique;
  }
  const paths = fields ?? [];
  const pick = compilePick(paths, `${what}.fields`);
  // The paths are part of the key: in a scope of several jobs, equal values of different fields are different keys.
  return (input) => withKey(`#${digestText(canonicalText([paths, pick(input)]))}`);
}

/**
 * A job that is submitted alone, often as one of a thousand that are under way at once. A class with a copied list,
 * for the reason given at `BuiltJob`: a list that V8 gave to its old generation would keep the job of every enqueue
 * from the cheap collections, which cost 1,000 callers a fifth of their CPU (0018).
 */
export class LoneUnit implements SubmitUnit {
  readonly jobs: readonly NewJob[];

  constructor(job: NewJob) {
    this.jobs = [job].slice();
  }
}

/** What is submitted in one step. A repeat answers the jobs that an earlier try has made as existing. */
export function unitOf(
  jobs: readonly NewJob[],
  submissions: readonly Pick<Submission, "options">[],
): SubmitUnit {
  return submissions.some(({ options }) => options?.repeatOf !== undefined)
    ? { jobs, isRepeat: true }
    : { jobs };
}

/** A refused unit as the caller's error. */
export function refusalError(
  answer: Extract<SubmitAnswer, { kind: "refused" }>,
  jobs: readonly Pick<NewJob, "id" | "queue">[],
): MillraceError {
  switch (answer.reason) {
    case "id-differs":
      return new MillraceError(
        "id-conflict",
        `A job with the id ${JSON.stringify(answer.id)} exists with another name or input.`,
      );
    case "doc-changed":
      return new MillraceError(
        "version-conflict",
        `The document ${JSON.stringify(answer.id)} has another version.`,
      );
    case "draining":
      return new MillraceError(
        "draining",
        `${queueTitle(answer.id, jobs)} takes no new jobs: somebody drains it.`,
      );
    case "flow-closed":
      return new MillraceError(
        "flow-closed",
        `Nothing can be added at ${JSON.stringify(answer.id)}: it has ended, has started, or is being cancelled.`,
      );
    case "key-held":
      return new MillraceError(
        "key-held",
        `The unique key of the node ${JSON.stringify(answer.id)} is held by another job, so nothing of the flow was made.`,
      );
  }
}

/** A job may have got another id where it was placed; then one of the unit's queues is meant. */
function queueTitle(id: string, jobs: readonly Pick<NewJob, "id" | "queue">[]): string {
  const refused = jobs.find((job) => job.id === id);
  const queues = [...new Set((refused === undefined ? jobs : [refused]).map(({ queue }) => queue))];
  return `${queues.length === 1 ? "The queue" : "One of the queues"} ${quoteNames(queues)}`;
}
