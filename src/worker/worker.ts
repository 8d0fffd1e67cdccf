/**
 * A worker: pools of slots with handlers, in one process. This file puts its parts together, starts and stops them:
 *
 *   ClaimTriggers ──now──► Claimer ──jobs──► Slots ──attempt──► AttemptRunner ──end──► Settling
 *      ▲                                       │                                          │
 *      │                                     Leases ◄── Renewals extend them              │
 *      │                                       │    ◄── Aborting stops attempts           │
 *      └────────────────a slot is free─────────┴─────────────answered─────────────────────┘
 *
 *   running ──stop()──► stopping ──nothing left──► stopped
 */
import type { Needs } from "../engine/services.ts";
import type { HeldLeases } from "../engine/attempts/held-leases.ts";
import { settlesWithin } from "../engine/calls/settles-within.ts";
import { durationMs, durationText } from "../model/duration.ts";
import type { Duration } from "../model/duration.ts";
import type { MillraceError } from "../model/error.ts";
import { checkOptions } from "../model/option.ts";
import type { DesiredState } from "../engine/fleet/change-numbers.ts";
import type { WorkerMode } from "../engine/fleet/registration.ts";
import type { LeasedJob } from "../store/records.ts";
import type { Hint } from "../store/store.ts";
import type { WorkerLimits } from "./run/context-limits.ts";
import { Aborting } from "./run/aborting.ts";
import type { AbortingNeeds } from "./run/aborting.ts";
import { AttemptRunner } from "./run/attempt-runner.ts";
import type { AttemptRunnerNeeds } from "./run/attempt-runner.ts";
import { ClaimTriggers } from "./claim/claim-triggers.ts";
import type { ClaimTriggersNeeds } from "./claim/claim-triggers.ts";
import { Claimer } from "./claim/claimer.ts";
import { EmptyQueues } from "./fleet/empty-queues.ts";
import { FleetMember } from "./fleet/fleet-member.ts";
import type { Handler } from "./handler.ts";
import { Leases } from "./lease/leases.ts";
import { makePools } from "./claim/make-pools.ts";
import type { MadePools } from "./claim/make-pools.ts";
import type { Renewals, WorkerRenewal } from "./lease/renewal.ts";
import { RouteMap } from "./claim/route-map.ts";
import { Settling } from "./settle/settling.ts";
import type { SettlingNeeds } from "./settle/settling.ts";
import { Slots } from "./run/slots.ts";
import type { SlotsNeeds } from "./run/slots.ts";
import type { WorkerSettings } from "./worker-settings.ts";

/** What the worker itself needs, and what its parts need. */
export type WorkerNeeds = Needs<
  | "store"
  | "platform"
  | "log"
  | "records"
  | "backoffs"
  | "router"
  | "handled"
  | "heartbeat"
  | "queuePolicies"
  | "metrics"
> &
  (ClaimTriggersNeeds & SlotsNeeds & AttemptRunnerNeeds & SettlingNeeds & AbortingNeeds);

export interface StopReport {
  /** Handlers that ignored the abort: their jobs went back, but their code still runs. */
  readonly notStopped: number;
  /** Set if the worker stopped because another process had taken the store over. */
  readonly lost?: MillraceError;
}

/** A worker, as applications see it. */
export interface Worker extends AsyncDisposable {
  /** Unique, and shown in lists and attempt records. */
  readonly id: string;
  /** Jobs whose handler is running now. */
  readonly running: number;
  /** Jobs held here: waiting for a slot, running, or being settled. */
  readonly held: number;
  /** Settles when the worker has stopped, by `stop()`, a signal or an operator. */
  readonly stopped: Promise<StopReport>;
  /**
   * Stops the worker; further calls return the same promise. Jobs that do not finish in time go back, and use up no
   * attempt.
   */
  stop(options?: { readonly grace?: Duration }): Promise<StopReport>;
}

/** What the workers of one process share. */
export interface SharedByWorkers {
  readonly heldLeases: HeldLeases;
  readonly renewals: Renewals;
  readonly stopped: (worker: JobWorker) => void;
  /** Limits for steps and handlers. */
  readonly limits: WorkerLimits;
}

export class JobWorker implements Worker {
  readonly id: string;
  /** The queues that it serves. */
  readonly queues: readonly string[];
  readonly #needs: WorkerNeeds;
  readonly #shared: SharedByWorkers;
  readonly #settings: WorkerSettings;
  readonly #names: readonly string[];
  readonly #leases: Leases;
  readonly #aborting: Aborting;
  readonly #slots: Slots;
  readonly #renewal: WorkerRenewal;
  readonly #triggers: ClaimTriggers;
  readonly #claimer: Claimer;
  readonly #emptyQueues: EmptyQueues;
  readonly #member: FleetMember;
  readonly #whenStopped = Promise.withResolvers<StopReport>();
  /** Undoes at the stop what the start has registered elsewhere. */
  readonly #leave: (() => void)[] = [];
  #closeSandboxes: () => Promise<void> = async () => {};
  #leaveFleet: (() => Promise<void>) | null = null;
  #mode: WorkerMode = "working";
  #stopping: Promise<StopReport> | null = null;
  #whenQuiet: (() => void) | null = null;
  #lost: MillraceError | null = null;

  constructor(
    needs: WorkerNeeds,
    shared: SharedByWorkers,
    handlers: readonly Handler[],
    settings: WorkerSettings,
    { served, pools }: MadePools = makePools(needs, handlers, settings),
  ) {
    const { owner, leaseMs, abortGraceMs, middleware, observers, capabilities } = settings;
    const routes = new RouteMap(pools, handlers, capabilities);
    const { stalls } = shared.renewals;
    const leases = new Leases(() => (this.#triggers.request(), this.#checkQuiet()));
    const settling = new Settling(needs, { leases, routes, stalls, observers });
    const abandonedChanged = (): void => needs.heartbeat.changed();
    const aborting = new Aborting(needs, {
      leases,
      routes,
      stalls,
      graceMs: abortGraceMs,
      abandonedChanged,
    });
    const runner = new AttemptRunner(needs, middleware, shared.limits);
    const adopt = (jobs: readonly LeasedJob[], leasedUs: number): void => this.#adopt(jobs, leasedUs);
    const renewal = shared.renewals.join({ owner, leaseMs, leases, adopt });
    const lost = (error: MillraceError): void => this.#storeLost(error);
    const triggers = new ClaimTriggers(needs, { routes, settling, renewal, lost });
    const names = handlers.map(({ definition }) => definition.name);
    this.#member = new FleetMember(needs, {
      ...{ settings, served, names, versions: versionsOf(handlers), leases, routes, aborting, renewal },
      mode: () => this.#mode,
      running: () => this.running,
      desired: (desired) => this.#desired(desired),
      sharesChanged: () => {
        if (this.#slots.queuesChanged()) needs.heartbeat.changed();
      },
    });
    const slots = new Slots(needs, {
      ...{ owner, leaseMs, leases, routes, runner, settling, aborting, triggers },
      shares: this.#member.shares,
    });
    this.id = owner;
    this.#needs = needs;
    this.#shared = shared;
    this.#settings = settings;
    this.#names = names;
    this.#leases = leases;
    this.#aborting = aborting;
    this.#slots = slots;
    this.#renewal = renewal;
    this.#triggers = triggers;
    this.#claimer = new Claimer(needs, {
      ...{ owner, leaseMs, routes, renewal, slots },
      claimed: (queue, at) => {
        if (settings.isAnnounced) this.#emptyQueues.claimed(queue, at);
      },
    });
    this.#emptyQueues = new EmptyQueues(
      needs,
      (queue) => ![...leases.values()].some(({ job }) => routes.titleOf(job).queue === queue),
    );
    this.queues = [...new Set(pools.map(({ queue }) => queue))];
  }

  get running(): number {
    return this.#slots.running;
  }

  get held(): number {
    return this.#leases.size;
  }

  /** @param closeSandboxes ends the sandboxes of its handlers. */
  start(closeSandboxes: () => Promise<void> = async () => {}): void {
    this.#closeSandboxes = closeSandboxes;
    const { platform, store } = this.#needs;
    this.#leave.push(
      this.#shared.heldLeases.addHolder((lease) => this.#leases.holds(lease)),
      this.#needs.handled.add(this.#names),
    );
    if (this.#settings.wantsSignals) this.#leave.push(platform.onTermination(() => void this.stop()));
    if (this.#settings.isAnnounced) {
      this.#member.start();
      this.#leave.push(this.#needs.queuePolicies.use(this.queues, () => this.#queuesChanged()));
      this.#leaveFleet = this.#needs.heartbeat.join(this.#member);
    }
    this.#slots.queuesChanged();
    if (this.#settings.isAnnounced) this.#logStart();
    this.#leave.push(store.watch((hint) => this.#hinted(hint)));
    this.#triggers.start(this.#claimer);
  }

  #logStart(): void {
    const { leaseMs, shutdownGraceMs, abortGraceMs } = this.#settings;
    this.#needs.log.info("a worker starts", {
      ...{ worker: this.id, queues: this.queues, lease: durationText(leaseMs) },
      ...{ shutdownGrace: durationText(shutdownGraceMs), abortGrace: durationText(abortGraceMs) },
    });
  }

  /** Requests a claim for all pools now, even if the last claim brought less than it asked for. */
  look(): void {
    this.#triggers.requestAll();
  }

  stop(options: { readonly grace?: Duration } = {}): Promise<StopReport> {
    const { grace } = checkOptions(options, "stop", ["grace"]);
    const graceMs = grace === undefined ? this.#settings.shutdownGraceMs : durationMs(grace, "stop: grace");
    if (this.#stopping === null) this.#whenStopped.resolve((this.#stopping = this.#stop(graceMs)));
    return this.#stopping;
  }

  get stopped(): Promise<StopReport> {
    return this.#whenStopped.promise;
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.stop();
  }

  #hinted(hint: Hint): void {
    if (hint.kind === "cancel" && hint.owner === this.id) this.#aborting.cancelHinted(hint.ids);
    if (hint.kind === "signalled" && hint.owner === this.id)
      for (const id of hint.ids) this.#leases.get(id)?.stay?.heard();
  }

  #desired(desired: DesiredState): void {
    if (this.#stopping !== null) return;
    const { state } = desired;
    this.#needs.log.info("an operator has changed the desired state of this worker", {
      worker: this.id,
      state,
    });
    if (state === "stopped") void this.stop(desired.graceMs === null ? {} : { grace: desired.graceMs });
    else this.#setQuiet(state === "quiet");
  }

  /** A quiet worker claims nothing and finishes its running jobs; its shares of totals go to other workers. */
  #setQuiet(isQuiet: boolean): void {
    this.#mode = isQuiet ? "quiet" : "working";
    this.#triggers.setQuiet(isQuiet);
    if (isQuiet) this.#slots.handBackWaiting();
    this.#needs.heartbeat.changed(true);
  }

  /**
   * The settings of one of its queues have changed. If the worker shares totals, the other processes must learn its new
   * one.
   */
  #queuesChanged(): void {
    const { shares } = this.#member;
    shares.compute();
    this.#slots.queuesChanged();
    if (shares.hasTotals) this.#needs.heartbeat.totalsChanged();
  }

  /** Takes up the jobs of a claim whose reply was lost. */
  #adopt(jobs: readonly LeasedJob[], leasedUs: number): void {
    this.#slots.arrive(
      jobs.filter((job) => !this.#leases.wasLost(job)),
      leasedUs,
    );
    this.#triggers.request();
    this.#checkQuiet();
  }

  /** What its handlers do can never be settled, so they are aborted at once. */
  #storeLost(error: MillraceError): void {
    if (this.#stopping !== null) return;
    this.#lost = error;
    this.#needs.log.error("this worker stops, because another process has taken the store over", {
      worker: this.id,
      error,
    });
    void this.stop({ grace: 0 });
  }

  /** Takes no more jobs. Running jobs first get their grace, are then aborted, and at last abandoned. */
  async #stop(graceMs: number): Promise<StopReport> {
    const { platform, records } = this.#needs;
    const { abortGraceMs } = this.#settings;
    this.#mode = "stopping";
    if (this.#settings.isAnnounced) this.#needs.heartbeat.changed(true);
    this.#slots.close();
    this.#emptyQueues.stop();
    // A claim without an answer must not delay the stop. Jobs that it takes are handed back, or reclaimed when their
    // lease ends.
    await settlesWithin(platform, this.#triggers.stop(), Math.max(graceMs, abortGraceMs));
    this.#slots.handBackWaiting();
    for (const { stay } of this.#leases.values()) stay?.drain();
    if (!(await this.#quiet(graceMs))) {
      for (const attempt of this.#leases.values()) this.#aborting.abort(attempt, "shutdown");
      if (!(await this.#quiet(abortGraceMs))) {
        for (const attempt of [...this.#leases.values()])
          if (attempt.phase === "running") this.#aborting.abandon(attempt);
        await this.#quiet(abortGraceMs);
      }
    }
    await settlesWithin(platform, this.#closeSandboxes(), abortGraceMs);
    await settlesWithin(platform, records.whenIdle(), abortGraceMs);
    this.#renewal.leave();
    if (this.#leaveFleet !== null) await settlesWithin(platform, this.#leaveFleet(), abortGraceMs);
    for (const leave of this.#leave) leave();
    // Its last attempts are counted too, if the process ends without closing its Millrace.
    const counted = this.#needs.metrics?.flush() ?? Promise.resolve();
    await settlesWithin(platform, counted, abortGraceMs);
    this.#shared.stopped(this);
    return { notStopped: this.running, ...(this.#lost === null ? {} : { lost: this.#lost }) };
  }

  /** @returns true once every lease is settled, false if the time is over first. */
  async #quiet(limitMs: number): Promise<boolean> {
    if (this.#isQuiet) return true;
    const quiet = new Promise<void>((resolve) => (this.#whenQuiet = resolve));
    await settlesWithin(this.#needs.platform, quiet, limitMs);
    return this.#leases.size === 0;
  }

  get #isQuiet(): boolean {
    return this.#leases.size === 0 && !this.#renewal.isLooking;
  }

  #checkQuiet(): void {
    if (this.#whenQuiet !== null && this.#isQuiet) this.#whenQuiet();
  }
}

/** The versions of the durable handlers, by the names of their jobs. */
function versionsOf(handlers: readonly Handler[]): Readonly<Record<string, readonly number[]>> {
  const durable = handlers.flatMap((made) => {
    const { definition } = made;
    if (made.kind !== "single" || definition.durable === null) return [];
    return [[definition.name, [definition.durable.version, ...(made.older?.keys() ?? [])]] as const];
  });
  return Object.fromEntries(durable);
}
