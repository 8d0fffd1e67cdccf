/**
 * Promotion over partitions: all partitions with a due clock are asked at once, so that none waits for another. The
 * maximum of a call applies to each. An unresponsive one is not waited for; what it promoted counts with the next call.
 */
import type { PromoteAnswer } from "../operations.ts";
import { earlier } from "../rules/timer.ts";
import { orLater, presentOnes, reach, throwFirst } from "./partition.ts";
import type { Partition, PartitionedCalls, Reached } from "./partition.ts";

/** The longest sleep while a partition is away, because its clocks are not known. */
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
  /** What unresponsive partitions promoted after all. */
  #lateIn: Record<number, number> = {};

  constructor(calls: PartitionedCalls) {
    this.#calls = calls;
  }

  /** Records the length of the leases of this process. Those of other processes are assumed to be no shorter. */
  noteLease(lengthMs: number): void {
    this.#shortestLeaseMs = Math.min(this.#shortestLeaseMs, lengthMs);
  }

  async promote(max: number, nextInMs: () => number | null): Promise<PromoteAnswer> {
    const { partitions, nowMs } = this.#calls;
    const asked = this.#worthAsking();
    const reached = await Promise.all(asked.map((partition) => this.#askOne(partition, max)));
    const present = partitions.filter(({ health }) => health.mayAsk("promoteDue"));
    // While other partitions can be asked, do not wait for these: clocks of the others become due meanwhile.
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
      // A clock became due while others were asked: only another look shows whether it is that of a due job.
      more: more || present.some(({ cache }) => cache.hasRungUnseen(nowMs())),
      nextDueInMs: present.length === partitions.length ? next : Math.min(next ?? lookAgainMs, lookAgainMs),
      ...(hidden === null ? {} : { hiddenInMs: hidden }),
    };
  }

  /**
   * Partitions with a due clock, and those that were not asked for long. The one that was not asked for longest is
   * always asked, because a hint may be lost. If all are away the first is asked, so that the caller gets the error.
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

/** The first clock that is not due, so that a clock that no duty can serve hides no clock of another partition. */
function earliestBehind(partitions: readonly Partition[], atMs: number): number | null {
  let first: number | null = null;
  for (const { cache } of partitions) {
    const inMs = cache.nextInMs(atMs);
    if (inMs !== null && inMs > 0) first = earlier(first, inMs);
  }
  return first;
}
