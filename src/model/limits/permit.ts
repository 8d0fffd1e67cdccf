/**
 * Permits that code takes by itself (`mill.limits.acquire`), without a job of its own. Such a permit is the lease of a
 * hidden job, a **permit job**, whose route names the limit: so a cap holds over jobs and permits alike, and everything
 * that ends a lease ends a permit.
 *
 *   waits:  submits one permit job, and claims one          gives up:  deletes a ready one
 *   holds:  the lease of the claimed one, renewed           releases:  settles it
 *
 * Permit jobs of one limit and weight are interchangeable: a waiting process may get one that another has submitted.
 * There is one for each wait and each held permit. If a process dies, its ready permit job expires by its
 * time-to-live; a process that waits longer than that submits another.
 *
 * Permit jobs of a key serve that key only. A claim asks for routes, not for keys, and stores keep routes for good, so
 * there cannot be a route for each key. So a process has an **acquirer number** of its own, which is part of the name
 * of its permit jobs with a key, and it serves only its own. The number is drawn at random. Two processes with the same
 * number notice it when one claims a job of the other, and draw again, out of more numbers. So the number of such
 * routes of a limit and a weight grows with processes, not with keys.
 */
import type { JobPolicy } from "../job/job-policy.ts";

/** The hidden queue of permit jobs. Queues of applications have no control characters. */
export const permitQueue = "\u0007permits";

/**
 * The name of the permit jobs of a limit and a weight: one pool of a process serves each.
 * @param acquirerNumber that of the process, for permit jobs with a key.
 */
export function permitName(limit: string, weight: number, acquirerNumber: number | null = null): string {
  return acquirerNumber === null ? `${weight} ${limit}` : `${weight}/${acquirerNumber} ${limit}`;
}

/**
 * A process draws its first number out of `first`, and out of `growth` times as many each time it has to draw again, up
 * to `max`.
 */
export const acquirerNumbers = { first: 16, growth: 4, max: 4096 };

/** The input of a permit job is its key, whatever the codec; null without a key. */
export const writePermitKey = (key: string | null): string => JSON.stringify(key);
export const readPermitKey = (input: string): string | null => JSON.parse(input) as string | null;

/** How long a permit job may be ready before it counts as abandoned. */
export const permitTtlMs = 60_000;
/** A process that still waits submits another one this long after the last, before that one expires. */
export const permitAgainMs = 50_000;

/** A permit ends with its lease, is never retried, has no timeout and leaves no history. */
export const permitPolicy: JobPolicy = {
  isPermit: true,
  attempts: 1,
  timeoutMs: null,
  ttlMs: permitTtlMs,
  keepsResult: false,
  retention: { completedMs: 0, failedMs: 0, otherMs: 0 },
};
