/** Which queue a job goes to. Queues need no declaration; a worker serves those it is told to. */
import { checkName } from "../model/name.ts";

/** Gets the job's name and its declared queue, gives the queue it goes to. */
export type Router = (name: string, declaredQueue: string) => string;

/** Each job to the queue its definition declares. */
export const declaredRouter: Router = (_name, declaredQueue) => declaredQueue;

/** Everything to one queue. */
export function routeAllTo(queue: string): Router {
  checkName(queue, "queue");
  return () => queue;
}

/** By the longest matching prefix of the name; what matches none goes to its declared queue. */
export function routeByPrefix(queues: Readonly<Record<string, string>>): Router {
  const prefixes = Object.entries(queues).toSorted(([left], [right]) => right.length - left.length);
  for (const [, queue] of prefixes) checkName(queue, "queue");
  return (name, declaredQueue) => prefixes.find(([prefix]) => name.startsWith(prefix))?.[1] ?? declaredQueue;
}
