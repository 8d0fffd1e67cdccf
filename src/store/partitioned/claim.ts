/**
 * Claims over partitions. A claim asks the partitions that may have work, and begins with another one each time: first
 * one partition for everything, then, if that was not enough, a few at once for a share each. While hints come in, a
 * partition without work is asked at most once in 30 s, because a hint may be lost.
 *
 * Jobs are ordered by rank inside a partition only. A partition that fails or is unresponsive is left out.
 * lost-claims.ts keeps the claim there, and later claims return its jobs to the owner.
 */
import { MillraceError } from "../../model/error.ts";
import type { ClaimAnswer, ClaimRequest } from "../operations.ts";
import type { LeasedJob } from "../records.ts";
import { earlier } from "../rules/timer.ts";
import type { Hint } from "../store.ts";
import { LostClaims } from "./lost-claims.ts";
import { orLater, presentOnes, reach, throwFirst } from "./partition.ts";
import type { Partition, PartitionedCalls, Reached } from "./partition.ts";

const askedAtOnceMax = 4;
/** The least share that a partition is asked for: less would cost more than it brings. */
const shareMin = 16;

interface Wanted {
  readonly routes: readonly number[];
  left: number;
  startsLeft: number;
  readonly jobs: LeasedJob[];
}

/** The state of one claim over the partitions. */
interface Round {
  readonly request: ClaimRequest;
  readonly wanted: readonly Wanted[];
  readonly reached: Reached<ClaimAnswer>[];
  readonly asked: Set<Partition>;
  charsLeft: number;
}

export class Claims {
  readonly lost: LostClaims;
  readonly #calls: PartitionedCalls;
  readonly #routes = new Set<number>();
  #first = 0;

  constructor(calls: PartitionedCalls, emit: (hint: Hint) => void) {
    this.#calls = calls;
    this.lost = new LostClaims(calls.nowMs, (jobs) =>
      emit({ kind: "ready", routes: [...new Set(jobs.map(({ route }) => route))] }),
    );
  }

  /** All routes that this process has offered to claim from. */
  get routes(): readonly number[] {
    return [...this.#routes];
  }

  async claim(request: ClaimRequest): Promise<ClaimAnswer> {
    const { owner, offers, inputBytesMax = Number.POSITIVE_INFINITY } = request;
    const startedMs = this.#calls.nowMs();
    for (const { routes } of offers) for (const route of routes) this.#routes.add(route);
    for (const { cache } of this.#calls.partitions) cache.passTime(startedMs);
    const wanted = offers
      .filter((offer) => offer.routes.length > 0 && offer.max > 0)
      .map(({ routes, max, starts = 0 }): Wanted => ({ routes, left: max, startsLeft: starts, jobs: [] }));
    const round: Round = {
      ...{ request, wanted, reached: [], asked: new Set() },
      charsLeft: inputBytesMax,
    };
    const [late] = await Promise.all([this.#handOutLate(request), this.#ask(round)]);
    const ends = late.now === 0 ? await orLater(round.reached) : round.reached;
    let { now } = late;
    let opensInMs = Number.POSITIVE_INFINITY;
    for (const end of ends) {
      if (end.kind !== "answered") continue;
      now = Math.max(now, end.answer.now);
      opensInMs = Math.min(opensInMs, end.answer.opensInMs ?? Number.POSITIVE_INFINITY);
    }
    const jobs = [
      ...late.jobs,
      ...this.lost.takeLate(owner, startedMs).flatMap((claim) => claim.jobs),
      ...wanted.flatMap((offer) => offer.jobs),
    ];
    const mustLook = this.lost.emit(owner, now === 0);
    if (now === 0) {
      throwFirst(ends);
      throw new MillraceError(
        mustLook ? "outcome-unknown" : "store-unavailable",
        "The outcome of an earlier claim is still open in every partition of the store.",
      );
    }
    return {
      jobs,
      more: round.charsLeft <= 0 || wanted.some(({ left }) => left === 0),
      nextDueInMs: this.nextInMs(),
      now,
      ...(opensInMs === Number.POSITIVE_INFINITY ? {} : { opensInMs }),
      ...(mustLook ? { mustLook } : {}),
    };
  }

  /** The routes for which a claim would ask another partition than this one. */
  routesOutside(home: Partition): readonly number[] {
    const nowMs = this.#calls.nowMs();
    const isTrusted = this.#calls.isWatched();
    const others = presentOnes(this.#calls.partitions).filter(
      (partition) => partition !== home && partition.health.mayAsk("claim"),
    );
    for (const { cache } of others) cache.passTime(nowMs);
    const mayHide = ({ cache }: Partition): boolean => !isTrusted || !cache.isRecent(nowMs);
    if (!this.lost.isEmpty || others.some(mayHide)) return this.routes;
    return this.routes.filter((route) => others.some(({ cache }) => cache.mayHave([route])));
  }

  /** The time until the next clock of any partition is due, as far as it is known; null for none. */
  nextInMs(): number | null {
    const nowMs = this.#calls.nowMs();
    let next: number | null = null;
    for (const { cache, health } of this.#calls.partitions)
      if (!health.isAway) next = earlier(next, cache.nextInMs(nowMs));
    return next;
  }

  /**
   * Jobs of an earlier claim that came too late for its answer. Their leases began with that claim, so they are
   * extended first, because the owner counts leases from the claim that returns them.
   */
  async #handOutLate({ owner, leaseMs }: ClaimRequest): Promise<{ readonly jobs: LeasedJob[]; now: number }> {
    const handedOut: { readonly jobs: LeasedJob[]; now: number } = { jobs: [], now: 0 };
    const extend = async (partition: Partition, jobs: readonly LeasedJob[]): Promise<void> => {
      const leases = jobs.map(({ id, seq, fence }) => ({ id, seq, fence }));
      const reached = await reach(partition, {
        name: "extendIfLeased",
        call: (store) => store.extendIfLeased({ owner, leaseMs, leases, wantsOthers: false }),
        timeout: this.#calls.timeout.short,
      });
      if (reached.kind !== "answered") return this.lost.isLost(owner, partition);
      const { answers, now } = reached.answer;
      handedOut.jobs.push(...jobs.filter((_, at) => answers[at] === "ok" || answers[at] === "cancel-asked"));
      handedOut.now = Math.max(handedOut.now, now);
    };
    await Promise.all(this.lost.takeLate(owner).map(({ partition, jobs }) => extend(partition, jobs)));
    return handedOut;
  }

  /** Asks partitions until enough was found or none is left. */
  async #ask(round: Round): Promise<void> {
    const { partitions } = this.#calls;
    const { wanted, asked } = round;
    const first = this.#first++ % partitions.length;
    const rotated = [...partitions.slice(first), ...partitions.slice(0, first)];
    for (let width = 1; ;) {
      const isFree = (partition: Partition): boolean => !this.lost.holdsUp(round.request.owner, partition);
      const free = rotated.filter(isFree);
      const next = presentOnes(rotated).filter((each) => isFree(each) && this.#isWorthAsking(each, round));
      const isAnswered = round.reached.some(({ kind }) => kind === "answered");
      const few = next.length > 0 || isAnswered ? next.slice(0, width) : anyOf(free, asked);
      if (few.length === 0 || round.charsLeft <= 0) return;
      for (const partition of few) asked.add(partition);
      await Promise.all(few.map((partition, share) => this.#askOne(round, partition, [share, few.length])));
      const left = Math.max(0, ...wanted.map((offer) => offer.left));
      width = Math.max(1, Math.min(askedAtOnceMax, Math.floor(left / shareMin)));
    }
  }

  #isWorthAsking(partition: Partition, { wanted, asked }: Round): boolean {
    const { cache, health } = partition;
    if (!health.mayAsk("claim")) return false;
    const isTrusted = this.#calls.isWatched() || asked.has(partition);
    if (!cache.isRecent(this.#calls.nowMs()) || (wanted.length === 0 && !isTrusted)) return true;
    return wanted.some((offer) => offer.left > 0 && (!isTrusted || cache.mayHave(offer.routes)));
  }

  /** Asks one partition for its share, part `share` of `of` of what is still wanted. */
  async #askOne(round: Round, partition: Partition, [share, of]: readonly [number, number]): Promise<void> {
    const { owner, leaseMs, inputBytesMax } = round.request;
    const { cache } = partition;
    const asks = round.wanted
      .map((offer) => ({
        offer,
        max: shareOf(offer.left, share, of),
        starts: shareOf(offer.startsLeft, share, of),
      }))
      .filter((ask) => ask.max > 0);
    const bound = inputBytesMax === undefined ? {} : { inputBytesMax: Math.ceil(round.charsLeft / of) };
    const offers = asks.map(({ max, starts, offer }) => ({ routes: offer.routes, max, starts }));
    const heard = cache.heard;
    const sentMs = this.#calls.nowMs();
    const reached = await reach(partition, {
      name: "claim",
      async call(store) {
        const answer = await store.claim({ owner, leaseMs, offers, ...bound });
        cache.sawClock(answer.nextDueInMs, sentMs, heard);
        cache.asked(sentMs);
        return answer;
      },
      timeout: this.#calls.timeout.short,
    });
    round.reached.push(reached);
    if (reached.kind === "silent") this.lost.isOpen(owner, partition, sentMs, reached.later);
    if (reached.kind === "failed") this.lost.failed(owner, partition, reached.error);
    if (reached.kind !== "answered") return;
    const { jobs, more, opensInMs } = reached.answer;
    if (opensInMs !== undefined) cache.sawGate(sentMs + opensInMs);
    // A claim that ended early by its bound on bytes says nothing about remaining jobs.
    const mayBeCut = more && inputBytesMax !== undefined;
    for (const { input } of jobs) round.charsLeft -= input.length;
    const unreported = new Set(jobs);
    for (const { offer, max, starts } of asks) {
      const got = asks.length === 1 ? jobs : takeFor(offer.routes, max, unreported);
      offer.jobs.push(...got);
      offer.left -= got.length;
      offer.startsLeft -= Math.min(starts, got.length);
      cache.found(offer.routes, got.length < max && !mayBeCut, heard);
    }
  }
}

/** Takes the first jobs of these routes: two offers may share a route, and a job is of one of them. */
function takeFor(routes: readonly number[], max: number, jobs: Set<LeasedJob>): readonly LeasedJob[] {
  const taken: LeasedJob[] = [];
  for (const job of jobs) {
    if (taken.length === max) break;
    if (!routes.includes(job.route)) continue;
    taken.push(job);
    jobs.delete(job);
  }
  return taken;
}

/** The `share`-th of `of` parts of a number. */
function shareOf(number: number, share: number, of: number): number {
  return Math.floor(number / of) + (share < number % of ? 1 : 0);
}

/**
 * The partition to ask if none is known to have work: a claim always needs an answer. One that is away is asked only if
 * there is no other.
 */
function anyOf(free: readonly Partition[], asked: ReadonlySet<Partition>): readonly Partition[] {
  const able = free.filter((partition) => partition.health.mayAsk("claim") && !asked.has(partition));
  return able.length > 0 || asked.size > 0 ? able.slice(0, 1) : free.slice(0, 1);
}
