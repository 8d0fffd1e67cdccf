/** Order and punctuality: invariants 26, 31 and 32. */
import type { ClaimRequest } from "../../../src/store/operations.ts";
import { calmSince, promptMs } from "../calm.ts";
import type { Ledger, Violation } from "../ledger.ts";
import { isBetter, walkReady } from "../ready-order.ts";
import type { Claimed, Waiting } from "../ready-order.ts";

export function* checkOrder(ledger: Ledger): Generator<Violation> {
  yield* dueJobsArePromoted(ledger);
  yield* bestJobsAreClaimed(ledger);
}

function* dueJobsArePromoted(ledger: Ledger): Generator<Violation> {
  const { slackMs = 0 } = ledger.evidence;
  const calm = calmSince(ledger.evidence);
  if (calm === null) return;
  for (const [id, events] of ledger.timelines) {
    for (const [index, event] of events.entries()) {
      const next = events[index + 1];
      if (event.state !== "scheduled" || next === undefined || next.kind !== "promoted") continue;
      const dueAt = Number(event.extra);
      if (dueAt > calm && next.at - dueAt > promptMs + slackMs)
        yield {
          invariant: 26,
          id,
          message: `${id} was due at ${dueAt} and promoted ${next.at - dueAt} ms later`,
        };
    }
  }
}

interface Claim {
  readonly offers: ClaimRequest["offers"];
  /**
   * Where in the answer each job stands. A record of the feed does not tell: the order between the jobs of one record
   * is free.
   */
  readonly places: ReadonlyMap<string, number>;
}

/** Whether the claimed one may come before a better one that waits. */
type MayPass = (claimed: Claimed, waiting: Waiting) => boolean;

/**
 * At every claim the ready jobs of the offered routes, as the feed tells them, must not hold a better one than those
 * that were taken. A better one that has limits may be held by them; then only jobs of its own route, which have the
 * same limits, must not pass it. One that has a lane waits for its lane (invariant 57), and lanes that take turns are
 * not handed out by rank.
 */
function* bestJobsAreClaimed(ledger: Ledger): Generator<Violation> {
  const claims = readClaims(ledger);
  const mayPass: MayPass = (claimed, { route }) => {
    const asks = ledger.routes.get(route);
    return asks?.lanes !== undefined || (claimed.route !== route && (asks?.gates.length ?? 0) > 0);
  };
  for (const { number, claimed, ready } of walkReady(ledger)) {
    const claim = claims.get(number);
    if (claim === undefined) continue;
    const byRank = claimed.filter(({ route }) => ledger.routes.get(route)?.lanes !== "turn");
    yield* compare(byRank, ready, claim, mayPass);
  }
}

function* compare(
  claimed: readonly Claimed[],
  ready: ReadonlyMap<string, Waiting>,
  { offers, places }: Claim,
  mayPass: MayPass,
): Generator<Violation> {
  const place = ({ id }: { readonly id: string }): number => places.get(id) ?? 0;
  for (const { routes } of offers) {
    const taken = claimed
      .filter(({ route }) => routes.includes(route))
      .toSorted((one, other) => place(one) - place(other));
    for (const [index, each] of taken.entries()) {
      const next = taken[index + 1];
      if (next !== undefined && isBetter(next, each))
        yield {
          invariant: 31,
          id: next.id,
          message: `${next.id} was handed out behind ${each.id}, which comes after it`,
        };
    }
    for (const [id, waiting] of ready) {
      if (!routes.includes(waiting.route)) continue;
      const passed = taken.find((each) => isBetter(waiting, each) && !mayPass(each, waiting));
      if (passed !== undefined)
        yield {
          invariant: 32,
          id,
          message: `${passed.id} was claimed although ${id} was ready and comes before it`,
        };
    }
  }
}

/** Which claim wrote which feed record: the one that handed out the job's claimed event with the same rev. */
function readClaims(ledger: Ledger): Map<number, Claim> {
  const numbers = new Map<string, number>();
  for (const [id, events] of ledger.timelines)
    for (const { kind, rev, number } of events) if (kind === "claimed") numbers.set(`${id}#${rev}`, number);
  const claims = new Map<number, Claim>();
  for (const { id, rev, call } of ledger.leases) {
    const number = numbers.get(`${id}#${rev}`);
    if (number === undefined || call.kind !== "claim" || claims.has(number)) continue;
    const places = new Map(call.answer?.jobs.map((job, place) => [job.id, place]));
    claims.set(number, { offers: call.request.offers, places });
  }
  return claims;
}
