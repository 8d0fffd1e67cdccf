/**
 * Leases renew themselves while jobs run: those of all workers of the process in one call, at a third of their length (workers with leases of
 * another length have a call of their own). The same call reports real starts and brings cancels. While the store is away renewal goes
 * on trying until a lease's end; then its handler is told `lease-lost`.
 *
 * After a claim whose reply was lost, renewal also asks for leases of that worker that it does not know: those jobs are run, not
 * stranded.
 */
import type { Engine } from "../engine/engine.ts";
import { answersWithin } from "../engine/race.ts";
import { isMillraceError } from "../model/error.ts";
import { Backoff } from "../platform/backoff.ts";
import type { Timer } from "../platform/platform.ts";
import { storeLimits } from "../store/limits.ts";
import type { Extend, ExtendAnswer } from "../store/operations.ts";
import type { LeasedJob } from "../store/records.ts";
import type { Aborting } from "./aborting.ts";
import type { Attempt } from "./attempt.ts";

/** A handler that runs longer than this is reported as started: a crash then counts as its attempt. */
const reportAfterMs = 200;
const retryMs = 500;
const patienceMinMs = 100;
/** The duty's backstop fires only after the worker's own timeout and abort grace had their chance. */
const backstopSlackMs = 5000;

/** A worker, as far as its leases go. */
export interface RenewalHost {
  readonly owner: string;
  readonly leaseMs: number;
  readonly abortGraceMs: number;
  readonly leases: ReadonlyMap<string, Attempt>;
  readonly aborting: Aborting;
  adopt(jobs: readonly LeasedJob[], leasedUs: number): void;
}

interface Due {
  readonly host: RenewalHost;
  readonly attempt: Attempt;
  readonly extend: Extend;
}

/** All workers of a process, by the length of their leases. */
export class Renewals {
  readonly #engine: Engine;
  readonly #groups = new Map<number, Renewal>();

  constructor(engine: Engine) {
    this.#engine = engine;
  }

  join(host: RenewalHost): RenewalSeat {
    let group = this.#groups.get(host.leaseMs);
    if (group === undefined)
      this.#groups.set(host.leaseMs, (group = new Renewal(this.#engine, host.leaseMs)));
    return group.join(host);
  }
}

/** One worker's place in the renewal of its process. */
export class RenewalSeat {
  readonly host: RenewalHost;
  readonly #group: Renewal;
  /** Set before a call asks, so that a claim that is lost while it is in flight asks again. */
  wantsOthers = false;
  /** The call that asks for others is in flight. */
  isAsking = false;

  constructor(host: RenewalHost, group: Renewal) {
    this.host = host;
    this.#group = group;
  }

  /** Called when a lease is added; a process without leases has no timer. */
  arm(): void {
    this.#group.arm();
  }

  /** The reply of a claim was lost: whatever it took is asked for. */
  findLost(): void {
    this.wantsOthers = true;
    this.#group.arm();
  }

  get isLooking(): boolean {
    return this.wantsOthers || this.isAsking;
  }

  leave(): void {
    this.wantsOthers = false;
    this.#group.leave(this);
  }
}

/** The leases of one length. */
class Renewal {
  readonly #engine: Engine;
  readonly #leaseMs: number;
  readonly #seats = new Set<RenewalSeat>();
  readonly #backoff: Backoff;
  #timer: Timer | null = null;
  #timerAtUs = 0;
  #isRenewing = false;

  constructor(engine: Engine, leaseMs: number) {
    this.#engine = engine;
    this.#leaseMs = leaseMs;
    // Equal waits: a lease that nobody renews has no time for growing ones.
    const waitMs = Math.min(retryMs, leaseMs / 6);
    this.#backoff = new Backoff(engine.platform, { firstMs: waitMs, maxMs: waitMs });
  }

  join(host: RenewalHost): RenewalSeat {
    const seat = new RenewalSeat(host, this);
    this.#seats.add(seat);
    return seat;
  }

  leave(seat: RenewalSeat): void {
    this.#seats.delete(seat);
    if (this.#hasWork) return;
    this.#timer?.cancel();
    this.#timer = null;
  }

  /** Soon: a new lease has a start to report, a lost claim is to be looked for. */
  arm(): void {
    if (this.#isRenewing) return;
    const atUs = this.#engine.platform.monotonicUs() + this.#soonMs * 1000;
    if (this.#timer !== null && this.#timerAtUs <= atUs) return;
    this.#timer?.cancel();
    this.#setTimer(this.#soonMs);
  }

  get #soonMs(): number {
    return Math.min(reportAfterMs, this.#leaseMs / 3);
  }

  get #hasWork(): boolean {
    for (const { host, wantsOthers } of this.#seats) if (wantsOthers || host.leases.size > 0) return true;
    return false;
  }

  #setTimer(delayMs: number): void {
    const { platform } = this.#engine;
    this.#timerAtUs = platform.monotonicUs() + delayMs * 1000;
    this.#timer = platform.setTimer(delayMs, () => {
      this.#timer = null;
      void this.#renew();
    });
  }

  async #renew(): Promise<void> {
    this.#isRenewing = true;
    const nowUs = this.#engine.platform.monotonicUs();
    const { due, hasUnreported } = this.#readDue(nowUs);
    const asking = [...this.#seats].filter(({ wantsOthers }) => wantsOthers);
    const calls = asking.map((seat) => this.#findOthers(seat, due, nowUs));
    const plain = due.filter(({ host }) => !asking.some((seat) => seat.host === host));
    // A partition that is away must not keep the leases of the others from being renewed.
    for (const some of this.#engine.byPartition(plain, ({ attempt }) => attempt.job.id))
      for (let from = 0; from < some.length; from += storeLimits.callItemsMax)
        calls.push(this.#extend(some.slice(from, from + storeLimits.callItemsMax), nowUs));
    const failed = (await Promise.allSettled(calls)).find(({ status }) => status === "rejected");
    for (const { host } of this.#seats) this.#dropExpired(host);
    this.#isRenewing = false;
    if (failed?.status === "rejected")
      this.#engine.log.warn("leases could not be renewed, trying again", { error: failed.reason as unknown });
    if (!this.#hasWork) return;
    const isSoon = hasUnreported || [...this.#seats].some(({ wantsOthers }) => wantsOthers);
    if (failed !== undefined) this.#setTimer(this.#backoff.failed());
    else this.#setTimer(isSoon ? this.#soonMs : this.#leaseMs / 6);
  }

  /** What is to be extended now: leases that are a third over, and starts that were not reported. */
  #readDue(nowUs: number): { readonly due: readonly Due[]; readonly hasUnreported: boolean } {
    const due: Due[] = [];
    let hasUnreported = false;
    for (const { host } of this.#seats) {
      for (const attempt of host.leases.values()) {
        const isOld = nowUs - attempt.leasedUs >= (attempt.leaseMs - (this.#leaseMs * 2) / 3) * 1000;
        const mustReport = attempt.phase === "running" && !attempt.isStartReported;
        const isReportDue = mustReport && nowUs - attempt.startedUs >= reportAfterMs * 1000;
        hasUnreported ||= mustReport && !isReportDue;
        if (isOld || isReportDue) due.push({ host, attempt, extend: extendOf(host, attempt, nowUs) });
      }
    }
    return { due, hasUnreported };
  }

  async #extend(due: readonly Due[], nowUs: number): Promise<void> {
    const [first] = due;
    if (first === undefined) return;
    const { answers } = await this.#call(first.host, due, nowUs, false);
    this.#heedAll(due, answers, nowUs);
  }

  /** Others are what the store holds for this worker beside everything known here, so all known leases are named. */
  async #findOthers(seat: RenewalSeat, due: readonly Due[], nowUs: number): Promise<void> {
    const { host } = seat;
    // Cleared before the call: a claim that is lost while it is in flight asks again.
    seat.wantsOthers = false;
    seat.isAsking = true;
    const own = due.filter((each) => each.host === host);
    const isNamed = new Set(own.map(({ attempt }) => attempt));
    const rest = [...host.leases.values()].filter((attempt) => !isNamed.has(attempt));
    const named = [
      ...own,
      ...rest.map((attempt) => ({ host, attempt, extend: extendOf(host, attempt, nowUs) })),
    ];
    try {
      const { answers, others } = await this.#call(host, named, nowUs, true);
      this.#heedAll(named, answers, nowUs);
      seat.isAsking = false;
      // Found, not extended: they count as old, so that the next round renews them.
      host.adopt(others, nowUs - (this.#leaseMs * 1000 * 2) / 3);
    } catch (error) {
      seat.isAsking = false;
      seat.wantsOthers = this.#seats.has(seat);
      throw error;
    }
  }

  #call(host: RenewalHost, due: readonly Due[], nowUs: number, wantsOthers: boolean): Promise<ExtendAnswer> {
    const { platform, store } = this.#engine;
    const leases = due.map(({ extend }) => extend);
    const request = { owner: host.owner, leaseMs: this.#leaseMs, leases, wantsOthers };
    return answersWithin(platform, store.extendIfLeased(request), this.#patienceMs(nowUs));
  }

  /** Until the first lease ends: after that the handlers must be told, whether the store answers or not. */
  #patienceMs(nowUs: number): number {
    let endsUs = nowUs + this.#leaseMs * 1000;
    for (const { host } of this.#seats)
      for (const { leasedUs, leaseMs } of host.leases.values())
        endsUs = Math.min(endsUs, leasedUs + leaseMs * 1000);
    return Math.max(patienceMinMs, (endsUs - nowUs) / 1000);
  }

  #heedAll(due: readonly Due[], answers: ExtendAnswer["answers"], nowUs: number): void {
    for (const [index, each] of due.entries()) this.#heed(each, answers[index], nowUs);
  }

  #heed(
    { host, attempt, extend }: Due,
    answer: ExtendAnswer["answers"][number] | undefined,
    nowUs: number,
  ): void {
    // Settled meanwhile: its own answer counts.
    if (host.leases.get(attempt.job.id) !== attempt) return;
    if (answer === "stale" || answer === "gone") {
      if (attempt.phase !== "settling") host.aborting.leaseLost(attempt);
      return;
    }
    if (attempt.leasedUs + attempt.leaseMs * 1000 < nowUs + this.#leaseMs * 1000) {
      attempt.leasedUs = nowUs;
      attempt.leaseMs = this.#leaseMs;
    }
    if (extend.startedAgoMs !== undefined) attempt.isStartReported = true;
    if (answer === "cancel-asked") host.aborting.cancelAsked(attempt);
  }

  #dropExpired(host: RenewalHost): void {
    const nowUs = this.#engine.platform.monotonicUs();
    for (const attempt of [...host.leases.values()]) {
      const isOver = nowUs - attempt.leasedUs > attempt.leaseMs * 1000;
      if (isOver && attempt.phase !== "settling") host.aborting.leaseLost(attempt);
    }
  }
}

function extendOf({ abortGraceMs }: RenewalHost, attempt: Attempt, nowUs: number): Extend {
  const { id, seq, fence } = attempt.job;
  if (attempt.phase !== "running" || attempt.isStartReported) return { id, seq, fence };
  const startedAgoMs = Math.max(0, Math.round((nowUs - attempt.startedUs) / 1000));
  const { timeoutMs } = attempt.policy;
  const attemptEndsInMs =
    timeoutMs === null ? null : timeoutMs - startedAgoMs + abortGraceMs + backstopSlackMs;
  return { id, seq, fence, startedAgoMs, attemptEndsInMs };
}

/** Whether a failed claim may have happened all the same. */
export function mayHaveHappened(error: unknown): boolean {
  return !isMillraceError(error) || error.outcome === "unknown";
}
