/**
 * The options of an enqueue, and of a definition as far as they are the same: what people write, and what is left once
 * it is checked. Unknown options, absurd values and options of a later version are refused here, before any write.
 */
import type { Due } from "../../model/job/change.ts";
import { readCapabilities } from "../../model/routing/capability.ts";
import type { FieldPathOf } from "../../codec/field-path.ts";
import { durationMs } from "../../model/duration.ts";
import type { Duration } from "../../model/duration.ts";
import { MillraceError } from "../../model/error.ts";
import type { JobPolicy, Retention } from "../../model/job/job-policy.ts";
import { readInstant } from "../../model/instant.ts";
import { mintedPartition } from "../../model/job/job-id.ts";
import { checkName } from "../../model/name.ts";
import { checkOptions, checkWhole } from "../../model/option.ts";
import { levelOf, orderOf } from "../../model/routing/rank.ts";
import type { Order, Priority } from "../../model/routing/rank.ts";
import { readRetry } from "../../model/job/retry-policy.ts";
import type { RetryOptions } from "../../model/job/retry-policy.ts";
import { readUnique } from "../../model/job/unique-key.ts";
import type { UniqueOptions, UniquePlan } from "../../model/job/unique-key.ts";
import { storeLimits } from "../../store/contract-limits.ts";
import { readGroup } from "./group.ts";
import type { GroupOptions, ReadGroup } from "./group.ts";
import type { KvWrite } from "../docs/kv.ts";
import { readBudgets } from "../budgets/budget-definition.ts";
import type { AnyBudgetUse, Budget, BudgetUse } from "../budgets/budget-definition.ts";
import { readLimits } from "../limits/limit-definition.ts";
import type { AnyLimitUse, Limit, LimitUse, LimitUseOptions } from "../limits/limit-definition.ts";

export interface RetentionOptions {
  completed?: Duration;
  failed?: Duration;
  other?: Duration;
}

/** @typeParam In the input of the job: its paths are what `unique.fields` may name. */
// oxlint-disable-next-line no-explicit-any -- options of some job, whichever its input is
export interface EnqueueOptions<In = any> {
  /** The queue, whatever definition and router say. */
  queue?: string;
  /** The caller's own id: the same id and input returns the job, the same id with other input is an error. */
  id?: string;
  /**
   * The id that an enqueue with an unknown outcome was to make (`error.ids`): repeats that enqueue. If it had happened,
   * its job is answered as existing; else the job is made now, under that id.
   */
  repeatOf?: string;
  /** Not before this long from now. */
  delay?: Duration;
  /** Not before this instant, by the store's clock. */
  runAt?: Date | number;
  /** A number, lower first, or the name of a level. */
  priority?: Priority;
  /** Which of several due jobs of one priority goes first: the first due ("fifo", the default) or the last ("lifo"). */
  order?: Order;
  retry?: RetryOptions;
  /** How long one attempt may take, from the start of its handler. */
  timeout?: Duration;
  /** The job must have finished this long after its submit, or by this instant; else it ends as expired. */
  deadline?: Duration | Date;
  /** The job must have started this long after it was due; else it ends as expired. */
  ttl?: Duration;
  /**
   * Capabilities that a worker must offer, all of them, to run the job; those of an enqueue replace the definition's.
   */
  requires?: readonly string[];
  tags?: readonly string[];
  headers?: Readonly<Record<string, string>>;
  /** Trace context, handed on unread. */
  trace?: Readonly<Record<string, string>>;
  unique?: string | UniqueOptions<FieldPathOf<In>>;
  /** What the job takes while it runs, all together or none: at most 8. A limit alone is its use with a weight of 1. */
  limits?: readonly (Limit | LimitUse<In> | ({ limit: Limit } & LimitUseOptions<In>))[];
  /**
   * The budgets that hold the job while they are spent, and to which its handler reports usage. Limits and budgets
   * together: at most 8.
   */
  budgets?: readonly (Budget | BudgetUse<In>)[];
  /**
   * Which group of its queue the job belongs to: fair turns over groups, or up to N of a group at once
   * (docs/guides/groups.md). At an enqueue a text is the key alone, and the rest stays as the definition says; null is
   * no group.
   */
  group?: string | ((input: In) => string) | GroupOptions<In> | null;
  /** How often the job may be throttled; the next one ends it as failed. Any number by default. */
  throttlesMax?: number;
  retention?: RetentionOptions;
  /** False: the result is not kept. A duration: it goes after that time, and the rest of the job stays. */
  keepResult?: boolean | Duration;
  /**
   * Entries of `mill.kv` that are written in the step that makes the job: all of it happens or nothing. They are
   * written also if the job exists already. A version that does not match refuses the enqueue (`version-conflict`).
   */
  kv?: readonly KvWrite[];
}

/** The options that belong to one call. A definition, a schedule and a node of a flow do not take them. */
export type OwnOption = "id" | "repeatOf" | "kv";
export const ownKeys: readonly string[] = ["id", "repeatOf", "kv"] satisfies OwnOption[];

/** The options once checked, times in milliseconds. A field that is left out was not given. */
export interface ReadOptions {
  readonly queue?: string;
  readonly id?: string;
  readonly repeatOf?: string;
  readonly due?: Due;
  readonly deadline?: Due;
  readonly policy: JobPolicy;
  /** Sorted, without repeats. */
  readonly requires?: readonly string[];
  readonly tags?: readonly string[];
  readonly headers?: Readonly<Record<string, string>>;
  readonly trace?: Readonly<Record<string, string>>;
  readonly unique?: UniquePlan;
  readonly limits?: readonly AnyLimitUse[];
  readonly budgets?: readonly AnyBudgetUse[];
  /** A text is the key of a group that says nothing else. */
  readonly group?: ReadGroup | string | null;
}

const sharedKeys = [
  "queue",
  "delay",
  "priority",
  "order",
  "retry",
  "timeout",
  "deadline",
  "ttl",
  "requires",
  "tags",
  "unique",
  "limits",
  "budgets",
  "group",
  "throttlesMax",
  "retention",
  "keepResult",
];
export const enqueueKeys: readonly string[] = [...ownKeys, "runAt", "headers", "trace", ...sharedKeys];
export const definitionKeys: readonly string[] = [
  "input",
  "result",
  "onInvalidInput",
  "redact",
  "frames",
  "durable",
  "signals",
  ...sharedKeys,
];

const nothing: ReadOptions = { policy: {} };
const headersMax = 64;
const headerCharsMax = 4096;

export function readEnqueueOptions(options: EnqueueOptions | undefined, what: string): ReadOptions {
  if (options === undefined) return nothing;
  checkOptions(options, what, enqueueKeys);
  const { queue, id, repeatOf, requires, tags, headers, trace, unique, group, deadline } = options;
  const { limits, budgets } = options;
  if (id !== undefined && repeatOf !== undefined)
    throw new MillraceError("invalid-option", `${what}: give either id or repeatOf, not both.`);
  const due = readDue(options, what);
  return {
    policy: readPolicy(options, what),
    ...(queue === undefined ? {} : { queue: checkName(queue, `${what}: queue`) }),
    ...(id === undefined ? {} : { id: checkName(id, `${what}: id`) }),
    ...(repeatOf === undefined ? {} : { repeatOf: readRepeated(repeatOf, `${what}: repeatOf`) }),
    ...(due === undefined ? {} : { due }),
    ...(deadline === undefined ? {} : { deadline: readDeadline(deadline, `${what}: deadline`) }),
    ...(requires === undefined ? {} : { requires: readRequires(requires, `${what}: requires`) }),
    ...(tags === undefined ? {} : { tags: readTags(tags, `${what}: tags`) }),
    ...(headers === undefined ? {} : { headers: readHeaders(headers, `${what}: headers`) }),
    ...(trace === undefined ? {} : { trace: readHeaders(trace, `${what}: trace`) }),
    ...(unique === undefined ? {} : { unique: readUnique(unique) }),
    ...(limits === undefined ? {} : { limits: readLimits(limits, `${what}: limits`) }),
    ...(budgets === undefined ? {} : { budgets: readBudgets(budgets, `${what}: budgets`) }),
    ...(group === undefined ? {} : { group: readGroupOption(group, `${what}: group`) }),
  };
}

function readGroupOption(given: unknown, what: string): ReadGroup | string | null {
  if (given === null) return null;
  return typeof given === "string" ? checkName(given, what) : readGroup(given, what);
}

function readRepeated(id: unknown, what: string): string {
  if (typeof id === "string" && mintedPartition(id) !== null) return id;
  throw new MillraceError(
    "invalid-option",
    `${what} must be an id out of the ids of an outcome-unknown error.`,
  );
}

/** The fields that are frozen with the job. Key order is fixed, so equal policies are equal texts. */
export function readPolicy(options: EnqueueOptions, what: string): JobPolicy {
  const policy: { -readonly [Key in keyof JobPolicy]: JobPolicy[Key] } = {};
  if (options.priority !== undefined) policy.level = levelOf(options.priority, `${what}: priority`);
  if (options.order !== undefined) policy.order = orderOf(options.order, `${what}: order`);
  if (options.retry !== undefined) Object.assign(policy, readRetry(options.retry, `${what}: retry`));
  if (options.timeout !== undefined) policy.timeoutMs = readPositive(options.timeout, `${what}: timeout`);
  if (options.ttl !== undefined) policy.ttlMs = readPositive(options.ttl, `${what}: ttl`);
  if (options.throttlesMax !== undefined)
    policy.throttlesMax = checkWhole(options.throttlesMax, `${what}: throttlesMax`, 0, 1_000_000);
  if (options.retention !== undefined)
    policy.retention = readRetention(options.retention, `${what}: retention`);
  if (options.keepResult !== undefined)
    policy.keepsResult = readKeepResult(options.keepResult, `${what}: keepResult`);
  return policy;
}

function readKeepResult(given: unknown, what: string): boolean | number {
  return typeof given === "boolean" ? given : durationMs(given, what);
}

function readRetention(options: RetentionOptions, what: string): Retention {
  const given = checkOptions(options, what, ["completed", "failed", "other"]);
  const read = (key: string): number | undefined => {
    const value = given[key];
    if (typeof value === "object" && value !== null && "count" in value)
      throw new MillraceError(
        "invalid-option",
        `${what}.${key}: a job has no count; give it to its queue or to the store.`,
      );
    return value === undefined ? undefined : durationMs(value, `${what}.${key}`);
  };
  const [completedMs, failedMs, otherMs] = [read("completed"), read("failed"), read("other")];
  return {
    ...(completedMs === undefined ? {} : { completedMs }),
    ...(failedMs === undefined ? {} : { failedMs }),
    ...(otherMs === undefined ? {} : { otherMs }),
  };
}

export function readPositive(value: unknown, what: string): number {
  const ms = durationMs(value, what);
  if (ms === 0) throw new MillraceError("invalid-duration", `${what} must be longer than 0.`);
  return ms;
}

export function readDue(options: Pick<EnqueueOptions, "delay" | "runAt">, what: string): Due | undefined {
  const { delay, runAt } = options;
  if (delay !== undefined && runAt !== undefined) {
    throw new MillraceError("invalid-option", `${what}: give either delay or runAt, not both.`);
  }
  if (runAt !== undefined) return { at: readInstant(runAt, `${what}: runAt`), isNamed: true };
  return delay === undefined ? undefined : { inMs: durationMs(delay, `${what}: delay`) };
}

function readDeadline(value: Duration | Date, what: string): Due {
  return value instanceof Date
    ? { at: readInstant(value, what), isNamed: true }
    : { inMs: readPositive(value, what) };
}

function readRequires(requires: unknown, what: string): readonly string[] {
  return readCapabilities(requires, what, storeLimits.requiresPerJobMax);
}

function readTags(tags: unknown, what: string): readonly string[] {
  if (!Array.isArray(tags) || tags.length > storeLimits.tagsPerJobMax) {
    throw new MillraceError(
      "invalid-option",
      `${what} must be a list of at most ${storeLimits.tagsPerJobMax} names.`,
    );
  }
  return [...new Set(tags.map((tag) => checkName(tag, what)))];
}

function readHeaders(headers: unknown, what: string): Readonly<Record<string, string>> {
  if (typeof headers !== "object" || headers === null || Array.isArray(headers)) {
    throw new MillraceError("invalid-option", `${what} must be an object of texts.`);
  }
  const entries = Object.entries(headers);
  if (entries.length > headersMax)
    throw new MillraceError("invalid-option", `${what} has more than ${headersMax} entries.`);
  for (const [key, value] of entries) {
    checkName(key, `${what} key`);
    if (typeof value !== "string" || value.length > headerCharsMax) {
      throw new MillraceError(
        "invalid-option",
        `${what}.${key} must be a text of at most ${headerCharsMax} characters.`,
      );
    }
  }
  return Object.fromEntries(entries) as Record<string, string>;
}
