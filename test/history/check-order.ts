/** Order and punctuality: invariants 26, 31 and 32. */
import type { EventKind } from "../../src/model/event-kind.ts";
import type { NewJob } from "../../src/store/records.ts";
import type { ClaimRequest } from "../../src/store/operations.ts";
import type { Ledger, Violation } from "./ledger.ts";

/** The promote duty sleeps at most 1.5 s; the rest is for calls on their way. */
const promoteMaxMs = 3000;
/** After the healing the longest backoff of a duty and the longest hanging call still have to pass. */
const recoveryMs = 130_000;

export function* checkOrder(ledger: Ledger): Generator<Violation> {
  yield* dueJobsArePromoted(ledger);
  yield* bestJobsAreClaimed(ledger);
}

function* dueJobsArePromoted(ledger: Ledger): Generator<Violation> {
  const { isFaultFree, healedAt, slackMs = 0 } = ledger.evidence;
  if (healedAt === null && !isFaultFree) return;
  const calmSince = isFaultFree ? 0 : (healedAt ?? 0) + recoveryMs;
  for (const [id, events] of ledger.timelines) {
    for (const [index, event] of events.entries()) {
      const next = events[index + 1];
      if (event.state !== "scheduled" || next === undefined || next.kind !== "promoted") continue;
      const dueAt = Number(event.extra);
      if (dueAt > calmSince && next.at - dueAt > promoteMaxMs + slackMs)
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

interface Waiting {
  readonly rank: number;
  readonly seq: number;
  readonly route: number;
}

/** Events behind which a ready job is due when it was before. A revoke, too, gives the job back to its old place. */
const keepsPlace: ReadonlySet<EventKind> = new Set([
  "promoted",
  "handed-back",
  "revoked",
  "edited",
  "cancel-asked",
]);

/**
 * At every claim the ready jobs of the offered routes, as the feed tells them, must not hold a better one than those
 * that were taken. Jobs whose rank cannot be told from the outside (edited, replaced, submitted again) or that a clock
 * may hide (deadline, time-to-live) are left out.
 */
function* bestJobsAreClaimed(ledger: Ledger): Generator<Violation> {
  const seqs = new Map<string, number>();
  for (const { id, seq } of ledger.leases) seqs.set(id, seq);
  for (const { id, seq } of ledger.records.values()) seqs.set(id, seq);
  const claims = readClaims(ledger);
  const ready = new Map<string, Waiting>();
  const dueAt = new Map<string, number>();
  const isOpaque = new Set(ledger.reborn);
  for (const { number, at, events } of ledger.evidence.snapshot.feed) {
    const claimed: (Waiting & { readonly id: string })[] = [];
    for (const { id, kind, state, route, extra } of events) {
      if (kind === "edited" || kind === "replaced") isOpaque.add(id);
      if (kind === "claimed") {
        const waiting = ready.get(id);
        if (waiting !== undefined) claimed.push({ ...waiting, id });
      }
      if (state === "scheduled") dueAt.set(id, Number(extra));
      else if (state === "ready" && !keepsPlace.has(kind)) dueAt.set(id, at);
      if (state !== "ready") {
        ready.delete(id);
        continue;
      }
      const spec = onlySpec(ledger, id);
      const seq = seqs.get(id);
      if (spec === null || seq === undefined || isOpaque.has(id)) ready.delete(id);
      else ready.set(id, { rank: spec.rankBase + spec.rankSlope * (dueAt.get(id) ?? at), seq, route });
    }
    const claim = claims.get(number);
    if (claim !== undefined) yield* compare(claimed, ready, claim);
  }
}

function* compare(
  claimed: readonly (Waiting & { readonly id: string })[],
  ready: ReadonlyMap<string, Waiting>,
  { offers, places }: Claim,
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
    const worst = taken.reduce<(Waiting & { id: string }) | null>(
      (found, each) => (found === null || isBetter(found, each) ? each : found),
      null,
    );
    if (worst === null) continue;
    for (const [id, waiting] of ready)
      if (routes.includes(waiting.route) && isBetter(waiting, worst))
        yield {
          invariant: 32,
          id,
          message: `${worst.id} was claimed although ${id} was ready and comes before it`,
        };
  }
}

const isBetter = (one: Waiting, other: Waiting): boolean =>
  one.rank < other.rank || (one.rank === other.rank && one.seq < other.seq);

function onlySpec(ledger: Ledger, id: string): NewJob | null {
  const specs = ledger.specs.get(id) ?? [];
  const [first] = specs;
  const isOne = first !== undefined && specs.every((spec) => spec.rankBase === first.rankBase);
  // An instant that the caller named may lie in the past, and then it is the due time; nobody outside can tell.
  return isOne && first.deadline === null && first.ttlMs === null && "inMs" in first.due ? first : null;
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
