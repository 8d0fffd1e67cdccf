/**
 * Claims over partitions. A claim asks the partitions that may have work, beginning with another one each time: first
 * one partition for all that is wanted, then, if that was not enough, a few at once for a share each. While hints come
 * in, a partition without work is asked no more than once in 30 s; it is asked at all because a hint may be lost.
 *
 * Jobs are ordered by rank inside a partition only. When the outcome of a call to a partition is not known, that
 * partition is left out and the others go on; the error is thrown to the owner as soon as the partition answers again,
 * so that the owner then looks there for jobs it does not know of.
 */
import type { ClaimAnswer, ClaimRequest } from "../operations.ts";
import type { LeasedJob } from "../records.ts";
import { earlier } from "./outlook.ts";
import { isAway } from "./partition.ts";
import type { Partition, PartitionedCalls } from "./partition.ts";

const askedAtOnceMax = 4;
/** A partition is not asked for a smaller share than this: the call would cost more than it brings. */
const shareMin = 16;

interface Wanted {
  readonly routes: readonly number[];
  left: number;
  readonly jobs: LeasedJob[];
}

export class Claims {
  readonly #calls: PartitionedCalls;
  /**
   * By owner, partitions in which the outcome of a claim is not known: `lost` with the error that is not thrown yet;
   * `told` once it was thrown, until the owner has looked for its jobs there.
   */
  readonly #lost = new Map<string, Map<Partition, unknown>>();
  readonly #told = new Map<string, Set<Partition>>();
  #first = 0;

  constructor(calls: PartitionedCalls) {
    this.#calls = calls;
  }

  async claim(request: ClaimRequest): Promise<ClaimAnswer> {
    const { owner } = request;
    await this.#tellLost(owner);
    const wanted = request.offers
      .filter((offer) => offer.routes.length > 0 && offer.max > 0)
      .map(({ routes: offered, max }): Wanted => ({ routes: offered, left: max, jobs: [] }));
    const { now, failures } = await this.#ask(request, wanted);
    const jobs = wanted.flatMap((offer) => offer.jobs);
    for (const [partition, error] of failures) {
      if (isAway(error)) continue;
      const lost = this.#lost.get(owner) ?? new Map<Partition, unknown>();
      this.#lost.set(owner, lost.set(partition, error));
    }
    if (jobs.length === 0) await this.#tellLost(owner, true);
    if (now === null) throw failures[0]?.[1] ?? [...(this.#lost.get(owner)?.values() ?? [])][0];
    return {
      jobs,
      more: wanted.some(({ left }) => left === 0),
      nextDueInMs: this.nextInMs(),
      now,
    };
  }

  /** The partitions in which an owner is to look for jobs of lost claims; null when no claim is known to be lost. */
  whereLost(owner: string): ReadonlySet<Partition> | null {
    return this.#told.get(owner) ?? null;
  }

  found(owner: string): void {
    this.#told.delete(owner);
  }

  /**
   * Throws the error of a lost claim once its partition answers again. `isAtOnce`: also asks partitions that count as
   * away.
   */
  async #tellLost(owner: string, isAtOnce = false): Promise<void> {
    for (const [partition, error] of this.#lost.get(owner) ?? []) {
      const { outlook } = partition;
      if (!isAtOnce && outlook.isAway(this.#calls.nowMs())) continue;
      try {
        await partition.store.describe();
      } catch {
        outlook.failed(this.#calls.nowMs());
        continue;
      }
      this.#lost.get(owner)?.delete(partition);
      this.#told.set(owner, (this.#told.get(owner) ?? new Set()).add(partition));
      throw error;
    }
  }

  /** How long until the next clock of any partition rings, as far as it is known; null for none. */
  nextInMs(): number | null {
    const nowMs = this.#calls.nowMs();
    let next: number | null = null;
    for (const { outlook } of this.#calls.partitions) next = earlier(next, outlook.nextInMs(nowMs));
    return next;
  }

  /** Asks partitions until all that is wanted was found or none is left. `now` is null when no partition answered. */
  async #ask(
    request: ClaimRequest,
    wanted: readonly Wanted[],
  ): Promise<{ now: number | null; failures: [Partition, unknown][] }> {
    const { partitions } = this.#calls;
    const first = this.#first++ % partitions.length;
    const rotated = [...partitions.slice(first), ...partitions.slice(0, first)];
    const failures: [Partition, unknown][] = [];
    const lost = this.#lost.get(request.owner);
    const asked = new Set<Partition>();
    let now: number | null = null;
    let width = 1;
    for (;;) {
      const next = rotated.filter(
        (partition) => lost?.has(partition) !== true && this.#isWorthAsking(partition, wanted, asked),
      );
      const few =
        next.length > 0 || asked.size > 0 ? next.slice(0, width) : this.#anyOf(rotated, request.owner);
      if (few.length === 0) return { now, failures };
      const answers = await Promise.allSettled(
        few.map((partition, index) => this.#askOne(request, wanted, partition, [index, few.length])),
      );
      for (const [index, answer] of answers.entries()) {
        asked.add(few[index] as Partition);
        if (answer.status === "fulfilled") now = Math.max(now ?? 0, answer.value);
        else {
          (few[index] as Partition).outlook.failed(this.#calls.nowMs());
          failures.push([few[index] as Partition, answer.reason]);
        }
      }
      const left = Math.max(0, ...wanted.map((offer) => offer.left));
      width = Math.max(1, Math.min(askedAtOnceMax, Math.floor(left / shareMin)));
    }
  }

  /** The one partition to ask when none is known to have work: a claim always asks somebody. */
  #anyOf(rotated: readonly Partition[], owner: string): readonly Partition[] {
    const lost = this.#lost.get(owner);
    const nowMs = this.#calls.nowMs();
    const free = rotated.filter((partition) => lost?.has(partition) !== true);
    return [...free.filter(({ outlook }) => !outlook.isAway(nowMs)), ...free].slice(0, 1);
  }

  #isWorthAsking(partition: Partition, wanted: readonly Wanted[], asked: ReadonlySet<Partition>): boolean {
    const { outlook } = partition;
    const atMs = this.#calls.nowMs();
    if (outlook.isAway(atMs)) return false;
    const isTrusted = this.#calls.isWatched() || asked.has(partition);
    if (!outlook.isRecent(atMs) || (wanted.length === 0 && !isTrusted)) return true;
    return wanted.some((offer) => offer.left > 0 && (!isTrusted || outlook.mayHave(offer.routes)));
  }

  /**
   * Asks one partition for its share, the `share`-th of `of` parts of what is still wanted. Answers the partition's
   * time.
   */
  async #askOne(
    request: ClaimRequest,
    wanted: readonly Wanted[],
    partition: Partition,
    [share, of]: readonly [number, number],
  ): Promise<number> {
    const { nowMs } = this.#calls;
    const { store, outlook } = partition;
    const asks = wanted
      .map((offer) => ({
        offer,
        max: Math.floor(offer.left / of) + (share < offer.left % of ? 1 : 0),
      }))
      .filter((ask) => ask.max > 0);
    const news = outlook.news;
    const sentMs = nowMs();
    const answer = await store.claim({
      owner: request.owner,
      leaseMs: request.leaseMs,
      offers: asks.map(({ max, offer }) => ({ routes: offer.routes, max })),
    });
    outlook.sawClock(answer.nextDueInMs, sentMs, news);
    const { jobs } = answer;
    outlook.asked(sentMs);
    for (const { offer, max } of asks) {
      const got = asks.length === 1 ? jobs : jobs.filter(({ route }) => offer.routes.includes(route));
      offer.jobs.push(...got);
      offer.left -= got.length;
      outlook.found(offer.routes, got.length < max, news);
    }
    return answer.now;
  }
}
