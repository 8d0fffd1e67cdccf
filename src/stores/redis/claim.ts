/** Claim (lua/claim.ts): the records of what was handed out, put together as leased jobs. */
import type { ClaimAnswer, ClaimRequest } from "../../store/operations.ts";
import type { LeasedJob } from "../../store/records.ts";
import { emptyHints } from "../../store/hints.ts";
import type { Calls } from "./call.ts";
import { leasedJobOf } from "./record.ts";
import { knownText } from "./route-book.ts";
import { packText } from "./text.ts";

type Answer = [string, string, string[], number, string, string[], (number | string)[]];

/** Entries that come between a claim and its repetition. */
const roundsMax = 4;

export async function claim(calls: Calls, request: ClaimRequest): Promise<ClaimAnswer> {
  const { routes: book } = calls;
  for (let round = 1; ; round++) {
    const { page } = book;
    const known = page.own.length;
    const args = [packText(request.owner), String(request.leaseMs), knownText(page)];
    const asked: number[] = [];
    for (const { routes, max } of request.offers) {
      const numbers = book.serverNumbers(page, routes);
      if (numbers.length === 0 || max <= 0) continue;
      args.push(String(max), String(numbers.length), ...numbers.map(String));
      asked.push(...numbers);
    }
    calls.claims.sends(asked);
    const [at, clock, listed, filled, fence, flat, others] = (await calls.pairs.claim(args)) as Answer;
    // The numbers were of another entry, so nothing was claimed by them.
    const isStale = book.learn(page, known, listed) !== page;
    if (isStale && request.offers.length > 0 && round < roundsMax) continue;
    tellRegained(calls, known, request.routesKnown);
    const now = Number(at);
    return {
      jobs: leasedJobs(calls, flat, others, { fence: Number(fence), claimedAt: now }),
      routes: book.behind(request.routesKnown),
      more: filled > 0,
      nextDueInMs: inMs(clock, now),
      now,
    };
  }
}

/** A route that the caller knows, and that the server has just got again under this entry: this claim could not ask for it yet. */
function tellRegained(calls: Calls, known: number, routesKnown: number): void {
  const { own } = calls.routes.page;
  if (own.length <= known) return;
  const hints = emptyHints();
  for (let number = known + 1; number <= own.length; number++)
    if ((own[number - 1] as number) <= routesKnown) hints.routes.add(number);
  calls.tell(hints);
}

/** Handle and spec of each; place and state of those that were not plain and claimed for the first time. */
export function leasedJobs(
  { routes }: Calls,
  flat: readonly string[],
  others: readonly (number | string)[],
  first: { readonly fence: number; readonly claimedAt: number },
): LeasedJob[] {
  const states = new Map<number, string>();
  for (let at = 0; at < others.length; at += 2) states.set(others[at] as number, others[at + 1] as string);
  const jobs: LeasedJob[] = [];
  for (let at = 0; at < flat.length; at += 2)
    jobs.push(
      leasedJobOf(routes, flat[at] as string, flat[at + 1] as string, states.get(at / 2) ?? "", first),
    );
  return jobs;
}

/** How far away a clock is; null for none. */
export function inMs(clock: string, now: number): number | null {
  return clock === "" ? null : Math.max(0, Number(clock) - now);
}
