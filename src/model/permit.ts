/**
 * Permits that code takes by itself (`mill.limits.acquire`), without a job of its own. Such a permit is the lease of a
 * hidden job, a **permit job**, whose route names the limit: so a cap holds over jobs and permits alike, and whatever
 * ends a lease ends a permit.
 *
 *   waits:  submits one permit job, and claims one          gives up:  takes one that is ready away
 *   holds:  the lease of the claimed one, renewed           releases:  settles it
 *
 * Permit jobs of one limit and weight are alike: who waits may get the one that another has submitted. There are as
 * many of them as there are who wait and who hold. One that is ready too many, because its process died, goes by its
 * time-to-live; who waits longer than that submits another.
 */
import type { JobPolicy } from "./job-policy.ts";

/** No queue of an application can have this name: it has a control character. */
export const permitQueue = "\u0007permits";

/** What people are shown: permit jobs are counted by their limit, and nowhere else. */
export function withoutPermits<Shown extends { readonly queue: string }>(
  all: readonly Shown[],
): readonly Shown[] {
  return all.filter(({ queue }) => queue !== permitQueue);
}

/** The name of the permit jobs of a limit and a weight: one pool of a process serves each. */
export const permitName = (limit: string, weight: number): string => `${weight} ${limit}`;

/** How long a permit job may be ready before it counts as left behind. */
export const permitTtlMs = 60_000;
/** Who still waits submits another one so long after the last: before that has run out. */
export const permitAgainMs = 50_000;

/** A permit ends with its lease, is never tried again, has no time of its own and leaves nothing behind. */
export const permitPolicy: JobPolicy = {
  isPermit: true,
  attempts: 1,
  timeoutMs: null,
  ttlMs: permitTtlMs,
  keepsResult: false,
  retention: { completedMs: 0, failedMs: 0, otherMs: 0 },
};
