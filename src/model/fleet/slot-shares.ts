/**
 * Shares of totals: how many slots of a queue each live worker has, so that all workers together have the total. Every
 * worker computes all shares from the same list of live workers, so no coordination is needed.
 *
 *   1. each worker that declared the queue gets floor(total / workers)
 *   2. the remainders of all queues are given out together, one slot each: to the worker with the fewest slots, and
 *      among equals by a hash of queue and worker, which is the same in every process and changes little when
 *      workers come and go
 *   3. a process above its bound gives slots back, first of the queue of which one of its workers has most for its
 *      weight, and the last slot of a queue only if nothing else is left; these slots go to workers that have room
 *
 * Always true: no queue has more than its total, and no process or worker more than its bound. The bound of a process
 * is the greatest of its workers. A queue has its whole total if every worker declared the same queues and the bounds
 * have room for the sum of all totals.
 */
import { hashPair } from "../text-hash.ts";

/** What the shares need to know of a live worker. */
export interface ShareMember {
  readonly id: string;
  /** The process of the worker; workers of one process share its bound. */
  readonly process: string;
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
  readonly process: ProcessShare;
  load: number;
}

interface ProcessShare {
  readonly shares: Share[];
  slotsMax: number;
  load: number;
}

export function shareSlots(totals: ReadonlyMap<string, number>, members: readonly ShareMember[]): SlotShares {
  const processes = new Map<string, ProcessShare>();
  const shares = members.map((member): Share => {
    const process = processes.get(member.process) ?? { shares: [], slotsMax: 0, load: 0 };
    processes.set(member.process, process);
    const share: Share = { member, slots: new Map(), process, load: 0 };
    process.slotsMax = Math.max(process.slotsMax, member.slotsMax);
    process.shares.push(share);
    return share;
  });
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
  for (const share of shares) giveBack([share], () => share.load > share.member.slotsMax, returned);
  for (const process of processes.values()) {
    const own = process.shares.toSorted((one, other) => (one.member.id < other.member.id ? -1 : 1));
    giveBack(own, () => process.load > process.slotsMax, returned);
  }
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
  share.process.load += slots;
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

function giveBack(shares: readonly Share[], isTooMuch: () => boolean, returned: Map<string, number>): void {
  while (isTooMuch()) {
    const most = shares
      .flatMap((share) => [...share.slots].map(([queue, count]) => ({ share, queue, count })))
      .filter(({ count }) => count > 0)
      .map(({ share, queue, count }) => ({
        ...{ share, queue },
        excess: count > 1 ? count / (share.member.weights[queue] ?? 1) : 0,
      }))
      .reduce((one, other) => (other.excess > one.excess ? other : one));
    give(most.share, most.queue, -1);
    returned.set(most.queue, (returned.get(most.queue) ?? 0) + 1);
  }
}

/** One slot each in turn, as long as a worker and its process have room. */
function handOn(queue: string, among: readonly Share[], slots: number): void {
  const hasRoom = ({ load, member, process }: Share): boolean =>
    load < member.slotsMax && process.load < process.slotsMax;
  for (let left = slots; left > 0;) {
    const takers = leastLoaded(among, queue).filter(hasRoom);
    if (takers.length === 0) return;
    for (const share of takers) {
      if (left === 0) return;
      // One before it may have taken the last room of its process.
      if (!hasRoom(share)) continue;
      give(share, queue, 1);
      left -= 1;
    }
  }
}
