/**
 * Promotion over partitions: all in which a clock has rung are asked at once, so that none waits for another; how many
 * jobs a call may promote counts in each. One that is silent is not waited for; what it promoted counts with the next
 * call.
 */
import type { PromoteAnswer } from "../operations.ts";
import { earlier } from "../rules/timer.ts";
import { orLater, presentOnes, reach, throwFirst } from "./partition.ts";
import type { Partition, PartitionedCalls, Reached } from "./partition.ts";

/** The longest sleep while a partition is away: one of its clocks may ring, and nobody knows when. */
const lookAgainMs = 1000;
/**
 * How soon a partition is looked at again, as a share of the shortest lease. A claim sends no hint, so other processes
 * learn when a lease ends only by looking. A lease that began after the last look ends one lease length later at the
 * earliest; a look before that learns its end in time, and a worker that died is noticed at once.
 */
const lookShare = 0.8;
const leaseMaxMs = 15_000;

export class Promotion {
  readonly #calls: PartitionedCalls;
  #shortestLeaseMs = leaseMaxMs;
  /** What silent partitions promoted after all. */
  #lateIn: Record<number, number> = {};

  constructor(calls: PartitionedCalls) {
    this.#calls = calls;
  }

  /** Notes how long the leases of this process are. Those of other processes are assumed to be no shorter. */
  noteLease(lengthMs: number): void {
    this.#shortestLeaseMs = Math.min(this.#shortestLeaseMs, lengthMs);
  }

  async promote(max: number, nextInMs: () => number | null): Promise<PromoteAnswer> {
    const { partitions, nowMs } = this.#calls;
    const asked = this.#worthAsking();
    const reached = await Promise.all(asked.map((partition) => this.#askOne(partition, max)));
    const present = partitions.filter(({ health }) => health.mayAsk("promoteDue"));
    // While others can be asked nobody waits for those that were: their clocks ring meanwhile.
    const ends = present.length > 0 ? reached : await orLater(reached);
    const countIn = this.#lateIn;
    this.#lateIn = {};
    let more = false;
    for (const [at, each] of ends.entries()) {
      const { number } = asked[at] as Partition;
      if (each.kind === "answered") {
        addTo(countIn, number, each.answer.count);
        more ||= each.answer.more;
      } else if (each.kind === "silent")
        void each.later.then((end) => {
          if (end.kind === "answered") addTo(this.#lateIn, number, end.answer.count);
        });
    }
    const count = Object.values(countIn).reduce((sum, own) => sum + own, 0);
    if (present.length === 0 && !ends.some(({ kind }) => kind === "answered")) throwFirst(ends);
    const next = nextInMs();
    const hidden = earliestBehind(present, nowMs());
    return {
      count,
      countIn,
      // A clock that rang while others were asked: only a look tells whether it is a due job's.
      more: more || present.some(({ cache }) => cache.hasRungUnseen(nowMs())),
      nextDueInMs: present.length === partitions.length ? next : Math.min(next ?? lookAgainMs, lookAgainMs),
      ...(hidden === null ? {} : { hiddenInMs: hidden }),
    };
  }

  /**
   * Partitions in which a clock has rung or which were not looked at for long. The one that was not looked at for
   * longest is always asked, because a hint may be lost. Where all are away the first is asked: the caller is told why.
   */
  #worthAsking(): readonly Partition[] {
    const { partitions, nowMs } = this.#calls;
    const atMs = nowMs();
    const byAge = presentOnes(partitions)
      .filter(({ health }) => health.mayAsk("promoteDue"))
      .toSorted((one, other) => one.cache.clockSeenMs - other.cache.clockSeenMs);
    if (byAge.length === 0) return partitions.slice(0, 1);
    return byAge.filter(({ cache }, index) => {
      const isOld = atMs - cache.clockSeenMs >= this.#shortestLeaseMs * lookShare;
      return index === 0 || !this.#calls.isWatched() || isOld || cache.mayHaveRung(atMs);
    });
  }

  #askOne(partition: Partition, max: number): Promise<Reached<PromoteAnswer>> {
    const { cache } = partition;
    const heard = cache.heard;
    const sentMs = this.#calls.nowMs();
    return reach(partition, {
      name: "promoteDue",
      async call(store) {
        const answer = await store.promoteDue({ max });
        cache.sawClock(answer.nextDueInMs, sentMs, heard, true);
        return answer;
      },
      timeout: this.#calls.timeout.short,
    });
  }
}

function addTo(counts: Record<number, number>, number: number, count: number): void {
  if (count > 0) counts[number] = (counts[number] ?? 0) + count;
}

/** The first clock that has not rung, so that one partition's that nobody can answer hides no other partition's. */
function earliestBehind(partitions: readonly Partition[], atMs: number): number | null {
  let first: number | null = null;
  for (const { cache } of partitions) {
    const inMs = cache.nextInMs(atMs);
    if (inMs !== null && inMs > 0) first = earlier(first, inMs);
  }
  return first;
}
