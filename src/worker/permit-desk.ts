/**
 * Where one process waits for the permits of one limit and weight. The desk is a worker whose handler hands the lease
 * of each claimed permit job to who has waited longest here; model/permit.ts says what a permit job is. So permits are
 * claimed, renewed, lost and settled by the same code as jobs, and nobody polls for one.
 *
 *   waiting ──a permit job was claimed──► held ──released──► settled
 *      └──the wait is over, aborted──► left: one ready permit job is taken away
 *
 * Always true, as far as processes live: there are as many permit jobs as there are who wait and who hold.
 */
import { job } from "../engine/definition.ts";
import type { Engine } from "../engine/engine.ts";
import { limit as limitOf, gatesOf } from "../engine/limit.ts";
import { settlesWithin } from "../engine/race.ts";
import { refusalError } from "../engine/submit.ts";
import { durationText } from "../model/duration.ts";
import { MillraceError } from "../model/error.ts";
import { writePolicy } from "../model/job-policy.ts";
import { removeChange } from "../model/operate.ts";
import { permitAgainMs, permitName, permitPolicy, permitQueue, permitTtlMs } from "../model/permit.ts";
import type { Timer } from "../platform/platform.ts";
import type { NewJob } from "../store/records.ts";
import { Snooze } from "./control.ts";
import type { JobContext } from "./job-context.ts";
import { HeldPermit } from "./permit.ts";
import type { Permit } from "./permit.ts";
import { PermitPool } from "./permit-pool.ts";
import { JobWorker } from "./worker.ts";
import type { SharedByWorkers } from "./worker.ts";
import { readWorkerOptions } from "./worker-settings.ts";

export interface DeskOptions {
  readonly limit: string;
  readonly weight: number;
  readonly leaseMs: number;
}

export interface AcquireWait {
  /** 0 tries once. */
  readonly waitMs: number;
  readonly signal: AbortSignal | undefined;
}

type PermitContext = Pick<JobContext, "id" | "signal">;

interface Waiter {
  readonly granted: (permit: Permit) => void;
  readonly refused: (error: unknown) => void;
  /** The permit jobs that it has submitted: a later one is there while an earlier one runs out. */
  readonly ids: string[];
  submitting: Promise<void>;
}

/** How often who leaves looks for a permit job that is ready. */
const takeAwayTriesMax = 3;
const readyLooksMax = 20;
const scanMax = 10_000;
/** A desk at which nobody waits or holds is kept for a while: the next use is then cheaper. */
const lingerMs = 10_000;

export class PermitDesk {
  readonly #engine: Engine;
  readonly #options: DeskOptions;
  readonly #name: string;
  readonly #gates: NewJob["gates"] & object;
  readonly #pool: PermitPool;
  readonly #worker: JobWorker;
  readonly #idle: () => void;
  readonly #waiters: Waiter[] = [];
  readonly #held = new Map<string, HeldPermit>();
  readonly #leaving = new Set<Promise<void>>();
  /** How many permit jobs are too many because somebody has left: the next that comes for nobody is one of them. */
  #surplus = 0;
  #lingering: Timer | null = null;
  #isClosed = false;

  /** @param idle told when nobody has waited or held for a while: the desk is then to be closed. */
  constructor(engine: Engine, shared: SharedByWorkers, options: DeskOptions, idle: () => void) {
    this.#engine = engine;
    this.#options = options;
    this.#idle = idle;
    const { limit, weight, leaseMs } = options;
    // Only its name and weight count here: what the limit is, the store knows.
    const limits = [limitOf(limit).use({ weight })];
    this.#name = permitName(limit, weight);
    this.#gates = gatesOf(limits);
    this.#pool = new PermitPool(this.#name, () => this.#waiters.length);
    const definition = { ...job("permit"), name: this.#name, queue: permitQueue };
    const handler = {
      kind: "single" as const,
      definition: { ...definition, options: { ...definition.options, limits } },
      handle: (context: PermitContext) => this.#hand(context),
    };
    const settings = {
      ...readWorkerOptions(engine, { lease: leaseMs, shutdownGrace: 0, label: "permits" }),
      onSettled: ({ id }: { readonly id: string }) => this.#settled(id),
      isAnnounced: false,
    };
    this.#worker = new JobWorker(engine, shared, [handler], settings, {
      served: new Map(),
      pools: [this.#pool],
    });
    this.#worker.start();
  }

  /** Refused with `limit-busy` when the wait is over, and with `aborted` when the signal fires. */
  async acquire({ waitMs, signal }: AcquireWait): Promise<Permit> {
    const { platform, settings } = this.#engine;
    this.#lingering?.cancel();
    const got = Promise.withResolvers<Permit>();
    const waiter: Waiter = {
      granted: got.resolve,
      refused: got.reject,
      ids: [],
      submitting: Promise.resolve(),
    };
    this.#waiters.push(waiter);
    const aborted = (): void =>
      this.#refuse(
        waiter,
        new MillraceError("aborted", `${this.#what} was aborted.`, { cause: signal?.reason }),
      );
    const late = (): void => this.#refuse(waiter, this.#busy(waitMs));
    const timer = platform.setTimer(waitMs === 0 ? settings.giveUpMs : waitMs, late);
    signal?.addEventListener("abort", aborted, { once: true });
    const again = this.#submit(waiter);
    if (waitMs === 0) void waiter.submitting.then(() => this.#tryOnce(waiter, late));
    try {
      return await got.promise;
    } finally {
      timer.cancel();
      again();
      signal?.removeEventListener("abort", aborted);
      this.#rest();
    }
  }

  /** Who waits is refused, who holds is told by the permit's signal. */
  async close(): Promise<void> {
    this.#isClosed = true;
    this.#lingering?.cancel();
    const { platform, settings } = this.#engine;
    for (const waiter of [...this.#waiters])
      this.#refuse(waiter, new MillraceError("closed", `${this.#what}: this Millrace was closed.`));
    await this.#worker.stop();
    await settlesWithin(platform, Promise.all(this.#leaving), settings.giveUpMs);
  }

  get #what(): string {
    return `acquire ${JSON.stringify(this.#options.limit)}`;
  }

  #busy(waitMs: number): MillraceError {
    const within = waitMs === 0 ? "right now" : `within ${durationText(waitMs)}`;
    return new MillraceError("limit-busy", `${this.#what}: no permit was free ${within}.`);
  }

  /** The handler of a permit job: it runs for as long as the permit is held. */
  async #hand(context: PermitContext): Promise<Snooze | undefined> {
    const waiter = this.#waiters.shift();
    if (waiter === undefined) {
      // Claimed for somebody who has left meanwhile. Unless it is one too many, another process waits for it.
      if (this.#surplus === 0) return new Snooze(0);
      this.#surplus -= 1;
      return undefined;
    }
    const permit = new HeldPermit(this.#engine, this.#options);
    this.#held.set(context.id, permit);
    waiter.granted(permit);
    await permit.holdFor(context);
    // A permit that was lost is not settled.
    if (permit.signal.aborted) this.#settled(context.id);
    return undefined;
  }

  #settled(id: string): void {
    this.#held.get(id)?.settled();
    this.#held.delete(id);
    this.#rest();
  }

  /** Submits a permit job, and another one whenever the last is about to run out. @returns a function that ends it. */
  #submit(waiter: Waiter): () => void {
    let timer: Timer | null = null;
    const submit = (): void => {
      timer = this.#engine.platform.setTimer(permitAgainMs, submit);
      waiter.submitting = this.#submitOne().then(
        (id) => void waiter.ids.push(id),
        (error: unknown) => this.#refuse(waiter, error),
      );
    };
    submit();
    return () => timer?.cancel();
  }

  async #submitOne(): Promise<string> {
    const permitJob: NewJob = {
      ...{ id: this.#engine.mintId(), digest: null, queue: permitQueue, name: this.#name },
      ...{ input: "null", policy: writePolicy(permitPolicy), meta: null, tags: null },
      ...{ due: { inMs: 0 }, rankBase: 0, rankSlope: 1, deadline: null, ttlMs: permitTtlMs, unique: null },
      gates: this.#gates,
    };
    const answer = await this.#engine.submit({ jobs: [permitJob] });
    if (answer.kind === "refused") throw refusalError(answer);
    return answer.ids[0] as string;
  }

  /** The permit job is there: who is not served by a claim from now on is too late. */
  #tryOnce(waiter: Waiter, late: () => void): void {
    if (!this.#waiters.includes(waiter)) return;
    // What the claim brings is handed over before the turn is over.
    this.#pool.afterNextClaim(() => this.#engine.platform.defer(late));
    this.#worker.look();
  }

  #refuse(waiter: Waiter, error: unknown): void {
    const at = this.#waiters.indexOf(waiter);
    if (at < 0) return;
    this.#waiters.splice(at, 1);
    this.#surplus += 1;
    const leaving = this.#takeAway(waiter)
      .catch((trouble: unknown) =>
        this.#engine.log.debug("a permit job that nobody waits for stays until its time is over", {
          trouble,
        }),
      )
      .finally(() => {
        this.#leaving.delete(leaving);
        this.#rest();
      });
    this.#leaving.add(leaving);
    waiter.refused(error);
  }

  /** Takes one ready permit job away, unless one that came for nobody was ended instead. */
  async #takeAway(waiter: Waiter): Promise<void> {
    await waiter.submitting;
    if (waiter.ids.length === 0) {
      // Its submit failed: every permit job that is there is another's. One that was made all the same runs out.
      this.#surplus = Math.max(0, this.#surplus - 1);
      return;
    }
    for (let tries = 0; tries < takeAwayTriesMax && this.#surplus > 0; tries++) {
      this.#surplus -= 1;
      if (await this.#takeOne(waiter.ids)) return;
      this.#surplus += 1;
    }
  }

  /** Its own; where somebody else has claimed that, any other: they are alike. */
  async #takeOne(own: readonly string[]): Promise<boolean> {
    for (const id of own) if (await this.#takeReady(id)) return true;
    const { jobs } = await this.#engine.store.findJobs({
      filter: { queue: permitQueue, name: this.#name, states: ["ready"] },
      max: readyLooksMax,
      scanMax,
      cursor: null,
    });
    for (const { id } of jobs) if (await this.#takeReady(id)) return true;
    return false;
  }

  async #takeReady(id: string): Promise<boolean> {
    const cases = [{ guard: { states: ["ready"] as const }, next: removeChange.next }];
    return (await this.#engine.changes.add({ id, cases })).kind === "ok";
  }

  #rest(): void {
    if (this.#isClosed || this.#waiters.length + this.#held.size + this.#leaving.size > 0) return;
    this.#lingering?.cancel();
    this.#lingering = this.#engine.platform.setTimer(lingerMs, this.#idle, false);
  }
}
