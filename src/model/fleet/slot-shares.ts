/**
 * Shares of totals: how many slots of a queue each live worker has, so that all workers together have the total. Every
 * worker computes all shares from the same list of live workers, so no coordination is needed.
 *
 *   1. each worker that declared the queue gets floor(total / workers)
 *   2. the remainders of all queues are given out together, one slot each: to the worker with the fewest slots, and
 *      among equals by a hash of queue and worker, which is the same in every process and changes little when
 *      workers come and go
 *   3. a worker above its bound gives slots back, first of the queue of which it has most for its weight, and the
 *      last slot of a queue only if nothing else is left; these slots go to workers that have room
 *
 * Always true: no queue has more than its total, and no worker more than its bound. A queue has its whole total if
 * every worker declared the same queues and their bounds have room for the sum of all totals.
 */
import { hashPair } from "../text-hash.ts";

/** What the shares need to know of a live worker. */
export interface ShareMember {
  readonly id: string;
  /**
   * The queues with a total that it serves, each with its weight against the others if the worker's bound is too small.
   */
  readonly weights: Readonly<Record<string, number>>;
  /** The maximum of its slots for all of them together. */
  readonly slotsMax: number;
}

/** Slots by queue, by the id of the worker. */
export type SlotShares = ReadonlyMap<string, ReadonlyMap<string, number>>;

interface Share {
  readonly member: ShareMember;
  readonly slots: Map<string, number>;
  load: number;
}

export function shareSlots(totals: ReadonlyMap<string, number>, members: readonly ShareMember[]): SlotShares {
  const shares = members.map((member): Share => ({ member, slots: new Map(), load: 0 }));
  const queues = [...totals.keys()]
    .toSorted()
    .map((queue) => ({ queue, among: shares.filter(({ member }) => Object.hasOwn(member.weights, queue)) }))
    .filter(({ among }) => among.length > 0);
  for (const { queue, among } of queues)
    for (const share of among) give(share, queue, Math.floor((totals.get(queue) ?? 0) / among.length));
  for (const { queue, among } of queues) {
    const rest = (totals.get(queue) ?? 0) % among.length;
    for (const share of leastLoaded(among, queue).slice(0, rest)) give(share, queue, 1);
  }
  const returned = new Map(queues.map(({ queue }) => [queue, 0]));
  for (const share of shares) giveBack(share, returned);
  for (const { queue, among } of queues) handOn(queue, among, returned.get(queue) ?? 0);
  return new Map(shares.map(({ member, slots }) => [member.id, slots]));
}

/** The share before the other workers are known: the part of the total, rounded up. */
export function firstShare(total: number, workers: number, slotsMax: number): number {
  return Math.min(slotsMax, Math.ceil(total / Math.max(1, workers)));
}

function give(share: Share, queue: string, slots: number): void {
  share.slots.set(queue, (share.slots.get(queue) ?? 0) + slots);
  share.load += slots;
}

function leastLoaded(among: readonly Share[], queue: string): readonly Share[] {
  const luck = new Map(among.map((share) => [share, hashPair(JSON.stringify([queue, share.member.id]))]));
  return among.toSorted((one, other) => {
    const [left, right] = [luck.get(one), luck.get(other)];
    return (
      one.load - other.load || (left?.low ?? 0) - (right?.low ?? 0) || (left?.high ?? 0) - (right?.high ?? 0)
    );
  });
}

function giveBack(share: Share, returned: Map<string, number>): void {
  const { member, slots } = share;
  while (share.load > member.slotsMax) {
    const most = [...slots]
      .filter(([, count]) => count > 0)
      .map(([queue, count]) => ({ queue, excess: count > 1 ? count / (member.weights[queue] ?? 1) : 0 }))
      .reduce((one, other) => (other.excess > one.excess ? other : one));
    give(share, most.queue, -1);
    returned.set(most.queue, (returned.get(most.queue) ?? 0) + 1);
  }
}

/** One slot each in turn, as long as a worker has room. */
function handOn(queue: string, among: readonly Share[], slots: number): void {
  for (let left = slots; left > 0;) {
    const takers = leastLoaded(among, queue).filter(({ load, member }) => load < member.slotsMax);
    if (takers.length === 0) return;
    for (const share of takers.slice(0, left)) give(share, queue, 1);
    left -= Math.min(left, takers.length);
  }
}
