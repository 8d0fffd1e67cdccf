/**
 * The defaults of a queue in code. The store keeps them beside what an operator has set: each of the operator's
 * settings has precedence, also after the code has changed, until `mill.queues.reset`.
 */
import type { LimitSettings } from "../../model/limits/limit.ts";
import { checkName } from "../../model/name.ts";
import { checkBoolean, checkOptions, invalidOption } from "../../model/option.ts";
import type { DefinedQueue } from "../../model/fleet/queue-policy.ts";
import type { QueueEdit } from "./queue-edit.ts";
import { readQueueEdit } from "./queue-edit.ts";

type Setting = "concurrency" | "rate" | "attempts" | "backoff" | "retention";

export type QueueDefaults = { [Key in Setting]?: NonNullable<QueueEdit[Key]> } & {
  /**
   * True: the queue is paused from its first definition on, until an operator resumes it or the code says false. An
   * operator's pause and resume have precedence.
   */
  paused?: boolean;
};

export interface QueueDefinition {
  readonly queue: string;
  readonly bounds: LimitSettings;
  readonly defined: DefinedQueue;
}

const settings = ["concurrency", "rate", "attempts", "backoff", "retention"] satisfies Setting[];

/**
 * The defaults of a queue, for `work(handlers, { queueDefaults: [...] })`, a config or `mill.queues.define`.
 *
 * @example
 * const email = queue("email", { rate: { max: 100, per: "1m" }, attempts: 5, retention: { completed: "1d" } });
 */
export function queue(name: string, defaults: QueueDefaults): QueueDefinition {
  checkName(name, "queue: name");
  const what = `queue ${JSON.stringify(name)}`;
  const { paused, ...given } = checkOptions(defaults, what, [...settings, "paused"]);
  const said = Object.entries(given).filter(([, value]) => value !== undefined);
  const none = said.find(([, value]) => value === null);
  if (none !== undefined) throw invalidOption(`${what}: ${none[0]} is null; leave it out.`);
  if (said.length === 0 && paused === undefined) throw invalidOption(`${what}: give at least one default.`);
  const { bounds, policy } =
    said.length === 0 ? { bounds: {}, policy: {} } : readQueueEdit(Object.fromEntries(said), what);
  return Object.freeze({
    queue: name,
    bounds: { concurrency: null, rate: null, ...bounds },
    defined: {
      ...policy,
      ...(paused === undefined ? {} : { paused: checkBoolean(paused, `${what}: paused`) }),
    } as DefinedQueue,
  });
}

export function isQueueDefinition(value: unknown): value is QueueDefinition {
  return (
    typeof value === "object" && value !== null && "queue" in value && "bounds" in value && "defined" in value
  );
}
