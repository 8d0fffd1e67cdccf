/**
 * Which jobs were ready at each record of the feed, and with which rank. Jobs whose rank cannot be told from outside
 * (edited, replaced, submitted again, a run that was resumed: it keeps its old place or gets a new one) or that a clock
 * may hide (deadline, time-to-live) are left out.
 */
import type { EventKind } from "../../src/model/events/event-kind.ts";
import type { NewJob } from "../../src/store/records.ts";
import { holdsFailed, keepsRank } from "./lane-of.ts";
import type { Ledger } from "./ledger.ts";

export interface Waiting {
  readonly rank: number;
  readonly seq: number;
  readonly route: number;
  /** Store time at which it became ready. */
  readonly since: number;
  /** Of a store with several partitions, the one in which some worker has claimed it. */
  readonly partition: number | undefined;
}

export type Claimed = Waiting & { readonly id: string };

interface Moment {
  /** Of the feed record. */
  readonly number: number;
  readonly at: number;
  /** What the record tells to be claimed, and what is still ready behind it. */
  readonly claimed: readonly Claimed[];
  readonly ready: ReadonlyMap<string, Waiting>;
}

export const isBetter = (one: Waiting, other: Waiting): boolean =>
  one.rank < other.rank || (one.rank === other.rank && one.seq < other.seq);

/** Events behind which a ready job is due when it was before. A revoke, too, gives the job back to its old place. */
const keepsPlace: ReadonlySet<EventKind> = new Set([
  "promoted",
  "handed-back",
  "revoked",
  "throttled",
  "edited",
  "cancel-asked",
]);

export function* walkReady(ledger: Ledger): Generator<Moment> {
  const seqs = new Map<string, number>();
  const partitions = new Map<string, number | undefined>();
  for (const { id, seq, call } of ledger.leases) {
    seqs.set(id, seq);
    partitions.set(id, call.partition);
  }
  for (const { id, seq } of ledger.records.values()) seqs.set(id, seq);
  const ready = new Map<string, Waiting>();
  const dueAt = new Map<string, number>();
  const isOpaque = new Set(ledger.reborn);
  /** Jobs that hold their groups since they have failed: a replay finds them where they stood. */
  const holding = new Set<string>();
  for (const { number, at, events } of ledger.evidence.snapshot.feed) {
    const claimed: Claimed[] = [];
    for (const { id, kind, state, route, extra } of events) {
      // The job is where it was.
      if (kind === "signalled") continue;
      if (kind === "edited" || kind === "replaced" || kind === "resumed") isOpaque.add(id);
      if (kind === "claimed") {
        const waiting = ready.get(id);
        if (waiting !== undefined) claimed.push({ ...waiting, id });
      }
      const isKept = (keepsPlace.has(kind) && state === "ready") || (kind === "replayed" && holding.has(id));
      // One that nobody had a handler for never ran, and holds nothing.
      if (holdsFailed(ledger.lanes.get(id), { kind }) && extra !== "no-handler") holding.add(id);
      else holding.delete(id);
      if (!isKept && !keepsRank(ledger.lanes.get(id), { kind })) {
        if (state === "scheduled") dueAt.set(id, Number(extra));
        else if (state === "ready") dueAt.set(id, at);
      }
      if (state !== "ready") {
        ready.delete(id);
        continue;
      }
      const spec = onlySpec(ledger, id);
      const seq = seqs.get(id);
      if (spec === null || seq === undefined || isOpaque.has(id)) ready.delete(id);
      else {
        const rank = spec.rankBase + spec.rankSlope * (dueAt.get(id) ?? at);
        ready.set(id, { rank, seq, route, since: at, partition: partitions.get(id) });
      }
    }
    yield { number, at, claimed, ready };
  }
}

function onlySpec(ledger: Ledger, id: string): NewJob | null {
  const specs = ledger.specs.get(id) ?? [];
  const [first] = specs;
  const isOne =
    first !== undefined &&
    specs.every((spec) => spec.rankBase === first.rankBase) &&
    // Which lane it is in decides whether it keeps its rank.
    specs.every((spec) => typeof spec.laneKey !== "string" || ledger.lanes.has(id));
  // An instant that the caller named may lie in the past, and then it is the due time; nobody outside can tell.
  return isOne && first.deadline === null && first.ttlMs === null && "inMs" in first.due ? first : null;
}
