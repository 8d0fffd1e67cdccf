/** The options of a worker, and the settings that they become once they are checked. */
import type { AttemptObserver } from "../engine/attempts/attempt-observer.ts";
import type { Needs } from "../engine/services.ts";
import { isQueueDefinition } from "../engine/policies/queue-definition.ts";
import type { QueueDefinition } from "../engine/policies/queue-definition.ts";
import { isScheduleDefinition } from "../engine/schedules/schedule-definition.ts";
import type { ScheduleDefinition } from "../engine/schedules/schedule-definition.ts";
import { isSubscriptionDefinition } from "../engine/topics/topic-definition.ts";
import type { SubscriptionDefinition } from "../engine/topics/topic-definition.ts";
import { readCapabilities } from "../model/routing/capability.ts";
import { durationMs } from "../model/duration.ts";
import type { Duration } from "../model/duration.ts";
import { MillraceError } from "../model/error.ts";
import { checkName } from "../model/name.ts";
import { checkBoolean, checkOptions, checkWhole, isListOfFunctions } from "../model/option.ts";
import { workerLabel } from "../model/fleet/worker-label.ts";
import { hookLayer } from "./middleware.ts";
import type { HandlerMiddleware, Hooks } from "./middleware.ts";

/** How many slots a queue has in this worker: a number of its own, or its share of a total over all live workers. */
export type QueueSlots =
  | number
  | {
      /** Slots of the queue over all live workers that declare it, divided evenly. */
      total: number;
      /**
       * If the shares of this worker's queues together exceed `slotsMax`: the weight by which this queue gets a part of
       * it; 1 by default.
       */
      weight?: number;
    };

export interface WorkerOptions {
  /**
   * The queues to serve, with their slots. Default: the queues in MILLRACE_QUEUES (names separated by commas), else the
   * queues of the handlers, each with `concurrency` slots.
   */
  queues?: Readonly<Record<string, QueueSlots>> | readonly string[];
  /** Slots of a queue for which `queues` names none; 10 by default. */
  concurrency?: number;
  /** Schedules that this worker's code defines, made by schedule(). */
  schedules?: readonly ScheduleDefinition[];
  /** Subscriptions to topics that this worker's code defines, made by subscription(). */
  subscriptions?: readonly SubscriptionDefinition[];
  /** Defaults of queues that this worker's code defines, made by queue(). */
  queueDefaults?: readonly QueueDefinition[];
  /**
   * The maximum of slots that totals may give this worker, over all its queues; 64 by default. All workers of a process
   * together get no more than the greatest of theirs.
   */
  slotsMax?: number;
  /**
   * What this worker offers, such as "gpu": it runs jobs that require a subset of these, and jobs that require nothing.
   */
  capabilities?: readonly string[];
  /**
   * How long a job stays with a worker that no longer renews its lease; 15 s by default. Leases are renewed
   * automatically.
   */
  lease?: Duration;
  /**
   * How long running handlers may finish after stop() before they are aborted; MILLRACE_SHUTDOWN_GRACE by default, else
   * 30 s.
   */
  shutdownGrace?: Duration;
  /** How long an aborted handler may take to end; MILLRACE_ABORT_GRACE by default, else 10 s. */
  abortGrace?: Duration;
  middleware?: readonly HandlerMiddleware[];
  /**
   * Functions that are called before and after each attempt, outside all middleware.
   *
   * @example
   * mill.work(handlers, { hooks: { after: ({ name }, outcome) => console.log(name, "error" in outcome) } });
   */
  hooks?: Hooks;
  /**
   * Shown in logs, lists and attempt records. Default: `{prefix}-worker-{version}-{id}` from MILLRACE_WORKER_PREFIX,
   * MILLRACE_WORKER_VERSION and MILLRACE_WORKER_ID; without a prefix, the host and the process.
   */
  label?: string;
  /**
   * Stop on SIGTERM and SIGINT; a second signal ends the process. Off by default, because a library should not install
   * signal handlers unasked.
   */
  signals?: boolean;
}

/** A queue as a worker serves it. */
export interface ServedQueue {
  /** Its own slots; unused while the queue has a total. */
  readonly slots: number;
  readonly total: number | null;
  readonly weight: number;
}

export interface WorkerSettings {
  readonly owner: string;
  readonly label: string;
  readonly queues: ReadonlyMap<string, ServedQueue> | null;
  readonly slotsMax: number;
  readonly concurrency: number;
  /** Sorted, without repeats. */
  readonly capabilities: readonly string[];
  readonly schedules: readonly ScheduleDefinition[];
  readonly subscriptions: readonly SubscriptionDefinition[];
  readonly queueDefaults: readonly QueueDefinition[];
  readonly leaseMs: number;
  readonly shutdownGraceMs: number;
  readonly abortGraceMs: number;
  readonly middleware: readonly HandlerMiddleware[];
  /** Called with each attempt of the worker that is over. */
  readonly observers: readonly AttemptObserver[];
  readonly wantsSignals: boolean;
  /** The worker registers, so that other processes see it. */
  readonly isAnnounced: boolean;
}

const slotsMax = 10_000;
const weightMax = 1000;
const capabilitiesMax = 256;
const leaseMinMs = 100;

export function readWorkerOptions(
  needs: Needs<"platform" | "attemptObservers" | "repeated">,
  options: WorkerOptions,
): WorkerSettings {
  const known = [
    "queues",
    "concurrency",
    "schedules",
    "subscriptions",
    "queueDefaults",
    "slotsMax",
    "capabilities",
    "lease",
    "shutdownGrace",
    "abortGrace",
    "middleware",
    "hooks",
    "label",
    "signals",
  ];
  if (typeof options !== "object" || options === null)
    throw new MillraceError("invalid-option", "work: the options must be an object.");
  checkOptions(options, "work", known);
  if (options.middleware !== undefined && !isListOfFunctions(options.middleware))
    throw new MillraceError("invalid-option", "work: middleware must be a list of functions.");
  const concurrency = checkWhole(options.concurrency ?? 10, "work: concurrency", 1, slotsMax);
  const queues = options.queues ?? namedQueues(needs.platform.readEnv("MILLRACE_QUEUES"));
  return {
    ...makeNames(needs, options.label),
    queues: queues === undefined ? null : readQueues(queues, concurrency),
    concurrency,
    schedules: readSchedules(options.schedules ?? []),
    subscriptions: readSubscriptions(options.subscriptions ?? []),
    queueDefaults: readQueueDefaults(options.queueDefaults ?? []),
    slotsMax: checkWhole(options.slotsMax ?? 64, "work: slotsMax", 1, slotsMax),
    capabilities:
      options.capabilities === undefined
        ? []
        : readCapabilities(options.capabilities, "work: capabilities", capabilitiesMax),
    leaseMs: readLease(options.lease, "work: lease"),
    shutdownGraceMs: readGrace(needs, options.shutdownGrace, "shutdownGrace", 30_000),
    abortGraceMs: readGrace(needs, options.abortGrace, "abortGrace", 10_000),
    middleware: [...readHooks(needs, options.hooks), ...(options.middleware ?? [])],
    observers: needs.attemptObservers,
    wantsSignals: checkBoolean(options.signals ?? false, "work: signals"),
    isAnnounced: true,
  };
}

function readHooks({ repeated }: Needs<"repeated">, given: Hooks | undefined): readonly HandlerMiddleware[] {
  if (given === undefined) return [];
  const hooks = checkOptions(given, "work: hooks", ["before", "after"]);
  if (!isListOfFunctions(Object.values(hooks).filter((hook) => hook !== undefined)))
    throw new MillraceError("invalid-option", "work: hooks.before and hooks.after must be functions.");
  const failed = ({ id, name }: { readonly id: string; readonly name: string }, error: unknown): void =>
    repeated.say("error", "the hook after an attempt failed; the job is not affected", { id, name, error });
  return [hookLayer(hooks, failed)];
}

const graceVariables = {
  shutdownGrace: "MILLRACE_SHUTDOWN_GRACE",
  abortGrace: "MILLRACE_ABORT_GRACE",
} as const;

function readGrace(
  { platform }: Needs<"platform">,
  option: Duration | undefined,
  name: keyof typeof graceVariables,
  defaultMs: number,
): number {
  const variable = graceVariables[name];
  const said = option === undefined ? platform.readEnv(variable) : undefined;
  return durationMs(option ?? said ?? defaultMs, said === undefined ? `work: ${name}` : variable);
}

export function readLease(lease: unknown, what: string): number {
  const leaseMs = durationMs(lease ?? 15_000, what);
  if (leaseMs < leaseMinMs)
    throw new MillraceError("invalid-duration", `${what} must be at least ${leaseMinMs} ms.`);
  return leaseMs;
}

function readSchedules(given: unknown): readonly ScheduleDefinition[] {
  if (!Array.isArray(given) || !given.every(isScheduleDefinition))
    throw new MillraceError("invalid-option", "work: schedules must be a list of what schedule() makes.");
  const known = new Map<string, ScheduleDefinition>();
  for (const definition of given as readonly ScheduleDefinition[]) {
    const { name, at } = definition;
    const other = known.get(name);
    if (other !== undefined)
      throw new MillraceError(
        "schedule-conflict",
        `work: two schedules have the name ${JSON.stringify(name)}: ${other.at}, and ${at}.`,
      );
    known.set(name, definition);
  }
  return given;
}

function readSubscriptions(given: unknown): readonly SubscriptionDefinition[] {
  if (!Array.isArray(given) || !given.every(isSubscriptionDefinition))
    throw new MillraceError(
      "invalid-option",
      "work: subscriptions must be a list of what subscription() makes.",
    );
  const twice = given.find(({ topic, name }, at) =>
    given.slice(0, at).some((other) => other.topic === topic && other.name === name),
  );
  if (twice !== undefined)
    throw new MillraceError(
      "subscription-conflict",
      `work: two subscriptions to ${JSON.stringify(twice.topic)} have the name ${JSON.stringify(twice.name)}; give one of them another.`,
    );
  return given;
}

function readQueueDefaults(given: unknown): readonly QueueDefinition[] {
  if (!Array.isArray(given) || !given.every(isQueueDefinition))
    throw new MillraceError("invalid-option", "work: queueDefaults must be a list of what queue() makes.");
  const names = given.map(({ queue }) => queue);
  const twice = names.find((name, at) => names.indexOf(name) !== at);
  if (twice !== undefined)
    throw new MillraceError(
      "invalid-option",
      `work: the queue ${JSON.stringify(twice)} has two definitions in queueDefaults; keep one of them.`,
    );
  return given;
}

function namedQueues(list: string | undefined): readonly string[] | undefined {
  return list
    ?.split(",")
    .map((name) => name.trim())
    .filter((name) => name !== "");
}

function readQueues(
  queues: Readonly<Record<string, QueueSlots>> | readonly string[],
  concurrency: number,
): ReadonlyMap<string, ServedQueue> {
  if (typeof queues !== "object" || queues === null)
    throw new MillraceError(
      "invalid-option",
      "work: queues must be a list of names, or names with their slots.",
    );
  const entries = Array.isArray(queues)
    ? (queues as readonly string[]).map((queue) => [queue, concurrency] as const)
    : Object.entries(queues as Readonly<Record<string, QueueSlots>>);
  return new Map(
    entries.map(([queue, slots]) => [
      checkName(queue, "work: queue"),
      readSlots(slots, `work: queues.${queue}`, concurrency),
    ]),
  );
}

function readSlots(given: QueueSlots, what: string, concurrency: number): ServedQueue {
  if (typeof given !== "object" || given === null)
    return { slots: checkWhole(given, what, 1, slotsMax), total: null, weight: 1 };
  const { total, weight } = checkOptions(given, what, ["total", "weight"]);
  return {
    slots: concurrency,
    total: checkWhole(total, `${what}.total`, 1, slotsMax),
    weight: checkWhole(weight ?? 1, `${what}.weight`, 1, weightMax),
  };
}

/** The owner is unique even if two processes have the same label, because they must not share leases. */
function makeNames(
  { platform }: Needs<"platform">,
  given: string | undefined,
): { label: string; owner: string } {
  const bootId = [...platform.randomBytes(4)].map((byte) => byte.toString(16).padStart(2, "0")).join("");
  const parts = {
    prefix: platform.readEnv("MILLRACE_WORKER_PREFIX"),
    version: platform.readEnv("MILLRACE_WORKER_VERSION"),
    id: platform.readEnv("MILLRACE_WORKER_ID"),
    bootId,
  };
  const process = `${platform.hostName.slice(0, 100)}-${platform.processId}`;
  const label = checkName(given ?? workerLabel(parts) ?? process, "work: label").slice(0, 200);
  return { label, owner: `${label}-${bootId}` };
}
