/** Claim (lua/claim.ts): the records of what was handed out, put together as leased jobs. */
import type { ClaimAnswer, ClaimRequest } from "../../store/operations.ts";
import type { LeasedJob } from "../../store/records.ts";
import { readRoutes } from "./call.ts";
import type { Calls } from "./call.ts";
import { leasedJobOf } from "./record.ts";
import { packText } from "./text.ts";

type Answer = [string, string, string[], number, string, string[], (number | string)[]];

export async function claim(calls: Calls, request: ClaimRequest): Promise<ClaimAnswer> {
  const args = [packText(request.owner), String(request.leaseMs), String(request.routesKnown)];
  for (const { routes, max } of request.offers) {
    if (routes.length === 0 || max <= 0) continue;
    const distinct = [...new Set(routes)];
    args.push(String(max), String(distinct.length), ...distinct.map(String));
  }
  const [at, clock, routes, filled, fence, flat, others] = (await calls.connection.write(
    "mr1_claim",
    args,
  )) as Answer;
  const now = Number(at);
  return {
    jobs: leasedJobs(flat, others, { fence: Number(fence), claimedAt: now }),
    routes: readRoutes(request.routesKnown, routes),
    more: filled > 0,
    nextDueInMs: inMs(clock, now),
    now,
  };
}

/** Handle and spec of each; place and state of those that were not plain and claimed for the first time. */
export function leasedJobs(
  flat: readonly string[],
  others: readonly (number | string)[],
  first: { readonly fence: number; readonly claimedAt: number },
): LeasedJob[] {
  const states = new Map<number, string>();
  for (let at = 0; at < others.length; at += 2) states.set(others[at] as number, others[at + 1] as string);
  const jobs: LeasedJob[] = [];
  for (let at = 0; at < flat.length; at += 2)
    jobs.push(leasedJobOf(flat[at] as string, flat[at + 1] as string, states.get(at / 2) ?? "", first));
  return jobs;
}

/** How far away a clock is; null for none. */
export function inMs(clock: string, now: number): number | null {
  return clock === "" ? null : Math.max(0, Number(clock) - now);
}
