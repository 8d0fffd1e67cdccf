/**
 * Caps and rates: invariants 33 to 35. One sweep over the feed, which is the order of the store, adds what each claim
 * takes and gives back what each end of a lease frees. A cap is asked at each claim, by what was in force then: what
 * runs keeps its permit when a cap is lowered.
 *
 * What a claim takes is told by functions of one kind (`Takes`): of the gates of its route, and of the keys of its job.
 */
import { gatesToPass } from "../../../src/model/limits/gate.ts";
import type { GateUse } from "../../../src/model/limits/gate.ts";
import type { FeedEvent } from "../../../src/store/records.ts";
import { GateHistory, scopeOf } from "../gate-history.ts";
import type { Bounds } from "../gate-history.ts";
import { keepsGroup } from "../lane-of.ts";
import type { Lane } from "../lane-of.ts";
import { pushTo } from "../ledger.ts";
import type { Lease, Ledger, Violation } from "../ledger.ts";

/** A part of a cap, taken by one claim. */
interface Hold {
  /** Of the gate, and what its cap is counted for. */
  readonly key: string;
  readonly scope: string;
  readonly weight: number;
  /** The most that may be held once the claim is made; Infinity where nobody can tell. */
  readonly cap: number;
  /** Of a group: the lane whose jobs may hold it beyond the lease. */
  readonly ofGroup?: Lane;
}

type Takes = (event: FeedEvent, lease: Lease | undefined) => readonly Hold[];

export function* checkLimits(ledger: Ledger): Generator<Violation> {
  const gates = new GateHistory(ledger.evidence.operations);
  yield* capsHold(ledger, gates);
  yield* ratesHold(ledger, gates);
  yield* nothingIsHeldByNobody(ledger);
}

function* capsHold(ledger: Ledger, gates: GateHistory): Generator<Violation> {
  for (const { event, at, taken } of sweepHolds(ledger, gates))
    for (const { scope, held, cap } of taken)
      if (held > cap)
        yield {
          invariant: 33,
          id: event.id,
          message: `with ${event.id}, claimed at ${at}, ${held} of ${scope} were held, and its cap was ${cap}`,
        };
}

interface Step {
  readonly event: FeedEvent;
  readonly at: number;
  /** Of a claim: what it took, and what is held with it. */
  readonly taken: readonly (Hold & { readonly held: number })[];
}

/** Every event of the feed in its order, with what is held behind it. */
export function* sweepHolds(
  ledger: Ledger,
  gates = new GateHistory(ledger.evidence.operations),
): Generator<Step> {
  const takes: readonly Takes[] = [gatesTaken(ledger, gates), keysTaken(ledger, gates)];
  const held = new Map<string, number>();
  const holds = new Map<string, readonly Hold[]>();
  const kept = new Set<string>();
  const free = (id: string, event: Pick<FeedEvent, "kind" | "state"> | null): void => {
    const lasting = (holds.get(id) ?? []).filter(({ scope, weight, ofGroup }) => {
      if (event !== null && keepsGroup(ofGroup, event, kept.has(id))) return true;
      held.set(scope, (held.get(scope) ?? 0) - weight);
      return false;
    });
    holds.set(id, lasting);
    if (lasting.length > 0) kept.add(id);
    else kept.delete(id);
  };
  const take = (event: FeedEvent, at: number): Step["taken"] => {
    const lease = ledger.leaseOf(event.id, { rev: event.rev, at });
    const taken = takes.flatMap((each) => each(event, lease));
    holds.set(event.id, taken);
    return taken.map((hold) => {
      const now = (held.get(hold.scope) ?? 0) + hold.weight;
      held.set(hold.scope, now);
      return { ...hold, held: now };
    });
  };
  for (const { at, events } of ledger.evidence.snapshot.feed) {
    for (const event of events) {
      const isClaim = event.kind === "claimed";
      if (isClaim || event.state !== "running") free(event.id, isClaim ? null : event);
      yield { event, at, taken: isClaim ? take(event, at) : [] };
    }
  }
}

const gatesTaken =
  (ledger: Ledger, gates: GateHistory): Takes =>
  ({ route }, lease) => {
    const asks = ledger.routes.get(route);
    if (asks === undefined) return [];
    return gatesToPass(asks).map(({ key, weight }) => {
      const cap = highestCap(lease === undefined ? null : gates.inForce(key, lease.call));
      return { key, scope: scopeOf(key, lease?.call), weight, cap };
    });
  };

/**
 * The cap of a group comes with the job, and its gate may be held beyond the lease; any other is what the limit says.
 */
const keysTaken =
  (ledger: Ledger, gates: GateHistory): Takes =>
  ({ id }, lease) => {
    const lane = ledger.lanes.get(id);
    return (lane?.uses ?? []).map(({ key, weight, cap }) => {
      const scope = scopeOf(key, lease?.call);
      if (cap !== null) return { key, scope, weight, cap, ...(lane === undefined ? {} : { ofGroup: lane }) };
      return {
        key,
        scope,
        weight,
        cap: highestCap(lease === undefined ? null : gates.ofKey(key, lease.call)),
      };
    });
  };

const highestCap = (bounds: readonly Bounds[] | null): number =>
  bounds === null ? Infinity : Math.max(...bounds.map((each) => each.cap ?? Infinity));

interface Passed {
  readonly id: string;
  readonly at: number;
  readonly weight: number;
  /** Null where more than one rate may have been in force, or none was. */
  readonly rate: { readonly stepUs: number; readonly burstUs: number } | null;
}

/**
 * That no window holds more than its burst and its tokens is the same as that the token time, moved on by each permit
 * from no earlier than its claim, is never ahead by more than the burst. Windows over a change of the rate are not
 * judged.
 */
function* ratesHold(ledger: Ledger, gates: GateHistory): Generator<Violation> {
  for (const [scope, passes] of readPasses(ledger, gates)) {
    let tatUs = -Infinity;
    let last: Passed["rate"] = null;
    for (const { id, at, weight, rate } of passes.toSorted((one, other) => one.at - other.at)) {
      if (rate === null || rate.stepUs !== last?.stepUs || rate.burstUs !== last.burstUs) tatUs = -Infinity;
      last = rate;
      if (rate === null) continue;
      tatUs = Math.max(tatUs, at * 1000) + weight * rate.stepUs;
      if (tatUs > at * 1000 + rate.burstUs)
        yield {
          invariant: 35,
          id,
          message: `${id} passed ${scope} at ${at}, ${tatUs - at * 1000 - rate.burstUs} us before there was a token`,
        };
    }
  }
}

function readPasses(ledger: Ledger, gates: GateHistory): Map<string, Passed[]> {
  const passes = new Map<string, Passed[]>();
  for (const { at, events } of ledger.evidence.snapshot.feed) {
    for (const { kind, id, rev, route } of events) {
      const asks = kind === "claimed" ? ledger.routes.get(route) : undefined;
      const lease = ledger.leaseOf(id, { rev, at });
      if (asks === undefined || lease === undefined) continue;
      const pass = ({ key, weight }: GateUse, bounds: readonly Bounds[] | null): void => {
        const rate = bounds?.length === 1 ? (bounds[0]?.rate ?? null) : null;
        pushTo(passes, scopeOf(key, lease.call), { id, at, weight, rate });
      };
      for (const use of gatesToPass(asks)) pass(use, gates.inForce(use.key, lease.call));
      for (const use of ledger.lanes.get(id)?.uses ?? []) pass(use, gates.ofKey(use.key, lease.call));
    }
  }
  return passes;
}

function* nothingIsHeldByNobody(ledger: Ledger): Generator<Violation> {
  const { jobs, gates } = ledger.evidence.snapshot;
  if (jobs.some(({ state, keepsLane }) => state === "running" || keepsLane === 1)) return;
  for (const { key, held } of gates)
    if (held !== 0) yield { invariant: 34, message: `${held} of ${key} are held, but nothing runs` };
}
