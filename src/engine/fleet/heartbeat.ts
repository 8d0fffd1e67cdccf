/**
 * The process heartbeat: one call per second and process with workers or duties. It keeps the process in the registry
 * and brings everything that a lost hint may have announced.
 *
 *   write   the registration of the process with its workers (registration.ts), if it has changed or would expire
 *           soon. It also keeps the leader lease (leadership.ts)
 *   read    change numbers and desired states (change-numbers.ts), and the leader. While a queue has a total, every
 *           second heartbeat reads the whole registry instead; so does one per minute, and one after a worker joined
 *   learn   the store's next clock, for the duties, and the routes with ready jobs, for the workers: neither polls
 *
 * Always true: no job needs a heartbeat to run, and a failed call is repeated a second later.
 */
import type { Timer } from "../../platform/platform.ts";
import type { ReadDocsAnswer, ReadDocsRequest } from "../../store/operations.ts";
import type { Doc, DocPut, PutEvent } from "../../store/records.ts";
import type { DutyFigures } from "../duties/duty-figures.ts";
import { isMillraceError } from "../../model/error.ts";
import { RepeatedLine } from "../log/repeated-line.ts";
import { allDocs, docsPageMax } from "../docs/all-docs.ts";
import type { Needs } from "../services.ts";
import { answersWithin } from "../calls/settles-within.ts";
import { cancelsId, changeId, changePut, desiredId, readDesired } from "./change-numbers.ts";
import type { ChangeTopic, DesiredState } from "./change-numbers.ts";
import {
  leftPut,
  readRegistration,
  registrationPut,
  registryKind,
  registryPrefix,
  workersOf,
} from "./registration.ts";
import type { LiveWorker, Registration, WorkerRegistration } from "./registration.ts";

type HeartbeatNeeds = Needs<
  | "store"
  | "platform"
  | "log"
  | "retention"
  | "clocks"
  | "webhookDocs"
  | "otherWorkers"
  | "queuePolicies"
  | "leadership"
>;

/** After a lost hint, this wait and a call or two add up to 1.2 s. */
const everyMs = 1060;
/** Lets the calls of processes that were started together drift apart. */
const jitter = 0.03;
/** Renewed with every second heartbeat. If one fails, the next repeats it before the registration expires. */
const registrationMs = { ttl: 3400, renewAfter: 1500 };
/** With totals: every second heartbeat. */
const readAllEveryMs = 1500;
/** The slow read of everything that change numbers announce. */
const lookEveryMs = 60_000;
/** The next heartbeat does not wait for a hanging one: the registration must be renewed in time. */
const callMaxMs = 1500;

/** A worker as the heartbeat of its process sees it (worker/fleet/fleet-member.ts). */
export interface RegisteredWorker {
  readonly owner: string;
  /** One of its queues has a total, so it must know the other workers. */
  readonly hasTotals: boolean;
  readonly registration: () => WorkerRegistration;
  readonly desired: (desired: DesiredState) => void;
  /** Called if some of its running jobs are to be cancelled. */
  readonly cancelsChanged: () => void;
  /** Called with all live workers of the registry. */
  readonly fleetSeen: (workers: readonly LiveWorker[]) => void;
  /** Called if the registry cannot be read. */
  readonly fleetUnseen: () => void;
}

/** Called after every heartbeat with the routes that have ready jobs; with null if the call failed. */
type Claimer = (ready: readonly number[] | null) => void;

/** In a row, while the store is away. A claim or a duty that fails has warned of that before. */
const failuresToWarn = 60;
const unregisteredLine =
  "the workers of this process cannot be registered: others do not see them, and their share of totals is taken";

export class Heartbeat {
  readonly #needs: HeartbeatNeeds;
  /** Names this process in the registry. */
  readonly process: string;
  readonly #workers = new Set<RegisteredWorker>();
  readonly #claimers = new Set<Claimer>();
  /** The versions of documents that were read last, by id. */
  readonly #known = new Map<string, number>();
  #timer: Timer | null = null;
  #hasDuties = false;
  #readDuties: () => Readonly<Record<string, DutyFigures>> = () => ({});
  #lateMs = 0;
  #calling: Promise<void> | null = null;
  /** Another call must follow the one in flight at once. */
  #isAskedAgain = false;
  #mustWrite = false;
  #mustReadAll = false;
  /** Documents to write with the next registration. */
  #news: DocPut[] = [];
  // Monotonic times. A registration is valid from when the call that wrote it was sent.
  #writtenUs = Number.NEGATIVE_INFINITY;
  #readAllUs = Number.NEGATIVE_INFINITY;
  #lookedUs: number;
  /** Of heartbeats, in a row. */
  #failures = 0;
  readonly #unregistered: RepeatedLine;

  constructor(needs: HeartbeatNeeds, process: string) {
    this.#needs = needs;
    this.#unregistered = new RepeatedLine(needs, "warn", unregisteredLine);
    this.process = process;
    this.#lookedUs = needs.platform.monotonicUs();
  }

  /** Called when the duties of the process start. @param readDuties their figures, by name. */
  start(readDuties: () => Readonly<Record<string, DutyFigures>>): void {
    this.#hasDuties = true;
    this.#readDuties = readDuties;
    this.#setTimer();
    if (!this.#needs.leadership.isAlone) void this.#now();
  }

  /** Called when the process stops: deletes its registration, so that another process may lead. */
  async stop(): Promise<void> {
    this.#hasDuties = false;
    this.#setTimer();
    await this.#calling;
    const puts = this.#needs.leadership.leave();
    await this.#put([...puts, registrationPut(this.process, null)]);
  }

  /** @returns a function that deletes the worker from the registry. */
  join(worker: RegisteredWorker): () => Promise<void> {
    this.#workers.add(worker);
    this.#news.push(joinedPut(worker));
    this.#mustReadAll = true;
    this.#setTimer();
    void this.#now();
    void this.#needs.retention.hear(this.#needs.log);
    return async () => {
      this.#workers.delete(worker);
      this.#news.push(leftPut(worker.owner, true), changePut("members"));
      await this.#now();
      this.#setTimer();
    };
  }

  /** @returns a function that ends this. */
  addClaimer(claimer: Claimer): () => void {
    this.#claimers.add(claimer);
    this.#setTimer();
    return () => {
      this.#claimers.delete(claimer);
      this.#setTimer();
    };
  }

  /**
   * The registration has changed and is written at once. @param isShared whether the shares of other workers may
   * change.
   */
  changed(isShared = false): void {
    if (this.#workers.size === 0) return;
    if (isShared && this.#hasTotals) this.#news.push(changePut("members"));
    void this.#now();
  }

  /** A total was set, so the list of workers is needed at once. */
  totalsChanged(): void {
    this.#mustReadAll = true;
    this.changed(true);
  }

  get #hasTotals(): boolean {
    return [...this.#workers].some(({ hasTotals }) => hasTotals);
  }

  #setTimer(): void {
    this.#timer?.cancel();
    const isNeeded =
      this.#workers.size + this.#claimers.size > 0 || (this.#hasDuties && !this.#needs.leadership.isAlone);
    if (!isNeeded) return;
    const { platform } = this.#needs;
    const delayMs = Math.round(everyMs * (1 - platform.random() * jitter));
    const dueUs = platform.monotonicUs() + delayMs * 1000;
    const fired = (): void => {
      this.#lateMs = Math.max(this.#lateMs, (platform.monotonicUs() - dueUs) / 1000);
      this.#timerFired();
    };
    // Only a process that claims is kept alive by this timer.
    this.#timer = platform.setTimer(delayMs, fired, this.#claimers.size > 0);
  }

  #timerFired(): void {
    this.#setTimer();
    if (this.#sinceMs(this.#lookedUs) >= lookEveryMs) this.#look();
    if (this.#calling === null) void this.#send();
  }

  /** Reads everything that change numbers announce, in case one of them was never written. */
  #look(): void {
    this.#lookedUs = this.#needs.platform.monotonicUs();
    this.#mustReadAll = true;
    this.#readSettings();
  }

  /** Sends a heartbeat that writes, now or after the call in flight. */
  #now(): Promise<void> {
    this.#mustWrite = true;
    if (this.#calling === null) return this.#send();
    this.#isAskedAgain = true;
    return this.#calling;
  }

  #send(): Promise<void> {
    this.#calling = this.#sendAll().finally(() => (this.#calling = null));
    return this.#calling;
  }

  async #sendAll(): Promise<void> {
    do {
      this.#isAskedAgain = false;
      try {
        await this.#call();
        this.#failures = 0;
        this.#unregistered.over();
      } catch (error) {
        this.#needs.log.debug("a heartbeat failed; the next one follows in a second", { error });
        this.#failures += 1;
        const isAway = isMillraceError(error) && error.retryable;
        const isToWarn = this.#workers.size > 0 && (!isAway || this.#failures >= failuresToWarn);
        if (isToWarn) this.#unregistered.say({ error });
        for (const worker of this.#workers) worker.fleetUnseen();
        // The routes with ready jobs are not known.
        for (const claimer of this.#claimers) claimer(null);
      }
    } while (this.#isAskedAgain);
  }

  async #call(): Promise<void> {
    const { platform, store, leadership, clocks } = this.#needs;
    const puts = this.#takePuts();
    const isWhole =
      this.#mustReadAll || (this.#hasTotals && this.#sinceMs(this.#readAllUs) >= readAllEveryMs);
    const ids = new Set(this.#ids());
    const read: ReadDocsRequest = isWhole ? readAll : { kind: registryKind, ids: [...ids] };
    const sentUs = platform.monotonicUs();
    this.#mustReadAll = false;
    const answer = await answersWithin(platform, store.heartbeat({ puts, read }), callMaxMs);
    clocks.nextRead.emit(answer.nextDueInMs);
    for (const claimer of this.#claimers) claimer(answer.ready);
    if (puts.length > 0) {
      this.#writtenUs = sentUs;
      leadership.renewed(sentUs, registrationMs.ttl);
    }
    const all = await this.#withRest(answer.read);
    const byId = new Map(all.map((doc) => [doc.id, doc]));
    this.#hear(byId);
    await leadership.seen(byId, (id) => isWhole || ids.has(id));
    if (isWhole) this.#showFleet(all, sentUs);
  }

  /** The registration, if it must be written, and the documents to write with it. */
  #takePuts(): readonly DocPut[] {
    if (!this.#mustWrite && this.#sinceMs(this.#writtenUs) < registrationMs.renewAfter) return [];
    const news = this.#news;
    this.#news = [];
    // Not written until the answer is there, so a failed call is repeated with the registration.
    this.#mustWrite = false;
    this.#writtenUs = Number.NEGATIVE_INFINITY;
    return [registrationPut(this.process, this.#registration()), ...news];
  }

  #registration(): Registration {
    const { platform, leadership } = this.#needs;
    const loopDelayMs = Math.round(this.#lateMs);
    this.#lateMs = 0;
    return {
      host: platform.hostName,
      processId: platform.processId,
      duties: this.#readDuties(),
      memoryBytes: platform.memoryBytes(),
      loopDelayMs,
      isCandidate: leadership.isCandidate,
      writtenAt: platform.now(),
      ttlMs: registrationMs.ttl,
      workers: Object.fromEntries([...this.#workers].map((worker) => [worker.owner, worker.registration()])),
    };
  }

  *#ids(): Generator<string> {
    yield* this.#needs.leadership.watched;
    yield changeId("webhooks");
    if (this.#workers.size === 0) return;
    yield changeId("settings");
    yield changeId("members");
    for (const { owner } of this.#workers) {
      yield desiredId(owner);
      yield cancelsId(owner);
    }
  }

  /** A large registry takes further reads. */
  async #withRest({ docs, cursor }: ReadDocsAnswer): Promise<readonly Doc[]> {
    if (cursor === null) return docs;
    const all = [...docs];
    const { store } = this.#needs;
    for await (const doc of allDocs(store, { kind: registryKind, prefix: registryPrefix, behind: cursor }))
      all.push(doc);
    return all;
  }

  #hear(docs: ReadonlyMap<string, Doc>): void {
    const hasGrown = (topic: ChangeTopic): boolean => this.#newer(docs.get(changeId(topic))) !== null;
    if (hasGrown("webhooks")) this.#needs.webhookDocs.changed.emit();
    if (hasGrown("settings")) this.#readSettings();
    if (hasGrown("members")) this.#mustReadAll = this.#isAskedAgain = true;
    for (const worker of this.#workers) {
      const doc = this.#newer(docs.get(desiredId(worker.owner)));
      const desired = doc === null ? null : readDesired(doc);
      if (desired !== null) worker.desired(desired);
      if (this.#newer(docs.get(cancelsId(worker.owner))) !== null) worker.cancelsChanged();
    }
  }

  /** The document, if it was written since the last read. */
  #newer(doc: Doc | undefined): Doc | null {
    if (doc === undefined || this.#known.get(doc.id) === doc.version) return null;
    this.#known.set(doc.id, doc.version);
    return doc;
  }

  #showFleet(docs: readonly Doc[], sentUs: number): void {
    this.#readAllUs = sentUs;
    const workers = docs.flatMap((doc) => {
      const process = readRegistration(doc);
      return process === null ? [] : workersOf(process);
    });
    for (const worker of this.#workers) if (worker.hasTotals) worker.fleetSeen(workers);
    const own = new Set([...this.#workers].map(({ owner }) => owner));
    const left = this.#needs.otherWorkers.see(workers, own);
    if (left.length > 0) void this.#put(left);
  }

  #readSettings(): void {
    void this.#needs.queuePolicies.refresh();
    void this.#needs.retention.hear(this.#needs.log);
  }

  async #put(puts: readonly DocPut[]): Promise<void> {
    const { platform, store, log } = this.#needs;
    try {
      await answersWithin(platform, store.putDocs(puts), callMaxMs);
    } catch (error) {
      log.debug("the registry could not be written", { error });
    }
  }

  #sinceMs(us: number): number {
    return (this.#needs.platform.monotonicUs() - us) / 1000;
  }
}

/** All documents of the registry, as far as one read returns them. */
const readAll: ReadDocsRequest = {
  ...{ kind: registryKind, prefix: registryPrefix, after: null },
  max: docsPageMax,
};

/** Raises the change number of the members and emits that the worker joined. */
function joinedPut({ owner }: RegisteredWorker): DocPut {
  const emits: PutEvent = { kind: "worker-joined", subject: owner, extra: null };
  return { ...changePut("members"), emits };
}
