/** The config file of the command line (`millrace.config.ts`): what it may say, and its check. */
import { isQueueDefinition } from "../engine/policies/queue-definition.ts";
import type { QueueDefinition } from "../engine/policies/queue-definition.ts";
import { isScheduleDefinition } from "../engine/schedules/schedule-definition.ts";
import type { ScheduleDefinition } from "../engine/schedules/schedule-definition.ts";
import { isSubscriptionDefinition } from "../engine/topics/topic-definition.ts";
import type { SubscriptionDefinition } from "../engine/topics/topic-definition.ts";
import { checkOptions, invalidOption } from "../model/option.ts";
import { isHandler } from "../worker/handler.ts";
import type { Handler } from "../worker/handler.ts";
import type { WorkerOptions } from "../worker/worker-settings.ts";
import type { MillraceOptions } from "./millrace-options.ts";

/** What code declares for a worker, wherever it was exported. */
export interface Declared {
  readonly handlers: readonly Handler[];
  readonly schedules: readonly ScheduleDefinition[];
  readonly subscriptions: readonly SubscriptionDefinition[];
  readonly queues: readonly QueueDefinition[];
}

export interface MillraceConfig {
  /** The URL of the store. `--store` and MILLRACE_STORE have precedence. */
  store?: string;
  /**
   * The options with which every command opens the store, such as its encryption. What says where the store is goes
   * into the URL. Options of another kind of store than the one that is opened are left out.
   */
  open?: MillraceOptions;
  /** The handlers of `millrace work` and `millrace check`, or the file that exports them, relative to this one. */
  handlers?: string | readonly Handler[];
  /** Schedules, made by schedule(). */
  schedules?: readonly ScheduleDefinition[];
  /** Subscriptions to topics, made by subscription(). */
  subscriptions?: readonly SubscriptionDefinition[];
  /** Defaults of queues, made by queue(). */
  queues?: readonly QueueDefinition[];
  /** Other options of the worker that `millrace work` starts. Those of its command line have precedence. */
  work?: Omit<WorkerOptions, "schedules" | "subscriptions" | "queueDefaults" | "signals">;
}

const nestingMax = 4;

/**
 * Every handler, schedule and subscription of a module, from any export, alone or in arrays. Each is known by its
 * shape, not by its class, because the file may import another copy of Millrace than the command line.
 */
export function pickDeclared(exported: Readonly<Record<string, unknown>>): Declared {
  const values = [...new Set(Object.values(exported).flat(nestingMax))];
  return {
    handlers: values.filter(isHandler),
    schedules: values.filter(isScheduleDefinition),
    subscriptions: values.filter(isSubscriptionDefinition),
    queues: values.filter(isQueueDefinition),
  };
}

const known = ["store", "open", "handlers", "schedules", "subscriptions", "queues", "work"];
/** `work` reads the rest of its options itself; these have another place. */
const notOfOpen: readonly (readonly [string, readonly string[]])[] = [
  ["postgres", ["pool", "schema"]],
  ["redis", ["client", "prefix"]],
];
const notOfWork = ["schedules", "subscriptions", "queueDefaults", "signals"];

/**
 * Gives a config its types and checks it.
 *
 * @example
 * // millrace.config.ts
 * export default defineConfig({ store: "sqlite:./jobs.db", handlers: "./jobs.ts", work: { queues: { email: 20 } } });
 */
export function defineConfig(config: MillraceConfig): MillraceConfig {
  return readConfig(config, "defineConfig");
}

export function readConfig(given: unknown, what: string): MillraceConfig {
  const config = checkOptions(given, what, known) as MillraceConfig;
  const { store, open = {}, handlers, schedules = [], subscriptions = [], queues = [], work = {} } = config;
  if (store !== undefined && (typeof store !== "string" || store.trim() === ""))
    throw invalidOption(`${what}: store must be a URL such as "sqlite:./jobs.db".`);
  for (const [name, value] of Object.entries({ open, work }))
    if (typeof value !== "object" || value === null)
      throw invalidOption(`${what}: ${name} must be an object.`);
  if ("bucket" in open)
    throw invalidOption(
      `${what}: open.bucket is not for a config; the command line takes it from the environment.`,
    );
  for (const [store, options] of notOfOpen)
    for (const name of options)
      if (name in ((open as Record<string, object | undefined>)[store] ?? {}))
        throw invalidOption(
          `${what}: open.${store}.${name} is not for a config; put it into the URL of the store.`,
        );
  for (const name of notOfWork)
    if (name in work) throw invalidOption(`${what}: work.${name} is not for a config; ${adviceFor(name)}.`);
  const isFile = typeof handlers === "string" && handlers !== "";
  if (handlers !== undefined && !isFile && !isListOf(handlers, isHandler))
    throw invalidOption(`${what}: handlers must be a file, or a list of what handler() makes.`);
  if (!isListOf(schedules, isScheduleDefinition))
    throw invalidOption(`${what}: schedules must be a list of what schedule() makes.`);
  if (!isListOf(subscriptions, isSubscriptionDefinition))
    throw invalidOption(`${what}: subscriptions must be a list of what subscription() makes.`);
  if (!isListOf(queues, isQueueDefinition))
    throw invalidOption(
      `${what}: queues must be a list of what queue() makes; their slots go into work.queues.`,
    );
  return config;
}

function adviceFor(name: string): string {
  if (name === "signals") return "millrace work always stops on them";
  return `give ${name === "queueDefaults" ? "queues" : name} beside it`;
}

function isListOf(value: unknown, is: (each: unknown) => boolean): boolean {
  return Array.isArray(value) && value.every(is);
}
