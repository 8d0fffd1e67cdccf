/**
 * Claims over partitions. Those that may have work are asked, beginning with another one each time: first one for all that is wanted, then, if that was
 * not enough, a few at once for a share each. While hints come in, nobody is asked in vain more often than every 30 s, because a hint may be lost.
 *
 * The order of ranks holds inside a partition. A claim whose outcome is not known is told as soon as its partition answers again: whoever is told
 * looks for what else is his. Until then that partition is left out and the others go on.
 */
import type { ClaimAnswer, ClaimRequest } from "../operations.ts";
import type { LeasedJob } from "../records.ts";
import { earlier } from "./outlook.ts";
import { isAway } from "./partition.ts";
import type { Partition, PartitionedCalls } from "./partition.ts";

const askedAtOnceMax = 4;
/** A call for less costs more than it brings. */
const shareMin = 16;

interface Wanted {
  readonly routes: readonly number[];
  left: number;
  readonly jobs: LeasedJob[];
}

export class Claims {
  readonly #calls: PartitionedCalls;
  /** By owner: claims whose outcome is not known, not told yet; and those told, until their jobs were looked for. */
  readonly #lost = new Map<string, Map<Partition, unknown>>();
  readonly #told = new Map<string, Set<Partition>>();
  #turn = 0;

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

  /** Where an owner's lost claims are to be looked for; null when nobody knows of one. */
  whereLost(owner: string): ReadonlySet<Partition> | null {
    return this.#told.get(owner) ?? null;
  }

  found(owner: string): void {
    this.#told.delete(owner);
  }

  /** Throws what became of a claim, once its partition can be asked about it. */
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

  /** Until the next clock of any partition rings, as far as it is known. */
  nextInMs(): number | null {
    const nowMs = this.#calls.nowMs();
    let next: number | null = null;
    for (const { outlook } of this.#calls.partitions) next = earlier(next, outlook.nextInMs(nowMs));
    return next;
  }

  /** `now` is null when nobody answered. */
  async #ask(
    request: ClaimRequest,
    wanted: readonly Wanted[],
  ): Promise<{ now: number | null; failures: [Partition, unknown][] }> {
    const { partitions } = this.#calls;
    const turn = this.#turn++ % partitions.length;
    const rotated = [...partitions.slice(turn), ...partitions.slice(0, turn)];
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

  /** Nobody is known to have work: one is asked all the same. */
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

  /** Answers the partition's time. The share is one of `of` parts of what is still wanted. */
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
