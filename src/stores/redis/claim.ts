/** Claim (lua/claim.ts): the records of what was handed out, put together as leased jobs. */
import type { ClaimAnswer, ClaimRequest } from "../../store/operations.ts";
import type { LeasedJob } from "../../store/records.ts";
import { readRoutes } from "./call.ts";
import type { Calls } from "./call.ts";
import { leasedJobOf } from "./record.ts";
import { packText } from "./text.ts";

type Answer = [string, unknown, string, string[], number, string[], string];

export async function claim(calls: Calls, request: ClaimRequest): Promise<ClaimAnswer> {
  const args = [packText(request.owner), String(request.leaseMs), String(request.routesKnown)];
  for (const { routes, max } of request.offers) {
    if (routes.length === 0 || max <= 0) continue;
    const distinct = [...new Set(routes)];
    args.push(String(max), String(distinct.length), ...distinct.map(String));
  }
  const [at, , clock, routes, filled, flat, fence] = (await calls.connection.write(
    "mr1_claim",
    args,
  )) as Answer;
  const now = Number(at);
  return {
    jobs: leasedJobs(flat, { fence: Number(fence), claimedAt: now }),
    routes: readRoutes(request.routesKnown, routes),
    more: filled > 0,
    nextDueInMs: inMs(clock, now),
    now,
  };
}

/** Handle, spec and state of each. */
export function leasedJobs(
  flat: readonly string[],
  first: { readonly fence: number; readonly claimedAt: number },
): LeasedJob[] {
  const jobs: LeasedJob[] = [];
  for (let at = 0; at < flat.length; at += 3)
    jobs.push(leasedJobOf(flat[at] as string, flat[at + 1] as string, flat[at + 2] as string, first));
  return jobs;
}

/** How far away a clock is; null for none. */
export function inMs(clock: string, now: number): number | null {
  return clock === "" ? null : Math.max(0, Number(clock) - now);
}
