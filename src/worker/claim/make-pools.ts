/** Makes the pools of a worker: one per served queue, and one per handler with slots of its own. */
import type { Needs } from "../../engine/services.ts";
import { queueOf } from "../../engine/submit/router.ts";
import { checkKnownBackoff, customBackoffOf } from "../../engine/submit/known-backoff.ts";
import { MillraceError } from "../../model/error.ts";
import { BatchPool } from "./batch-pool.ts";
import type { Handler } from "../handler.ts";
import { Pool } from "./pool.ts";
import type { ServedQueue, WorkerSettings } from "../worker-settings.ts";

export interface MadePools {
  readonly served: ReadonlyMap<string, ServedQueue>;
  readonly pools: readonly Pool[];
}

export function makePools(
  needs: Needs<"backoffs" | "router">,
  handlers: readonly Handler[],
  settings: WorkerSettings,
): MadePools {
  if (
    !Array.isArray(handlers) ||
    handlers.some((each: Partial<Handler> | null) => each?.definition === undefined)
  )
    throw new MillraceError(
      "invalid-option",
      "work: the first argument must be a list of handlers made by handler().",
    );
  if (handlers.length === 0) throw new MillraceError("no-handlers", "A worker needs at least one handler.");
  const singles = new Set<string>();
  const seen = new Set<string>();
  const queuesOfHandlers = new Set<string>();
  const homesOfSingles = new Set<string>();
  for (const each of handlers) {
    const { kind, definition } = each;
    if (seen.has(definition.name))
      throw new MillraceError("duplicate-handler", `Two handlers for ${JSON.stringify(definition.name)}.`);
    seen.add(definition.name);
    checkKnownBackoff(
      needs.backoffs,
      customBackoffOf(definition.options.policy),
      `work: the job ${JSON.stringify(definition.name)}`,
    );
    const home = queueOf(needs.router, definition);
    queuesOfHandlers.add(home);
    if (kind !== "single" || each.sandbox !== undefined) continue;
    singles.add(definition.name);
    homesOfSingles.add(home);
  }
  const own = { slots: settings.concurrency, total: null, weight: 1 };
  const served = settings.queues ?? new Map([...queuesOfHandlers].map((queue) => [queue, own]));
  if (served.size === 0)
    throw new MillraceError("no-handlers", "A worker needs at least one queue to serve.");
  const pools: Pool[] = [];
  for (const [queue, { slots }] of served) {
    if (singles.size > 0) {
      const isHome = homesOfSingles.has(queue);
      pools.push(new Pool({ queue, slots, names: singles, jobsPerSlot: 1, isHome }));
    }
    for (const handler of handlers) {
      if (handler.kind === "batch") pools.push(new BatchPool(queue, handler));
      else if (handler.sandbox !== undefined) {
        const { size: slotsMax, ahead } = handler.sandbox;
        const attemptsPerSlot = (): number => 1 + ahead(needs);
        const names = new Set([handler.definition.name]);
        const isHome = queueOf(needs.router, handler.definition) === queue;
        pools.push(new Pool({ queue, slots, names, jobsPerSlot: 1, slotsMax, attemptsPerSlot, isHome }));
      }
    }
  }
  return { served, pools };
}
