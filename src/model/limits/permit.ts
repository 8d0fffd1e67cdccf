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
 *
 * Permit jobs of a key serve that key only. A claim asks for routes, not for keys, and a route for each key is out of
 * the question: stores keep routes for good. So a process has a **desk number** of its own, which is part of the name
 * of its permit jobs with a key, and it serves nobody but itself. The number is drawn at random; two processes that
 * drew the same one notice when one claims what the other has submitted, and draw again, out of more. So there are as
 * many such routes of a limit and a weight as processes need, not as there are keys.
 */
import type { JobPolicy } from "../job/job-policy.ts";

/** No queue of an application can have this name: it has a control character. */
export const permitQueue = "\u0007permits";

/**
 * The name of the permit jobs of a limit and a weight: one pool of a process serves each.
 * @param deskNumber that of the process, for permit jobs with a key.
 */
export function permitName(limit: string, weight: number, deskNumber: number | null = null): string {
  return deskNumber === null ? `${weight} ${limit}` : `${weight}/${deskNumber} ${limit}`;
}

/** Out of so many a process draws its first desk number, and out of so many times more when it has to draw again. */
export const deskNumbers = { first: 16, growth: 4, max: 4096 };

/** The input of a permit job is its key, whatever codec the processes have; null for one without. */
export const writePermitKey = (key: string | null): string => JSON.stringify(key);
export const readPermitKey = (input: string): string | null => JSON.parse(input) as string | null;

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
