/** Which queue a job goes to. Queues need no declaration; a worker serves those it is told to. */
import { checkName } from "../model/name.ts";

/** From a job's name and its declared queue to the queue that the job goes to. */
export type Router = (name: string, declaredQueue: string) => string;

/** Sends each job to the queue that its definition declares. */
export const declaredRouter: Router = (_name, declaredQueue) => declaredQueue;

/** Sends all jobs to one queue. */
export function routeAllTo(queue: string): Router {
  checkName(queue, "queue");
  return () => queue;
}

/** Sends a job by the longest prefix that its name has; a job whose name has none goes to its declared queue. */
export function routeByPrefix(queues: Readonly<Record<string, string>>): Router {
  const prefixes = Object.entries(queues).toSorted(([left], [right]) => right.length - left.length);
  for (const [, queue] of prefixes) checkName(queue, "queue");
  return (name, declaredQueue) => prefixes.find(([prefix]) => name.startsWith(prefix))?.[1] ?? declaredQueue;
}
