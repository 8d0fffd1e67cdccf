/**
 * Caps and rates: invariants 33 to 35. One sweep over the feed, which is the order of the store, adds what each claim
 * takes and gives back what each end of a lease frees. A cap is asked at each claim, by what was in force then: what
 * runs keeps its permit when a cap is lowered.
 *
 * What a claim takes is told by functions of one kind (`Takes`): of the gates of its route, and of the key of its job.
 */
import type { EventKind } from "../../src/model/event-kind.ts";
import { gatesToPass } from "../../src/model/gate.ts";
import { isTerminal } from "../../src/model/job-state.ts";
import { gateOfLimit, readKeyUse } from "../../src/model/lane.ts";
import type { FeedEvent } from "../../src/store/records.ts";
import { GateBook, scopeOf } from "./gate-book.ts";
import { heldRetries, laneOf } from "./lane-of.ts";
import type { Lease, Ledger, Violation } from "./ledger.ts";

/** A part of a cap, taken by one claim. */
interface Hold {
  /** What the cap is counted for. */
  readonly scope: string;
  readonly weight: number;
  /** The most that may be held once the claim is made; Infinity where nobody can tell. */
  readonly cap: number;
  /** Events that end the lease but not the hold: it then lasts until the job is ready again or ends. */
  readonly outlasts?: ReadonlySet<EventKind>;
}

type Takes = (event: FeedEvent, lease: Lease | undefined) => readonly Hold[];

export function* checkLimits(ledger: Ledger): Generator<Violation> {
  const book = new GateBook(ledger.evidence.operations);
  yield* capsHold(ledger, book);
  yield* ratesHold(ledger, book);
  yield* nothingIsHeldByNobody(ledger);
}

function* capsHold(ledger: Ledger, book: GateBook): Generator<Violation> {
  for (const { event, at, taken } of sweepHolds(ledger, book))
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
  book = new GateBook(ledger.evidence.operations),
): Generator<Step> {
  const takes: readonly Takes[] = [gatesTaken(ledger, book), lanesTaken(ledger), keysTaken(ledger, book)];
  const held = new Map<string, number>();
  const holds = new Map<string, readonly Hold[]>();
  const kept = new Set<string>();
  const free = (id: string, event: Pick<FeedEvent, "kind" | "state"> | null): void => {
    const isOver = event === null || event.state === null || isTerminal(event.state);
    const wasKept = ({ kind }: Pick<FeedEvent, "kind">): boolean => kept.has(id) && kind === "edited";
    const lasting = (holds.get(id) ?? []).filter(({ scope, weight, outlasts }) => {
      const isKept = !isOver && event.state === "scheduled" && (outlasts?.has(event.kind) || wasKept(event));
      if (outlasts !== undefined && isKept) return true;
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
  (ledger: Ledger, book: GateBook): Takes =>
  ({ route }, lease) => {
    const asks = ledger.routes.get(route);
    if (asks === undefined) return [];
    return gatesToPass(asks).map(({ key, weight }) => {
      const bounds = lease === undefined ? null : book.inForce(key, lease.call);
      const cap = bounds === null ? Infinity : Math.max(...bounds.map((each) => each.cap ?? Infinity));
      return { scope: scopeOf(key, lease?.call), weight, cap };
    });
  };

const keyWord = "the key ";
export const isOfKey = (scope: string): boolean => scope.startsWith(keyWord);

const lanesTaken =
  (ledger: Ledger): Takes =>
  ({ id }) => {
    const lane = laneOf(ledger, id);
    if (lane === null) return [];
    const { key, cap, isFifo } = lane;
    return [{ scope: `${keyWord}${key}`, weight: 1, cap, ...(isFifo ? { outlasts: heldRetries } : {}) }];
  };

/** Keys of limits: what nobody has put for the key itself is as the limit says of each. */
const keysTaken =
  (ledger: Ledger, book: GateBook): Takes =>
  ({ id }, lease) => {
    const specs = ledger.specs.get(id) ?? [];
    const [spec] = specs;
    const isOne = specs.every(({ laneGates }) => String(laneGates) === String(spec?.laneGates));
    if (lease === undefined || !isOne || ledger.reborn.has(id) || isReplaced(ledger, id)) return [];
    return (spec?.laneGates ?? [])
      .map(readKeyUse)
      .filter(({ cap }) => cap === null)
      .map(({ key, weight }) => {
        const own = book.inForce(key, lease.call);
        const each = book.inForce(gateOfLimit(key), lease.call);
        const caps = own
          ?.map(({ cap }) => cap)
          .concat(each?.map(({ perKey }) => perKey?.cap ?? null) ?? [null]);
        const known = caps?.filter((cap) => cap !== null) ?? [];
        const cap = own === null || each === null || known.length === 0 ? Infinity : Math.max(...known);
        return { scope: `${keyWord}${scopeOf(key, lease.call)}`, weight, cap };
      });
  };

const isReplaced = ({ timelines }: Ledger, id: string): boolean =>
  timelines.get(id)?.some(({ kind }) => kind === "replaced") === true;

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
function* ratesHold(ledger: Ledger, book: GateBook): Generator<Violation> {
  for (const [scope, passes] of readPasses(ledger, book)) {
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

function readPasses(ledger: Ledger, book: GateBook): Map<string, Passed[]> {
  const passes = new Map<string, Passed[]>();
  for (const { at, events } of ledger.evidence.snapshot.feed) {
    for (const { kind, id, rev, route } of events) {
      const asks = kind === "claimed" ? ledger.routes.get(route) : undefined;
      const lease = ledger.leaseOf(id, { rev, at });
      if (asks === undefined || lease === undefined) continue;
      for (const { key, weight } of gatesToPass(asks)) {
        const scope = scopeOf(key, lease.call);
        const bounds = book.inForce(key, lease.call);
        const rate = bounds?.length === 1 ? (bounds[0]?.rate ?? null) : null;
        const list = passes.get(scope) ?? [];
        passes.set(scope, list);
        list.push({ id, at, weight, rate });
      }
    }
  }
  return passes;
}

function* nothingIsHeldByNobody(ledger: Ledger): Generator<Violation> {
  const { jobs, gates } = ledger.evidence.snapshot;
  if (jobs.some(({ state }) => state === "running")) return;
  for (const { key, held } of gates)
    if (held !== 0) yield { invariant: 34, message: `${held} of ${key} are held, but nothing runs` };
}
