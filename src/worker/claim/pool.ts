/**
 * The slots of one queue (or of one handler with slots of its own) in this worker, the claimed jobs that wait for a
 * slot, and how many more to claim. A pool claims ahead as many jobs as will finish while the next claims are on their
 * way: many for fast handlers, none for slow ones.
 *
 * Half-batches: if permits are short, one claim takes all jobs that the permits let through, and the next claim brings
 * nothing until those have run and are settled. The store would wait for this process, and this process for the store.
 * So each claim asks for half of the jobs: one half is settled and the next one claimed while the other half runs.
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
  /** It never has more slots than this, however many its queue has. */
  readonly slotsMax?: number;
  /** Whether jobs that it serves are routed to this queue by their definitions; left out: they are. */
  readonly isHome?: boolean;
  /** How many attempts a slot takes at present: the running one and those sent ahead to it; 1 if left out. */
  readonly attemptsPerSlot?: () => number;
}

/** How much of a new measurement goes into the average. */
const smoothing = 0.3;
/** Enough for the claims on their way and for the flush that they wait for. */
const roundTripsAhead = 2;
/** A claim goes ahead by at most this multiple of what finished last, because a later job waits for all of it. */
const growth = 2;

/** Fewer jobs than this are not worth a claim of their own. */
const worthAClaim = 50;

const compactAt = 1024;

export class Pool {
  readonly queue: string;
  /** Its slots are counted as those of its queue. A pool that only takes what was enqueued elsewhere is not. */
  readonly isHome: boolean;
  /** The slots that the worker's options gave it. */
  readonly ownSlots: number;
  readonly slotsMax: number;
  /** At present. Fewer than are busy, after an operator has reduced them. */
  slots: number;
  readonly names: ReadonlySet<string>;
  readonly jobsPerSlot: number;
  /** All its jobs have the limits and the group of their definition; none was enqueued before it had them. */
  readonly isOfDefinition: boolean = false;
  readonly routes = new PoolRoutes();
  busySlots = 0;
  /** Jobs that a claim has brought and that are not handed out yet, because the next claim is sent first. */
  arriving = 0;
  /** Its jobs give permits back when they end, and the store settles and claims while others run. */
  givesPermits = false;
  readonly #attemptsPerSlot: (() => number) | null;
  #backlog: Attempt[] = [];
  #head = 0;
  #finishedSinceClaim = 0;
  /**
   * How long it has had jobs since the last claim, and since when it has had some without a break; -1 if it has none.
   */
  #busyUs = 0;
  #busyFromUs = -1;
  #finishedPerUs = 0;
  #roundTripUs = 0;
  /** How many jobs finished between the last two claims, or half of the number before, if that is more. */
  #finishedLast = 0;
  #isTimed = false;
  /** How many of its jobs the permits let run at once, as far as is known, if permits are short. */
  #letThrough = Number.POSITIVE_INFINITY;

  constructor(options: PoolOptions) {
    this.queue = options.queue;
    this.slotsMax = options.slotsMax ?? Number.POSITIVE_INFINITY;
    this.ownSlots = this.slots = Math.min(options.slots, this.slotsMax);
    this.isHome = options.isHome ?? true;
    this.#attemptsPerSlot = options.attemptsPerSlot ?? null;
    this.names = options.names;
    this.jobsPerSlot = options.jobsPerSlot;
  }

  /** How many attempts may be in its slots; more than there are slots if a slot takes attempts ahead. */
  get room(): number {
    return this.#attemptsPerSlot === null ? this.slots : this.slots * this.#attemptsPerSlot();
  }

  get waiting(): number {
    return this.#backlog.length - this.#head;
  }

  /** Attempts that were sent ahead to a busy slot, and have not started. */
  get sentAhead(): number {
    return this.#attemptsPerSlot === null ? 0 : Math.max(0, this.busySlots - this.slots);
  }

  push(attempt: Attempt): void {
    this.#backlog.push(attempt);
  }

  take(): Attempt | undefined {
    if (this.#head === this.#backlog.length) return undefined;
    const attempt = this.#backlog[this.#head++];
    // Taken entries are cut off when nothing waits, or 1024 at a time if something always waits.
    if (this.#head === this.#backlog.length || this.#head >= compactAt) {
      this.#backlog = this.#backlog.slice(this.#head);
      this.#head = 0;
    }
    return attempt;
  }

  /** The waiting attempts in order. */
  backlog(): readonly Attempt[] {
    return this.#backlog.slice(this.#head);
  }

  takeAll(): Attempt[] {
    const attempts = [...this.backlog()];
    this.#backlog = [];
    this.#head = 0;
    return attempts;
  }

  /** Takes the waiting attempts that match; the others keep their order. */
  takeIf(isMeant: (attempt: Attempt) => boolean): Attempt[] {
    const [taken, left]: [Attempt[], Attempt[]] = [[], []];
    for (const attempt of this.takeAll()) (isMeant(attempt) ? taken : left).push(attempt);
    this.#backlog = left;
    return taken;
  }

  /** Drops a waiting attempt that has lost its lease. */
  drop(attempt: Attempt): void {
    const index = this.#backlog.indexOf(attempt, this.#head);
    if (index >= 0) this.#backlog.splice(index, 1);
  }

  /**
   * Jobs have come. From now on their rate is measured only while the pool has jobs; before, the waits for claims count
   * too.
   */
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

  /**
   * There may be jobs that no claim has seen, on all its routes or on those of one lane order; or permits became free.
   */
  addDemand(order?: LaneOrder | null): void {
    this.#letThrough = Number.POSITIVE_INFINITY;
    this.keepDemand(order);
  }

  /** There may be more jobs, but the known number of permits stands. */
  keepDemand(order?: LaneOrder | null): void {
    this.routes.addDemand(order);
  }

  /**
   * A claim has brought less than it asked for. If the jobs of the pool give permits back, permits are short. They then
   * let through the jobs that are here and those that are being settled; fewer, if the store has answered settles that
   * this process has not received yet. A batch pool makes no half-batches, because the number of jobs in its slots is
   * not known.
   *
   * @param settling how many jobs of this worker are being settled.
   */
  cameShort(got: number, settling: number): void {
    const held = got + this.waiting + this.busySlots + settling;
    if (held === 0) this.givesPermits = false;
    if (!this.givesPermits || this.jobsPerSlot > 1) return;
    this.#letThrough = held;
    // The other half is being settled: it can be claimed again before this half is run.
    if (got > 0 && settling >= worthAClaim) this.keepDemand();
  }

  /** How many jobs the next claim asks for; 0 without demand, or while enough jobs wait here. */
  wanted(): number {
    if (this.slots === 0 || !this.routes.hasDemand) return 0;
    const free = (this.room - this.busySlots) * this.jobsPerSlot;
    const lasting = Math.floor(this.#finishedPerUs * this.#roundTripUs * roundTripsAhead);
    const ahead = this.#isTimed ? Math.min(lasting, Math.ceil(this.#finishedLast * growth)) : lasting;
    // A claim that is sent ahead may bring as many jobs as the one before it.
    const target = Math.min(
      free + ahead,
      storeLimits.claimJobsMax * (this.arriving > 0 ? 2 : 1),
      this.#letThrough - this.busySlots,
    );
    const held = this.waiting + this.arriving;
    const missing = target - held;
    // A small claim costs as much as a large one, so a pool with jobs waits until half of the target is missing.
    if (held > 0 && missing * 2 < target) return 0;
    const half = Math.max(worthAClaim, Math.ceil(this.#letThrough / 2));
    return Math.max(0, Math.min(missing, half));
  }

  /** How many jobs of the next claim will find a free slot. */
  starts(): number {
    return Math.max(0, (this.room - this.busySlots) * this.jobsPerSlot - this.waiting - this.arriving);
  }

  /** The jobs of a claim are in its slots, or wait for them. */
  handedOut(): void {}

  /**
   * A claim was answered. The rate of finished jobs is measured only while there are jobs: if the waits for claims
   * counted, a pool that once waited would claim too little to stop waiting.
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
