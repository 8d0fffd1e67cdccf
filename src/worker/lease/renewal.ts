/**
 * Renews leases while jobs run. One call renews those of all workers of the process, once a third of their length is
 * over; leases of another length have a call of their own. The same call reports real starts and brings cancels. While
 * the store is unreachable, renewal is tried until a lease ends; then its handler is aborted with `lease-lost`. A lease
 * is not sent again before the store has answered its last renewal. Otherwise abandoned calls would pile up while the
 * store is slow, and slow it down again when it recovers.
 *
 *   idle ──a lease is added, a claim is lost──► armed ──timer──► renewing ──answered, or failed──► armed
 *    ▲                                                              └──no lease is left─┐
 *    └──────────────────────────────────────────────────────────────────────────────────┘
 *
 * After a claim whose reply was lost, the call also asks for leases of that worker that it does not know. So those jobs
 * run and are not stranded:
 *
 *   the claim is lost ──► wanted ──call──► asked ──answered──► the worker adopts what was found
 *                           ▲                └──failed──┐
 *                           └───────────────────────────┘
 */
import type { Needs } from "../../engine/services.ts";
import { RepeatedLine } from "../../engine/log/repeated-line.ts";
import { Backoff } from "../../platform/backoff.ts";
import type { Timer } from "../../platform/platform.ts";
import { storeLimits } from "../../store/contract-limits.ts";
import type { LeasedJob } from "../../store/records.ts";
import type { Attempt } from "../run/attempt.ts";
import { answerBy, extendLeases } from "./extend-leases.ts";
import type { Leases } from "./leases.ts";
import { LoopStalls } from "./loop-stalls.ts";

type RenewalsNeeds = Needs<"store" | "platform" | "log" | "ids">;

/** A handler that runs longer than this is reported as started: a crash then counts as its attempt. */
const reportAfterMs = 200;
const retryMs = 500;

/** What the renewal knows of a worker. */
export interface LeaseHolder {
  readonly owner: string;
  readonly leaseMs: number;
  readonly leases: Leases;
  /** Takes up the jobs of a lost claim. */
  readonly adopt: (jobs: readonly LeasedJob[], leasedUs: number) => void;
}

/** All workers of a process, by the length of their leases. */
export class Renewals {
  readonly stalls = new LoopStalls(() => this.#byLeaseMs.forEach((renewal) => renewal.noteLate()));
  readonly #needs: RenewalsNeeds;
  readonly #byLeaseMs = new Map<number, Renewal>();

  constructor(needs: RenewalsNeeds) {
    this.#needs = needs;
  }

  join(holder: LeaseHolder): WorkerRenewal {
    const { leaseMs } = holder;
    let renewal = this.#byLeaseMs.get(leaseMs);
    if (renewal === undefined)
      this.#byLeaseMs.set(leaseMs, (renewal = new Renewal(this.#needs, leaseMs, this.stalls)));
    return renewal.join(holder);
  }
}

/** One worker's part in the renewal of its process. */
export class WorkerRenewal {
  readonly holder: LeaseHolder;
  readonly #renewal: Renewal;
  /**
   * The next call asks for unknown leases. Cleared before that call, so that a claim that is lost meanwhile asks again.
   */
  wantsOthers = false;
  /** The call that asks for unknown leases is in flight. */
  isAsking = false;
  /** The next call renews all leases, even those that were renewed a moment ago. */
  isRenewedWhole = false;

  constructor(holder: LeaseHolder, renewal: Renewal) {
    this.holder = holder;
    this.#renewal = renewal;
  }

  /** Called when leases are added; a process without leases has no timer. */
  arm(): void {
    this.#renewal.arm();
  }

  /** The reply of a claim was lost: the next call asks for the jobs that it took. */
  findLost(): void {
    this.wantsOthers = true;
    this.#renewal.arm();
  }

  /** A cancel may have been requested for one of the jobs: all leases are renewed now, and the answer says so. */
  renewAll(): void {
    this.isRenewedWhole = true;
    this.#renewal.arm(0);
  }

  /** The jobs of a lost claim are being searched for. */
  get isLooking(): boolean {
    return this.wantsOthers || this.isAsking;
  }

  leave(): void {
    this.wantsOthers = false;
    this.#renewal.leave(this);
  }
}

/** The leases of one length. */
class Renewal {
  readonly #needs: RenewalsNeeds;
  readonly #leaseMs: number;
  readonly #stalls: LoopStalls;
  readonly #workers = new Set<WorkerRenewal>();
  readonly #backoff: Backoff;
  readonly #trouble: RepeatedLine;
  #timer: Timer | null = null;
  #timerAtUs = 0;
  #isRenewing = false;

  constructor(needs: RenewalsNeeds, leaseMs: number, stalls: LoopStalls) {
    this.#needs = needs;
    this.#leaseMs = leaseMs;
    this.#stalls = stalls;
    // Waits do not grow, because a lease that is not renewed runs out meanwhile.
    const waitMs = Math.min(retryMs, leaseMs / 6);
    this.#backoff = new Backoff(needs.platform, { firstMs: waitMs, maxMs: waitMs });
    this.#trouble = new RepeatedLine(needs, "warn", "leases could not be renewed, trying again");
  }

  join(holder: LeaseHolder): WorkerRenewal {
    const worker = new WorkerRenewal(holder, this);
    this.#workers.add(worker);
    return worker;
  }

  leave(worker: WorkerRenewal): void {
    this.#workers.delete(worker);
    if (this.#hasWork) return;
    this.#timer?.cancel();
    this.#timer = null;
  }

  /** Soon, by default: the start of a new lease is reported, or a lost claim is searched for. */
  arm(inMs = this.#soonMs): void {
    if (this.#isRenewing) return;
    const atUs = this.#needs.platform.monotonicUs() + inMs * 1000;
    if (this.#timer !== null && this.#timerAtUs <= atUs) return;
    this.#timer?.cancel();
    this.#setTimer(inMs);
  }

  /** A timer that is overdue shows that the event loop stood still. */
  noteLate(): void {
    if (this.#timer === null) return;
    const nowUs = this.#needs.platform.monotonicUs();
    this.#stalls.isLate(nowUs, nowUs - this.#timerAtUs, this.#leaseMs);
  }

  get #soonMs(): number {
    return Math.min(reportAfterMs, this.#leaseMs / 3);
  }

  get #hasWork(): boolean {
    for (const { holder, wantsOthers } of this.#workers)
      if (wantsOthers || holder.leases.size > 0) return true;
    return false;
  }

  #setTimer(delayMs: number): void {
    const { platform } = this.#needs;
    this.#timerAtUs = platform.monotonicUs() + delayMs * 1000;
    this.#timer = platform.setTimer(delayMs, () => {
      this.noteLate();
      this.#timer = null;
      void this.#renew();
    });
  }

  async #renew(): Promise<void> {
    this.#isRenewing = true;
    const nowUs = this.#needs.platform.monotonicUs();
    const { due, hasUnreported } = this.#readDue(nowUs);
    const asking = [...this.#workers].filter(({ wantsOthers, isAsking }) => wantsOthers && !isAsking);
    const calls = asking.map((worker) => this.#extendAndFind(worker, nowUs));
    const askingOwners = new Set(asking.map(({ holder }) => holder.owner));
    const others = due.filter(({ owner }) => !askingOwners.has(owner));
    // One call per partition: an unresponsive partition must not delay the renewal of the others.
    for (const some of this.#needs.ids.byPartition(others, ({ job }) => job.id))
      for (let from = 0; from < some.length; from += storeLimits.callItemsMax)
        calls.push(this.#extend(some.slice(from, from + storeLimits.callItemsMax)));
    const endUs = this.#firstEndUs(nowUs);
    const ends = await Promise.allSettled(calls.map((call) => answerBy(this.#needs, endUs, call)));
    const failed = ends.find(({ status }) => status === "rejected");
    const isPartial = ends.some((end) => end.status === "fulfilled" && !end.value);
    for (const { holder } of this.#workers) this.#loseExpired(holder.leases);
    this.#isRenewing = false;
    if (failed?.status === "rejected") this.#trouble.say({ error: failed.reason as unknown });
    else this.#trouble.over();
    if (!this.#hasWork) return;
    const isAwaited = [...this.#workers].some(
      ({ wantsOthers, isRenewedWhole }) => wantsOthers || isRenewedWhole,
    );
    const isSoon = hasUnreported || isAwaited;
    if (failed !== undefined || isPartial) this.#setTimer(this.#backoff.failed());
    else this.#setTimer(isSoon ? this.#soonMs : this.#leaseMs / 6);
  }

  /** The leases to extend now: those that are a third over, and those with a start that was not reported. */
  #readDue(nowUs: number): { readonly due: readonly Attempt[]; readonly hasUnreported: boolean } {
    const due: Attempt[] = [];
    let hasUnreported = false;
    for (const worker of this.#workers) {
      const { isRenewedWhole } = worker;
      worker.isRenewedWhole = false;
      for (const attempt of worker.holder.leases.values()) {
        if (attempt.isBeingExtended) continue;
        const isOld = isRenewedWhole || attempt.leaseEndsUs - nowUs <= (this.#leaseMs * 1000 * 2) / 3;
        const mustReport = attempt.phase === "running" && !attempt.isStartReported;
        const isReportDue = mustReport && nowUs - attempt.startedUs >= reportAfterMs * 1000;
        hasUnreported ||= mustReport && !isReportDue;
        if (isOld || isReportDue) due.push(attempt);
      }
    }
    return { due, hasUnreported };
  }

  /** When the first lease of any worker ends: its handler must be aborted then, even if the store has not answered. */
  #firstEndUs(nowUs: number): number {
    let endsUs = nowUs + this.#leaseMs * 1000;
    for (const { holder } of this.#workers)
      for (const { leaseEndsUs } of holder.leases.values()) endsUs = Math.min(endsUs, leaseEndsUs);
    return endsUs;
  }

  /**
   * The attempts may be of several workers. Any of their owners will do, because the owner only matters if others are
   * asked for.
   *
   * @returns whether all partitions of their jobs have answered.
   */
  async #extend(attempts: readonly Attempt[]): Promise<boolean> {
    const [first] = attempts;
    if (first === undefined) return true;
    const { owner } = first;
    const leaseMs = this.#leaseMs;
    const extension = { owner, leaseMs, attempts, reportsStarts: true, wantsOthers: false };
    const { answers } = await extendLeases(this.#needs, extension);
    return !answers.includes("unknown");
  }

  /**
   * The store answers the leases that it holds for this worker and that the call does not name, so the call names all
   * known ones.
   *
   * @returns as `#extend`.
   */
  async #extendAndFind(worker: WorkerRenewal, nowUs: number): Promise<boolean> {
    const { owner, leases, adopt } = worker.holder;
    worker.wantsOthers = false;
    worker.isAsking = true;
    try {
      const { answers, others } = await extendLeases(this.#needs, {
        owner,
        leaseMs: this.#leaseMs,
        attempts: [...leases.values()],
        reportsStarts: true,
        wantsOthers: true,
      });
      worker.isAsking = false;
      // They were found, not extended, so they count as old and the next round renews them. The time is a whole number,
      // because the attempt log reads no other.
      adopt(others, nowUs - Math.floor((this.#leaseMs * 1000 * 2) / 3));
      return !answers.includes("unknown");
    } catch (error) {
      worker.isAsking = false;
      worker.wantsOthers = this.#workers.has(worker);
      // The round that sent the call may have ended, and without leases no timer is set: nothing else would ask again.
      if (worker.wantsOthers) this.arm();
      throw error;
    }
  }

  #loseExpired(leases: Leases): void {
    const nowUs = this.#needs.platform.monotonicUs();
    for (const attempt of [...leases.values()])
      if (nowUs > attempt.leaseEndsUs && attempt.phase !== "settling")
        attempt.origin.aborting.leaseLost(attempt);
  }
}
