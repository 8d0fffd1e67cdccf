/**
 * Claims over partitions. Those that may have work are asked, beginning with another one each time: first one for all that is wanted, then, if that was
 * not enough, a few at once for a share each. While hints come in, nobody is asked in vain more often than every 30 s, because a hint may be lost.
 *
 * The order of ranks holds inside a partition. A claim whose outcome is not known is told in the owner's next claim if this one has jobs to hand out:
 * whoever is told looks for what else is his.
 */
import type { ClaimAnswer, ClaimRequest } from "../operations.ts";
import type { LeasedJob } from "../records.ts";
import { earlier } from "./outlook.ts";
import { isAway, withRoutes } from "./partition.ts";
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
  readonly #lost = new Map<string, unknown>();
  #turn = 0;

  constructor(calls: PartitionedCalls) {
    this.#calls = calls;
  }

  async claim(request: ClaimRequest): Promise<ClaimAnswer> {
    const lost = this.#lost.get(request.owner);
    if (this.#lost.delete(request.owner)) throw lost;
    const { routes } = this.#calls;
    const wanted = request.offers
      .filter((offer) => offer.routes.length > 0 && offer.max > 0)
      .map(({ routes: offered, max }): Wanted => ({ routes: offered, left: max, jobs: [] }));
    const { now, failures } = await this.#ask(request, wanted);
    const jobs = wanted.flatMap((offer) => offer.jobs);
    const unknown = failures.find((error) => !isAway(error));
    if (unknown !== undefined && jobs.length === 0) throw unknown;
    if (unknown !== undefined) this.#lost.set(request.owner, unknown);
    if (now === null) throw failures[0];
    return {
      jobs,
      routes: routes.after(request.routesKnown),
      more: wanted.some(({ left }) => left === 0),
      nextDueInMs: this.nextInMs(),
      now,
    };
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
  ): Promise<{ now: number | null; failures: unknown[] }> {
    const { partitions } = this.#calls;
    const turn = this.#turn++ % partitions.length;
    const rotated = [...partitions.slice(turn), ...partitions.slice(0, turn)];
    const failures: unknown[] = [];
    const asked = new Set<Partition>();
    let now: number | null = null;
    let width = 1;
    for (;;) {
      const next = rotated.filter((partition) => this.#isWorthAsking(partition, wanted, asked));
      // Nobody is known to have work: one is asked all the same.
      const few = next.length > 0 || asked.size > 0 ? next.slice(0, width) : rotated.slice(0, 1);
      if (few.length === 0) return { now, failures };
      const answers = await Promise.allSettled(
        few.map((partition, index) => this.#askOne(request, wanted, partition, [index, few.length])),
      );
      for (const [index, answer] of answers.entries()) {
        asked.add(few[index] as Partition);
        if (answer.status === "fulfilled") now = Math.max(now ?? 0, answer.value);
        else {
          (few[index] as Partition).outlook.failed(this.#calls.nowMs());
          failures.push(answer.reason);
        }
      }
      if (failures.some((error) => !isAway(error))) return { now, failures };
      const left = Math.max(0, ...wanted.map((offer) => offer.left));
      width = Math.max(1, Math.min(askedAtOnceMax, Math.floor(left / shareMin)));
    }
  }

  #isWorthAsking(partition: Partition, wanted: readonly Wanted[], asked: ReadonlySet<Partition>): boolean {
    const { outlook, number } = partition;
    const { routes, nowMs } = this.#calls;
    const atMs = nowMs();
    if (outlook.isAway(atMs)) return false;
    const isTrusted = this.#calls.isWatched() || asked.has(partition);
    if (!outlook.isRecent(atMs) || (wanted.length === 0 && !isTrusted)) return true;
    const has = (route: number): boolean => routes.has(number, route);
    return wanted.some(
      (offer) => offer.left > 0 && (!isTrusted || outlook.mayHave(offer.routes.filter(has))),
    );
  }

  /** Answers the partition's time. The share is one of `of` parts of what is still wanted. */
  async #askOne(
    request: ClaimRequest,
    wanted: readonly Wanted[],
    partition: Partition,
    [share, of]: readonly [number, number],
  ): Promise<number> {
    const { routes, nowMs } = this.#calls;
    const { number, store, outlook } = partition;
    const known = routes.known(number);
    const asks = wanted
      .map((offer) => ({
        offer,
        max: Math.floor(offer.left / of) + (share < offer.left % of ? 1 : 0),
        routes: offer.routes.filter((route) => routes.has(number, route)),
      }))
      .filter((ask) => ask.max > 0 && ask.routes.length > 0);
    const news = outlook.news;
    const sentMs = nowMs();
    const answer = await store.claim({
      owner: request.owner,
      leaseMs: request.leaseMs,
      offers: asks.map(({ max, routes: outer }) => ({ routes: routes.inner(number, outer), max })),
      routesKnown: known,
    });
    routes.learn(number, answer.routes);
    outlook.sawClock(answer.nextDueInMs, sentMs, news);
    const jobs = await withRoutes(this.#calls, partition, answer.jobs);
    outlook.asked(sentMs);
    for (const { offer, max, routes: offered } of asks) {
      const got = jobs.filter(({ route }) => offered.includes(route));
      offer.jobs.push(...got);
      offer.left -= got.length;
      outlook.found(offered, got.length < max, news);
    }
    return answer.now;
  }
}
