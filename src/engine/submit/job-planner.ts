/**
 * Planning a job: from a definition, an input and options to the record that a store keeps. Everything that can be
 * refused is refused here, before any write.
 *
 * A definition used without options is planned once; after that an enqueue costs its validation, its encoding and an
 * id.
 */
import { keepTexts } from "../../codec/sealed-texts.ts";
import type { PayloadCoder } from "../../codec/payload.ts";
import type { CustomBackoff } from "../../model/job/retry-policy.ts";
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
import type { NewJob } from "../../store/records.ts";
import { passThrough } from "./enqueue-middleware.ts";
import type { EnqueueMiddleware } from "./enqueue-middleware.ts";
import { checkDefinition } from "./job-definition.ts";
import type { AnyJob, AnySubmission, Submission } from "./job-definition.ts";
import type { LimitsInUse } from "../limits/limits-in-use.ts";
import type { HandledNames } from "./handled-names.ts";
import type { KnownJobs } from "./known-jobs.ts";
import type { JobIds } from "./job-ids.ts";
import { checkKnownBackoff, customBackoffOf } from "./known-backoff.ts";
import { readEnqueueOptions } from "./job-options.ts";
import { readGroup } from "./group.ts";
import type { ReadGroup } from "./group.ts";
import type { ReadOptions } from "./job-options.ts";
import { planLane } from "./lane-plan.ts";
import { gatesOfRoute } from "../budgets/budget-definition.ts";
import { storeLimits } from "../../store/contract-limits.ts";
import { onRoute } from "../limits/limit-definition.ts";
import { queueOf } from "./router.ts";
import type { Router } from "./router.ts";
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
  readonly beside: Pick<NewJob, "gates" | "requires">;
  /** From an input to its lane; null for none. */
  readonly lane: ((input: unknown) => LaneFields) | null;
  /** It has neither gates nor capabilities nor a lane. */
  readonly isPlain: boolean;
  readonly options: ReadOptions;
}

const now = { inMs: 0 };

export interface PlannerNeeds {
  readonly ids: JobIds;
  readonly limits: LimitsInUse;
  readonly handled: HandledNames;
  readonly knownJobs: KnownJobs;
  readonly coder: PayloadCoder;
  readonly router: Router;
  readonly codeDefaults: JobPolicy;
  /** How much waiting one priority level is worth. */
  readonly strideMs: number;
  readonly backoffs: Readonly<Record<string, CustomBackoff>>;
  readonly enqueueMiddleware: readonly EnqueueMiddleware[];
}

export class JobPlanner {
  readonly #needs: PlannerNeeds;
  /** Of definitions that are used without options. */
  readonly #plans = new WeakMap<AnyJob, Plan>();

  constructor(needs: PlannerNeeds) {
    this.#needs = needs;
  }

  /**
   * The job as a store takes it. A promise only where the schema or a middleware answers with one: most enqueues plan
   * without awaiting.
   */
  plan(submission: AnySubmission, mintId: () => string = this.#needs.ids.mint): NewJob | Promise<NewJob> {
    const { enqueueMiddleware } = this.#needs;
    if (enqueueMiddleware.length === 0) return this.#checkAndBuild(submission, mintId);
    return passThrough(enqueueMiddleware, submission).then((passed) => this.#checkAndBuild(passed, mintId));
  }

  /** The jobs of `enqueueMany`. */
  async planAll(submissions: readonly AnySubmission[]): Promise<readonly NewJob[]> {
    const planned: (NewJob | Promise<NewJob>)[] = [];
    let isPlanned = true;
    for (const submission of submissions) {
      const job = this.plan(submission);
      isPlanned &&= !(job instanceof Promise);
      planned.push(job);
    }
    // Most jobs are planned without a promise, and awaiting thousands of values that are none costs more than planning
    // them.
    return isPlanned ? (planned as NewJob[]) : Promise.all(planned.map(async (each) => each));
  }

  /**
   * A job whose input is complete only when it starts: its schema is asked then.
   * @param guard the input as whoever computes a key of it may see it: reading what is not known yet throws.
   */
  async planIncomplete(submission: Submission, guard: (input: unknown) => unknown): Promise<NewJob> {
    const { enqueueMiddleware, ids } = this.#needs;
    const passed =
      enqueueMiddleware.length === 0 ? submission : await passThrough(enqueueMiddleware, submission);
    const plan = this.#planFor(passed);
    computeKeys(plan, guard(passed.input));
    return this.#build(passed, plan, ids.mint);
  }

  /**
   * The job that makes jobs of a list. It is of their name and queue, but their list is nobody's input: no middleware
   * sees it, no schema, and no key is computed of it. What bounds all of them without a key bounds it too, so that it
   * lies where they have to.
   */
  planExpander(submission: Submission): NewJob {
    const { job: definition } = submission;
    checkDefinition(definition, "enqueue");
    const { unique: _unique, due: _due, group = null, ...options } = definition.options;
    const { limits = [], budgets = [] } = options;
    const fixed = {
      limits: limits.filter(({ key }) => !isFunction(key)),
      budgets: budgets.map((use) => (isFunction(use.key) ? { ...use, key: null } : use)),
    };
    const isFixed = !(typeof group === "object" && group !== null && isByInput(group));
    const plan = this.#makePlan(definition, { ...options, ...fixed, group: isFixed ? group : null });
    return this.#build(submission, plan, this.#needs.ids.mint);
  }

  /**
   * A job for inputs that are not known yet, to be kept and completed later. What only the input could decide is
   * refused.
   */
  planTemplate(submission: Submission, what: string): NewJob {
    const plan = this.#planFor(submission);
    const { unique, group = null, limits = [], budgets = [] } = plan.options;
    const byInput = (name: string): MillraceError =>
      new MillraceError(
        "invalid-option",
        `${what}: ${name} is computed from the input, which whoever makes the job cannot do without its definition. Give a fixed one, or let the job enqueue a second one.`,
      );
    if (unique !== undefined && unique.fields !== null) throw byInput("its unique key");
    if (typeof group === "object" && group !== null && isByInput(group)) throw byInput("its group");
    if (limits.some(({ key }) => isFunction(key))) throw byInput("the key of a limit");
    if (budgets.some(({ key }) => isFunction(key))) throw byInput("the key of a budget");
    return { ...this.#build({ ...submission, input: null }, plan, this.#needs.ids.mint), input: "" };
  }

  #checkAndBuild(submission: Submission, mintId: () => string): NewJob | Promise<NewJob> {
    const { job: definition, input } = submission;
    const plan = this.#planFor(submission);
    const { handled, backoffs } = this.#needs;
    if (plan.customBackoff !== null && handled.has(definition.name))
      checkKnownBackoff(backoffs, plan.customBackoff, `enqueue ${JSON.stringify(definition.name)}`);
    if (definition.inputSchema === null) return this.#build(submission, plan, mintId);
    // The checked value is thrown away and the input stored as given: the worker applies the schema again, so
    // transforms happen once, there.
    const checked = checkSchema(definition.inputSchema, input, {
      code: "invalid-input",
      what: `The input of ${JSON.stringify(definition.name)}`,
    });
    return checked instanceof Promise
      ? checked.then(() => this.#build(submission, plan, mintId))
      : this.#build(submission, plan, mintId);
  }

  #planFor({ job: definition, options }: Submission): Plan {
    let plan = options === undefined ? this.#plans.get(definition) : undefined;
    if (plan !== undefined) return plan;
    checkDefinition(definition, "enqueue");
    if (options !== undefined) {
      const given = readEnqueueOptions(options, `enqueue ${JSON.stringify(definition.name)}`);
      return this.#makePlan(definition, mergeOptions(definition.options, given));
    }
    this.#plans.set(definition, (plan = this.#makePlan(definition, definition.options)));
    return plan;
  }

  #makePlan(definition: AnyJob, options: ReadOptions): Plan {
    const { coder, codeDefaults, router, strideMs } = this.#needs;
    const { name } = definition;
    const { limits = [], budgets = [] } = options;
    const group = groupOf(options, name);
    const named = onRoute(limits).map(({ limit, weight }) => [limit.name, weight] as const);
    const policy: JobPolicy = {
      ...options.policy,
      ...(named.length === 0 ? {} : { limits: named }),
      ...(budgets.length === 0 ? {} : { budgets: budgets.map(({ budget }) => budget.name) }),
      ...(group?.holdsOnRetry === true ? { holdsGroup: true } : {}),
      ...(group?.holdsOnFailure === true ? { holdsGroupFailed: true } : {}),
    };
    const gates = gatesOfRoute({ limits, budgets });
    if (gates.length > storeLimits.gatesPerJobMax)
      throw new MillraceError(
        "invalid-option",
        `enqueue ${JSON.stringify(name)}: ${gates.length} limits and budgets; at most ${storeLimits.gatesPerJobMax}.`,
      );
    const requires = options.requires ?? [];
    this.#needs.limits.enter(limits);
    this.#needs.limits.enterBudgets(budgets);
    this.#needs.knownJobs.learn(definition);
    const level = policy.level ?? codeDefaults.level ?? 0;
    const queue = queueOf(router, { name, queue: options.queue });
    const lane = planLane({ queue, name, requires, gates, group, limits, budgets });
    return {
      unique: options.unique === undefined ? null : planUnique(options.unique, { queue, name }, options.due),
      queue,
      policy: writePolicy(policy),
      ranking: rankingOf({ level, order: policy.order ?? "fifo" }, strideMs),
      ttlMs: policy.ttlMs ?? codeDefaults.ttlMs ?? null,
      meta: metaOf(coder, options),
      customBackoff: customBackoffOf(policy),
      beside: { ...(gates.length === 0 ? {} : { gates }), ...(requires.length === 0 ? {} : { requires }) },
      lane,
      isPlain: gates.length === 0 && requires.length === 0 && lane === null,
      options,
    };
  }

  #build(submission: Submission, plan: Plan, mintId: () => string): NewJob {
    const built: NewJob = new BuiltJob(this.#needs.coder, submission, plan, mintId);
    return plan.isPlain ? built : { ...built, ...plan.beside, ...plan.lane?.(submission.input) };
  }
}

function metaOf(coder: PayloadCoder, options: ReadOptions): string | null {
  const { headers } = options;
  return headers === undefined || !coder.isEncrypting
    ? writeMeta(options)
    : writeMeta({ ...options, headers: keepTexts(coder, headers, "headers") });
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

const isByInput = ({ key, weight }: ReadGroup): boolean => isFunction(key) || isFunction(weight);

const isFunction = (value: unknown): boolean => typeof value === "function";

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

  constructor(coder: PayloadCoder, { job: definition, input }: Submission, plan: Plan, mintId: () => string) {
    const { options, ranking } = plan;
    const { id, repeatOf } = options;
    this.id = id ?? repeatOf ?? mintId();
    this.digest = id === undefined ? null : digestText(`${definition.name}\n${canonicalText(input)}`);
    this.queue = plan.queue;
    this.name = definition.name;
    this.input = coder.encode(input, "input");
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
