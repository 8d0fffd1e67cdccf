/** One owner: invariants 9 to 17. */
import { isBefore, leaseKey, lifeKey, pushTo } from "../ledger.ts";
import type { FencedWrite, Lease, Ledger, TimelineEvent, Violation } from "../ledger.ts";
import type { OperatorAct } from "../operator-acts.ts";

export function* checkOwnership(ledger: Ledger): Generator<Violation> {
  const leasesOf = new Map<string, Lease[]>();
  for (const lease of ledger.leases) pushTo(leasesOf, lease.id, lease);
  const writesOf = new Map<string, FencedWrite[]>();
  for (const write of ledger.writes) pushTo(writesOf, lifeKey(write), write);
  yield* fencesGrow(leasesOf);
  yield* leasesHaveOneOwner(ledger, leasesOf);
  yield* settlesApplyOnce(writesOf);
  yield* pastFencesAreRefused(leasesOf, writesOf);
  for (const [id, events] of ledger.timelines)
    yield* leasesEndOnce(ledger, { id, events, leases: leasesOf.get(id) ?? [], writesOf });
  yield* nothingIsReclaimedWithoutFaults(ledger);
  yield* ownLeasesAreLeft(ledger, leasesOf);
}

function* fencesGrow(leasesOf: ReadonlyMap<string, readonly Lease[]>): Generator<Violation> {
  for (const [id, leases] of leasesOf) {
    const byRev = leases
      .filter(({ isAdopted }) => !isAdopted)
      .toSorted((left, right) => left.seq - right.seq || left.rev - right.rev);
    for (const [index, lease] of byRev.entries()) {
      const next = byRev[index + 1];
      if (next !== undefined && next.seq === lease.seq && next.fence <= lease.fence)
        yield { invariant: 9, id, message: `${id}: the fence ${lease.fence} was followed by ${next.fence}` };
    }
  }
}

function* leasesHaveOneOwner(
  ledger: Ledger,
  leasesOf: ReadonlyMap<string, readonly Lease[]>,
): Generator<Violation> {
  for (const [id, leases] of leasesOf) {
    const owners = new Map<string, Set<string>>();
    for (const lease of leases)
      owners.set(lifeKey(lease), (owners.get(lifeKey(lease)) ?? new Set()).add(lease.owner));
    for (const [key, names] of owners)
      if (names.size > 1)
        yield {
          invariant: 10,
          id,
          message: `${key} was given to ${[...names].join(" and ")}`,
        };
  }
  for (const [key, effects] of ledger.effects) {
    const began = effects.filter(({ kind }) => kind === "began");
    const actors = new Set(began.map(({ actor }) => actor));
    const { id } = effects[0] as { id: string };
    if (ledger.reborn.has(id)) continue;
    if (actors.size > 1)
      yield { invariant: 10, id, message: `${key} was run by ${[...actors].join(" and ")}` };
    else if (began.length > 1)
      yield { invariant: 10, id, message: `${key} was run ${began.length} times under one lease` };
  }
}

function* settlesApplyOnce(writesOf: ReadonlyMap<string, readonly FencedWrite[]>): Generator<Violation> {
  for (const [key, writes] of writesOf) {
    const settles = writes.filter(({ what }) => what === "settle");
    const applied = settles.filter(({ answer }) => answer === "ok");
    const id = settles[0]?.id ?? "";
    if (applied.length > 1)
      yield { invariant: 11, id, message: `${key} was settled ${applied.length} times` };
    for (const settle of settles) {
      if (settle.answer !== "already") continue;
      const isExplained = settles.some(
        (other) =>
          other !== settle &&
          (other.answer === "ok" || (other.answer === null && other.call.seen === "unknown")),
      );
      if (!isExplained)
        yield {
          invariant: 11,
          id,
          message: `${key}: a settle was answered as already applied, but none was`,
        };
    }
  }
}

function* pastFencesAreRefused(
  leasesOf: ReadonlyMap<string, readonly Lease[]>,
  writesOf: ReadonlyMap<string, readonly FencedWrite[]>,
): Generator<Violation> {
  for (const [key, writes] of writesOf) {
    for (const write of writes) {
      if (write.answer !== "ok") continue;
      const newer = leasesOf
        .get(write.id)
        ?.find(
          (lease) =>
            (lease.seq > write.seq || (lease.seq === write.seq && lease.fence > write.fence)) &&
            isBefore(lease.call, write.call),
        );
      if (newer !== undefined)
        yield {
          invariant: 12,
          id: write.id,
          message: `${key}: the ${write.what} was applied after the fence ${newer.fence} was given`,
        };
    }
  }
}

interface JobLeases {
  readonly id: string;
  readonly events: readonly TimelineEvent[];
  readonly leases: readonly Lease[];
  readonly writesOf: ReadonlyMap<string, readonly FencedWrite[]>;
}

/**
 * A lease ends by a settle, by the store's clock or by an operator, never by the opinion of another worker, and never
 * comes back.
 */
function* leasesEndOnce(ledger: Ledger, job: JobLeases): Generator<Violation> {
  const { id, events, leases, writesOf } = job;
  let lease: Lease | undefined;
  for (const event of events) {
    if (event.kind === "claimed")
      lease = leases.findLast(({ rev, claimedAt }) => rev === event.rev && claimedAt === event.at);
    if ((event.kind !== "reclaimed" && event.kind !== "revoked") || lease === undefined) continue;
    const revoke = event.kind === "revoked" ? ledger.acts.explain("revoke", id, event.rev) : undefined;
    if (revoke !== undefined) yield* revokedLeaseIsRefused(lease, revoke, writesOf.get(lifeKey(lease)) ?? []);
    const extended = (writesOf.get(lifeKey(lease)) ?? []).filter(
      ({ what, answer }) => what === "extend" && answer === "ok",
    );
    let endsAt = lease.claimedAt + lease.leaseMs;
    for (const { now = 0, leaseMs = 0, call } of extended) {
      // An extension writes no time down, so the clock of the next writer of a bucket may be behind it.
      if (revoke !== undefined && isBefore(call, revoke.call)) continue;
      if (now > event.at)
        yield {
          invariant: 14,
          id,
          message: `${leaseKey(lease)} was extended at ${now} though it was ${event.kind} at ${event.at}`,
        };
      // In the very millisecond of the reclaim only the order of the calls tells which came first.
      else if (now < event.at || call.order === null)
        endsAt = Math.max(endsAt, call.order === null && now === event.at ? endsAt : now + leaseMs);
    }
    if (endsAt > event.at && revoke === undefined)
      yield {
        invariant: 13,
        id,
        message: `${leaseKey(lease)} was ${event.kind} at ${event.at}, but its lease ran until ${endsAt}`,
      };
    lease = undefined;
  }
}

/**
 * Nobody holds the job between a revoke and the next claim, so no newer fence is there to tell that this one is past.
 */
function* revokedLeaseIsRefused(
  lease: Lease,
  revoke: OperatorAct,
  writes: readonly FencedWrite[],
): Generator<Violation> {
  for (const { what, answer, call } of writes)
    if (answer === "ok" && revoke.rev !== null && isBefore(revoke.call, call))
      yield {
        invariant: 12,
        id: lease.id,
        message: `${leaseKey(lease)}: the ${what} was applied after the lease had been revoked`,
      };
}

function* nothingIsReclaimedWithoutFaults(ledger: Ledger): Generator<Violation> {
  if (!ledger.evidence.isFaultFree) return;
  for (const [id, events] of ledger.timelines)
    if (events.some(({ kind }) => kind === "reclaimed"))
      yield { invariant: 16, id, message: `${id} was reclaimed in a run without faults` };
}

/** A handler that ended without having been told to stop, although its own process took its job away while it ran. */
function* ownLeasesAreLeft(
  ledger: Ledger,
  leasesOf: ReadonlyMap<string, readonly Lease[]>,
): Generator<Violation> {
  for (const operation of ledger.evidence.operations) {
    if (operation.kind !== "changeIf" || operation.answer === null) continue;
    for (const [index, { id, cases }] of operation.request.entries()) {
      const answer = operation.answer[index];
      if (answer?.kind !== "ok" || cases[answer.applied]?.next.event !== "reclaimed") continue;
      const fence = cases[answer.applied]?.guard.fence;
      const lease = leasesOf.get(id)?.find((each) => each.fence === fence);
      if (lease === undefined || fence === undefined || lease.call.actor !== operation.actor) continue;
      const effects = ledger.effects.get(leaseKey({ id, fence })) ?? [];
      const began = effects.find(({ kind }) => kind === "began");
      const ended = effects.find(({ kind }) => kind === "ended");
      const ranThrough =
        began !== undefined &&
        began.atUs < operation.invokedUs &&
        ended !== undefined &&
        ended.atUs > (operation.answeredUs ?? Infinity);
      if (ranThrough && ended.wasAborted === false)
        yield {
          invariant: 17,
          id,
          message: `${operation.actor} reclaimed ${id}#${fence} from its own running handler`,
        };
    }
  }
}
