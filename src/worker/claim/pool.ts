/**
 * The slots of one queue (or of one handler with slots of its own) in this worker, the claimed jobs that wait for a
 * slot, and how many more to claim. Prefetch follows handler time: as many as will finish while the next claims are on
 * their way, none for slow handlers.
 *
 * Half-batches: if permits are short, one claim would take all jobs that they let through, and the next claim could
 * bring nothing before those have run and are settled. A store that works beside this process would wait for the
 * process, and the process for the store. So each claim asks for half of the jobs: one half is settled and the next one
 * claimed while the other half runs.
 *
 *   this process  ──run A──────run B──────run A──────run B──────►
 *   the store     ──settle, claim B──settle, claim A──settle, claim B──►
 */
import type { LaneOrder } from "../../model/routing/lane.ts";
import { storeLimits } from "../../store/contract-limits.ts";
import type { Attempt } from "../run/attempt.ts";
import { PoolRoutes } from "./pool-routes.ts";

export interface PoolOptions {
  readonly queue: string;
  readonly slots: number;
  /** Job names served here. */
  readonly names: ReadonlySet<string>;
  /** Jobs per slot: more than 1 for a batch handler. */
  readonly jobsPerSlot: number;
  /** More slots than this it never has, whatever its queue has. */
  readonly slotsMax?: number;
  /** How many attempts a slot takes now, the next behind the one that runs; 1 where it is left out. */
  readonly attemptsPerSlot?: () => number;
}

/** How much of a new measurement goes into the average. */
const smoothing = 0.3;
/** Enough for the claims on their way and the flush they wait for. */
const roundTripsAhead = 2;
/** At most this many times what finished last is claimed ahead: a job that comes later waits for all of it. */
const growth = 2;

/** Fewer jobs than this are not worth a claim of their own. */
const worthAClaim = 50;

const compactAt = 1024;

export class Pool {
  readonly queue: string;
  /** As the worker was set up. */
  readonly ownSlots: number;
  readonly slotsMax: number;
  /** Now; fewer than are busy after an operator has taken some away. */
  slots: number;
  readonly names: ReadonlySet<string>;
  readonly jobsPerSlot: number;
  /** Its jobs have the limits and the group of their definition: none is from before it had them. */
  readonly isOfDefinition: boolean = false;
  readonly routes = new PoolRoutes();
  busySlots = 0;
  /** Jobs that a claim has brought and that are not handed out yet, because the next claim goes out first. */
  arriving = 0;
  /** Its jobs give permits back as they end, and the store settles and claims while they run. */
  givesPermits = false;
  readonly #attemptsPerSlot: (() => number) | null;
  #backlog: Attempt[] = [];
  #head = 0;
  #finishedSinceClaim = 0;
  /** For how long it has had jobs since the last claim, and since when it has some now; -1 while it has none. */
  #busyUs = 0;
  #busyFromUs = -1;
  #finishedPerUs = 0;
  #roundTripUs = 0;
  /** Between the last two claims, or half of what it was before. */
  #finishedLast = 0;
  #isTimed = false;
  /** Permits are short: they let this many of its jobs through at once, as far as is known. */
  #letThrough = Number.POSITIVE_INFINITY;

  constructor(options: PoolOptions) {
    this.queue = options.queue;
    this.slotsMax = options.slotsMax ?? Number.POSITIVE_INFINITY;
    this.ownSlots = this.slots = Math.min(options.slots, this.slotsMax);
    this.#attemptsPerSlot = options.attemptsPerSlot ?? null;
    this.names = options.names;
    this.jobsPerSlot = options.jobsPerSlot;
  }

  /** How many slots may be busy; more than there are where the next jobs are handed to a slot ahead. */
  get room(): number {
    return this.#attemptsPerSlot === null ? this.slots : this.slots * this.#attemptsPerSlot();
  }

  get waiting(): number {
    return this.#backlog.length - this.#head;
  }

  push(attempt: Attempt): void {
    this.#backlog.push(attempt);
  }

  take(): Attempt | undefined {
    if (this.#head === this.#backlog.length) return undefined;
    const attempt = this.#backlog[this.#head++];
    // What was taken goes at once when nothing waits, and in stretches when something always does.
    if (this.#head === this.#backlog.length || this.#head >= compactAt) {
      this.#backlog = this.#backlog.slice(this.#head);
      this.#head = 0;
    }
    return attempt;
  }

  /** Those that wait, in their order. */
  backlog(): readonly Attempt[] {
    return this.#backlog.slice(this.#head);
  }

  takeAll(): Attempt[] {
    const attempts = [...this.backlog()];
    this.#backlog = [];
    this.#head = 0;
    return attempts;
  }

  /** Takes those of the waiting that are meant; the others keep their order. */
  takeIf(isMeant: (attempt: Attempt) => boolean): Attempt[] {
    const [taken, left]: [Attempt[], Attempt[]] = [[], []];
    for (const attempt of this.takeAll()) (isMeant(attempt) ? taken : left).push(attempt);
    this.#backlog = left;
    return taken;
  }

  /** Drops one that lost its lease before it started. */
  drop(attempt: Attempt): void {
    const index = this.#backlog.indexOf(attempt, this.#head);
    if (index >= 0) this.#backlog.splice(index, 1);
  }

  /** Jobs have come, where they are timed while there are any; else they are timed over the waits for claims, too. */
  arrived(nowUs: number): void {
    this.#isTimed = true;
    if (this.#busyFromUs < 0) this.#busyFromUs = nowUs;
  }

  finished(count: number): void {
    this.#finishedSinceClaim += count;
  }

  get isEmpty(): boolean {
    return this.busySlots === 0 && this.waiting === 0;
  }

  /** The last of its jobs has finished. */
  emptied(nowUs: number): void {
    if (this.#busyFromUs >= 0) this.#busyUs += nowUs - this.#busyFromUs;
    this.#busyFromUs = -1;
  }

  /** There may be jobs that no claim has seen on its routes, or on those of one lane order, or permits that are new. */
  addDemand(order?: LaneOrder | null): void {
    this.#letThrough = Number.POSITIVE_INFINITY;
    this.keepDemand(order);
  }

  /** There may be more of the jobs and permits that are known. */
  keepDemand(order?: LaneOrder | null): void {
    this.routes.addDemand(order);
  }

  /**
   * A claim has brought less than it asked for. If the jobs of the pool give permits back, permits are short: they let
   * through the jobs that are here and those that are being settled, or fewer, if the store has answered settles that
   * this process has not received yet. How many jobs the slots of a batch handler have is not known, so it makes no
   * half-batches.
   *
   * @param settling how many jobs of this worker are being settled.
   */
  cameShort(got: number, settling: number): void {
    const held = got + this.waiting + this.busySlots + settling;
    if (held === 0) this.givesPermits = false;
    if (!this.givesPermits || this.jobsPerSlot > 1) return;
    this.#letThrough = held;
    // The other half is being settled: it can be claimed again before this one is run.
    if (got > 0 && settling >= worthAClaim) this.keepDemand();
  }

  /** How many jobs the next claim should bring; 0 without demand, and while enough are waiting here. */
  wanted(): number {
    if (this.slots === 0 || !this.routes.hasDemand) return 0;
    const free = (this.room - this.busySlots) * this.jobsPerSlot;
    const lasting = Math.floor(this.#finishedPerUs * this.#roundTripUs * roundTripsAhead);
    const ahead = this.#isTimed ? Math.min(lasting, Math.ceil(this.#finishedLast * growth)) : lasting;
    // A claim that goes out ahead may bring as much as the one that is coming in.
    const target = Math.min(
      free + ahead,
      storeLimits.claimJobsMax * (this.arriving > 0 ? 2 : 1),
      this.#letThrough - this.busySlots,
    );
    const held = this.waiting + this.arriving;
    const missing = target - held;
    // Small claims cost as much as large ones: with jobs in hand, wait until half of the target is missing.
    if (held > 0 && missing * 2 < target) return 0;
    const half = Math.max(worthAClaim, Math.ceil(this.#letThrough / 2));
    return Math.max(0, Math.min(missing, half));
  }

  /** How many of the jobs that the next claim brings find a free slot. */
  starts(): number {
    return Math.max(0, (this.room - this.busySlots) * this.jobsPerSlot - this.waiting - this.arriving);
  }

  /** What a claim has brought is in its slots, or waits for them. */
  handedOut(): void {}

  /**
   * A claim was answered. How fast jobs finish is measured while there are any: if the waits for claims counted, a pool
   * that once waited would claim too little to stop waiting.
   *
   * @param elapsedUs since the answer before. @param roundTripUs what a claim takes on average.
   */
  claimed(elapsedUs: number, nowUs: number, roundTripUs: number): void {
    this.#roundTripUs = roundTripUs;
    if (elapsedUs <= 0) return;
    if (this.#busyFromUs >= 0) {
      this.#busyUs += nowUs - this.#busyFromUs;
      this.#busyFromUs = nowUs;
    }
    const measured = this.#finishedSinceClaim / (this.#busyUs > 0 ? this.#busyUs : elapsedUs);
    this.#finishedPerUs += (measured - this.#finishedPerUs) * smoothing;
    this.#finishedLast = Math.max(this.#finishedSinceClaim, this.#finishedLast / 2);
    this.#finishedSinceClaim = this.#busyUs = 0;
  }
}
