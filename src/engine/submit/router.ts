/**
 * Which queue a job goes to: the one of its enqueue, else the one that its definition declares, else the router's.
 * Queues need no declaration; a worker serves those that its options name.
 */
import { checkName } from "../../model/name.ts";
import { invalidOption } from "../../model/option.ts";

/** From the name of a job for which neither enqueue nor definition names a queue, to its queue. */
export type Router = (name: string) => string;

const defaultQueue = "default";

/** Sends all jobs to one queue. */
export function routeAllTo(queue: string): Router {
  checkName(queue, "queue");
  return () => queue;
}

export const defaultRouter: Router = routeAllTo(defaultQueue);

/** Sends a job by the longest prefix that its name has; a job whose name has none goes to `otherwise`. */
export function routeByPrefix(queues: Readonly<Record<string, string>>, otherwise = defaultQueue): Router {
  if (typeof queues !== "object" || queues === null)
    throw invalidOption("routeByPrefix: give an object of queues by prefix.");
  const prefixes = Object.entries(queues).toSorted(([left], [right]) => right.length - left.length);
  for (const [, queue] of prefixes) checkName(queue, "queue");
  checkName(otherwise, "queue");
  return (name) => prefixes.find(([prefix]) => name.startsWith(prefix))?.[1] ?? otherwise;
}

export function queueOf(
  router: Router,
  { name, queue }: { readonly name: string; readonly queue: string | null | undefined },
): string {
  return queue ?? checkName(router(name), "the router's queue");
}
