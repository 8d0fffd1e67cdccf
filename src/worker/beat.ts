/**
 * The beat of a process: the few periodic calls by which its workers are known to the fleet and hear what is meant for
 * them when every hint was lost. All workers of the process share them.
 *
 *   write   the notice of each worker; oftener while one of its queues has a total, because its share is given to others
 *           as soon as its notice has run out
 *   read    orders and bells for its workers (worker-bell.ts), while jobs run here once a second, else at half that pace:
 *           an idle worker has nothing to cancel, and reads at once when it gets work. The same read brings the signs of
 *           the processes whose terms this one waits for (engine/term-book.ts), and while a queue has a total all
 *           notices; a notice that is about to run out is looked at just when it does. A hint that somebody has rung
 *           brings the next read forward
 *   round   what nobody rings for: how long the store keeps jobs, and settings of queues whose bell was not written
 *
 * Always true: nothing here is needed for a job to run; a call that fails is made again at its next time.
 */
import { allDocs } from "../engine/all-docs.ts";
import type { Engine } from "../engine/engine.ts";
import { answersWithin } from "../engine/race.ts";
import { bellIds, readCancelled, readOrder, rings, webhooksBellId } from "../engine/worker-bell.ts";
import type { WorkerOrder } from "../engine/worker-bell.ts";
import {
  leftPut,
  noticePut,
  readNotice,
  readNotices,
  registryPrefix,
  workerKind,
} from "../engine/worker-notice.ts";
import type { LiveWorker, WorkerNotice } from "../engine/worker-notice.ts";
import type { Timer } from "../platform/platform.ts";
import type { PutDocAnswer } from "../store/operations.ts";
import type { Doc, DocPut, PutEvent } from "../store/records.ts";

const readEveryMs = { busy: 1050, idle: 2800 };
/** While a queue has a total, a worker that was killed is out of the shares when its notice has run out. */
const writeEveryMs = { inFleet: 2800, alone: 20_000 };
const noticeTtlMs = { inFleet: 4000, alone: 60_000 };
const roundEveryMs = 20_000;
/** A bell stands in front of the settings of queues, so that most rounds read nothing. */
const roundsPerLook = 3;
/**
 * A look at a notice that runs out comes so far behind its end: in a large fleet one is always about to, and most are
 * renewed. A worker that was killed is out of the shares 4.6 s after its last notice.
 */
const behindEndMs = 600;
const readLeastMs = 200;
/** A read that a ring asks for: processes spread theirs, and rings in a row share one. */
const rungMs = { spread: 60, gap: 250 };
/** The calls of processes that were started together drift apart. */
const jitter = 0.07;
const callMaxMs = 10_000;

/** A worker, as far as the beat goes. */
export interface BeatSeat {
  readonly owner: string;
  /** It has jobs. */
  readonly isBusy: boolean;
  /** One of its queues has a total, so that it must know who else is there. */
  readonly hasTotals: boolean;
  readonly notice: () => Omit<
    WorkerNotice,
    "host" | "processId" | "duties" | "memoryBytes" | "loopDelayMs" | "writtenAt" | "ttlMs"
  >;
  readonly ordered: (order: WorkerOrder) => void;
  /** These jobs are to be cancelled, or, where some bells were not heard, perhaps any. */
  readonly cancelRung: (ids: readonly string[] | null) => void;
  /** All live workers, as the registry has them. */
  readonly fleetSeen: (workers: readonly LiveWorker[]) => void;
  /** The registry cannot be read. */
  readonly fleetUnseen: () => void;
}

export class Beat {
  readonly #engine: Engine;
  readonly #seats = new Set<BeatSeat>();
  /** By the id of a document that is listened to, the version that was heard last. */
  readonly #heard = new Map<string, number>();
  /** Those of which the feed was told that they joined. */
  readonly #joined = new WeakSet<BeatSeat>();
  /** Monotonic, when the last notice was sent that the store has taken. */
  #writtenUs = 0;
  /** Settles when every notice that was sent is answered or given up. */
  #writing: Promise<void> = Promise.resolve();
  #lateMs = 0;
  #readUs = 0;
  #isReading = false;
  #rounds = 0;
  /** The workers of other processes that were seen last. */
  #others: ReadonlySet<string> = new Set();
  /** The next read comes at the pace of a busy process. */
  #isHurried = false;
  /** The next read answers a ring. */
  #isRung = false;
  readonly #timers: Record<"read" | "write" | "round", Timer | null> = {
    read: null,
    write: null,
    round: null,
  };

  constructor(engine: Engine) {
    this.#engine = engine;
  }

  /** @returns a function that takes the worker out of the registry. */
  join(seat: BeatSeat): () => Promise<void> {
    this.#seats.add(seat);
    this.#engine.terms.readRegistry = () => void this.#read();
    void this.#write();
    this.#hearRound();
    if (seat.hasTotals) void this.#read();
    else this.#setRead(readEveryMs.idle);
    return async () => {
      this.#seats.delete(seat);
      if (this.#seats.size === 0) {
        for (const timer of Object.values(this.#timers)) timer?.cancel();
        this.#engine.terms.readRegistry = null;
      }
      // A notice that is still on its way must not come behind the end of it.
      await this.#writing;
      await this.#put([noticePut(seat.owner, null), leftPut(seat.owner, true)]);
    };
  }

  /** What a notice says has changed: it is written at once. @param isRinging others are to read it at once, too. */
  changed(isRinging = false): void {
    if (this.#seats.size > 0) void this.#write(isRinging && this.#isInFleet);
  }

  /** Somebody has rung, perhaps for a worker of this process. */
  rung(): void {
    if (this.#isRung || this.#seats.size === 0) return;
    this.#isRung = true;
    if (!this.#isReading) this.#setRungRead();
  }

  /** A worker that was idle has jobs, so that somebody may want to cancel one. */
  hurry(): void {
    if (this.#isHurried || this.#isReading || this.#isRung || this.#seats.size === 0) return;
    this.#isHurried = true;
    const sinceMs = (this.#engine.platform.monotonicUs() - this.#readUs) / 1000;
    this.#setRead(Math.max(0, readEveryMs.busy - sinceMs));
  }

  /** The list of workers is wanted now: a total was set. */
  look(): void {
    void this.#write();
    void this.#read();
  }

  get #isInFleet(): boolean {
    return [...this.#seats].some(({ hasTotals }) => hasTotals);
  }

  async #write(isRinging = false): Promise<void> {
    const { platform } = this.#engine;
    const pace = this.#isInFleet ? "inFleet" : "alone";
    this.#set("write", writeEveryMs[pace], () => void this.#write());
    const shared = {
      host: platform.hostName,
      processId: platform.processId,
      duties: this.#engine.readDuties(),
      memoryBytes: platform.memoryBytes(),
      loopDelayMs: Math.round(this.#lateMs),
      writtenAt: platform.now(),
      ttlMs: noticeTtlMs[pace],
    };
    this.#lateMs = 0;
    const sentUs = platform.monotonicUs();
    const seats = [...this.#seats];
    const puts = seats.map((seat) => {
      const put = noticePut(seat.owner, { ...seat.notice(), ...shared });
      if (this.#joined.has(seat)) return isRinging ? rings(put) : put;
      return { ...put, tells: joined(seat) };
    });
    // Not told again while the answer is on its way; one that was lost may have been told.
    for (const seat of seats) this.#joined.add(seat);
    const sign = this.#engine.terms.renewal();
    const writing = this.#put(sign === null ? puts : [...puts, sign]);
    this.#writing = Promise.all([this.#writing, writing]).then(([, answers]) => {
      if (answers !== null) this.#writtenUs = sentUs;
      if (sign !== null) this.#engine.terms.renewed(answers?.at(-1) ?? null, sentUs);
    });
    await this.#writing;
  }

  async #put(puts: readonly DocPut[]): Promise<readonly PutDocAnswer[] | null> {
    try {
      return await answersWithin(this.#engine.platform, this.#engine.store.putDocs(puts), callMaxMs);
    } catch (error) {
      this.#engine.log.debug("the notices of workers could not be written", { error });
      return null;
    }
  }

  async #read(): Promise<void> {
    if (this.#isReading || this.#seats.size === 0) return;
    this.#isReading = true;
    this.#isRung = false;
    const { platform, log, terms } = this.#engine;
    this.#readUs = platform.monotonicUs();
    let endsInMs = Number.POSITIVE_INFINITY;
    try {
      const isInFleet = this.#isInFleet;
      const signs = terms.watched;
      const read = isInFleet ? this.#readAll() : this.#readOwn(signs);
      const docs = await answersWithin(platform, read, callMaxMs);
      this.#hear(docs);
      terms.seen(docs, signs);
      if (isInFleet) endsInMs = this.#showFleet(docs);
    } catch (error) {
      log.debug("the registry of workers could not be read; what was known last holds", { error });
      for (const seat of this.#seats) seat.fleetUnseen();
    }
    this.#isReading = false;
    this.#isHurried = [...this.#seats].some((seat) => seat.isBusy);
    if (this.#isRung) return this.#setRungRead();
    const regularMs = this.#isHurried ? readEveryMs.busy : readEveryMs.idle;
    this.#setRead(Math.min(regularMs, Math.max(readLeastMs, endsInMs + behindEndMs)));
  }

  async #readAll(): Promise<readonly Doc[]> {
    const docs: Doc[] = [];
    for await (const doc of allDocs(this.#engine.store, { kind: workerKind, prefix: registryPrefix }))
      docs.push(doc);
    return docs;
  }

  async #readOwn(signs: ReadonlySet<string>): Promise<readonly Doc[]> {
    const own = [...this.#seats].flatMap(({ owner }) => Object.values(bellIds(owner)));
    const ids = [...own, webhooksBellId, ...signs];
    const sign = signs.size === 0 ? this.#engine.terms.renewal() : null;
    const news = sign === null ? ids : await this.#renewAndAsk(sign, ids);
    return news.length === 0 ? [] : (await this.#engine.store.readDocs({ kind: workerKind, ids: news })).docs;
  }

  /**
   * Renews the sign of this process and asks in the same call which of these documents were written: the removal of what
   * has to be absent changes nothing, and its refusal tells the version. @returns what was not heard yet.
   */
  async #renewAndAsk(sign: DocPut, ids: readonly string[]): Promise<readonly string[]> {
    const { platform, terms, store } = this.#engine;
    const sentUs = platform.monotonicUs();
    const asks = ids.map((id): DocPut => ({ kind: workerKind, id, body: null, guard: "absent" }));
    try {
      const [renewed = null, ...answers] = await answersWithin(
        platform,
        store.putDocs([sign, ...asks]),
        callMaxMs,
      );
      terms.renewed(renewed, sentUs);
      return ids.filter((id, at) => {
        const answer = answers[at];
        return answer?.kind === "changed" && answer.version !== this.#heard.get(id);
      });
    } catch (error) {
      terms.renewed(null, sentUs);
      throw error;
    }
  }

  #hear(docs: readonly Doc[]): void {
    const byId = new Map(docs.map((doc) => [doc.id, doc]));
    if (this.#news(byId.get(webhooksBellId)) !== null) for (const told of this.#engine.webhookChanges) told();
    for (const seat of this.#seats) {
      const ids = bellIds(seat.owner);
      const order = this.#news(byId.get(ids.order));
      const told = order === null ? null : readOrder(order.doc);
      if (told !== null) seat.ordered(told);
      const cancel = this.#news(byId.get(ids.cancel));
      if (cancel !== null) seat.cancelRung(cancel.isNext ? readCancelled(cancel.doc) : null);
      if (this.#news(byId.get(ids.settings)) !== null) void this.#engine.queuePolicies.refresh();
    }
  }

  /** The document, where it was written since it was heard last, and whether only once. */
  #news(doc: Doc | undefined): { readonly doc: Doc; readonly isNext: boolean } | null {
    if (doc === undefined) return null;
    const heard = this.#heard.get(doc.id);
    if (heard === doc.version) return null;
    this.#heard.set(doc.id, doc.version);
    return { doc, isNext: doc.version === (heard ?? 0) + 1 };
  }

  /** @returns how long until the first notice of another process runs out. */
  #showFleet(docs: readonly Doc[]): number {
    const workers = docs.map(readNotice).filter((worker) => worker !== null);
    for (const seat of this.#seats) if (seat.hasTotals) seat.fleetSeen(workers);
    this.#see(workers);
    const owners = new Set([...this.#seats].map(({ owner }) => owner));
    const own = workers.find(({ worker }) => owners.has(worker));
    if (own === undefined) return Number.POSITIVE_INFINITY;
    // The store's time now: that of the own notice, and what has passed since it was written.
    const agoMs = (this.#engine.platform.monotonicUs() - this.#writtenUs) / 1000;
    const storeNow = own.expiresAt - own.ttlMs + agoMs;
    const others = workers.filter(({ worker }) => !owners.has(worker));
    return Math.min(...others.map(({ expiresAt }) => expiresAt - storeNow));
  }

  #hearRound(): void {
    this.#set("round", roundEveryMs, () => this.#hearRound());
    void this.#hearRetention();
    if (this.#rounds++ % roundsPerLook !== 0) return;
    void this.#engine.queuePolicies.refresh();
    void this.#countOthers();
  }

  /** Whether there is anybody who may stand by (claim-turns.ts). */
  async #countOthers(): Promise<void> {
    try {
      this.#see(await readNotices(this.#engine.store, true));
    } catch (error) {
      this.#engine.log.debug("the registry of workers could not be counted", { error });
    }
  }

  #see(workers: readonly LiveWorker[]): void {
    const owners = new Set([...this.#seats].map(({ owner }) => owner));
    const others = new Set(workers.map(({ worker }) => worker).filter((worker) => !owners.has(worker)));
    // A worker that was killed tells nothing: whoever misses its notice does, and the first of them is heard.
    const missed = [...this.#others].filter((worker) => !others.has(worker) && !owners.has(worker));
    if (missed.length > 0) void this.#put(missed.map((worker) => leftPut(worker, false)));
    this.#others = others;
    this.#engine.fleet.others = others.size;
  }

  /** Only an outcome of which nothing is kept matters before the retention duty comes. Unheard, everything is kept. */
  async #hearRetention(): Promise<void> {
    const { retention, log } = this.#engine;
    const mayLeaveOut = Object.values(retention.known ?? {}).includes(0);
    if (!mayLeaveOut && !retention.isUndeclared) return;
    try {
      await retention.learn();
    } catch (error) {
      log.debug("the retention of the store could not be read", { error });
    }
  }

  #setRungRead(): void {
    const { platform } = this.#engine;
    const sinceMs = (platform.monotonicUs() - this.#readUs) / 1000;
    this.#setRead(Math.max(platform.random() * rungMs.spread, rungMs.gap - sinceMs));
  }

  #setRead(inMs: number): void {
    this.#set("read", inMs, () => void this.#read());
  }

  #set(which: "read" | "write" | "round", inMs: number, run: () => void): void {
    this.#timers[which]?.cancel();
    if (this.#seats.size === 0) return;
    const { platform } = this.#engine;
    const delayMs = Math.round(inMs * (1 - platform.random() * jitter));
    const dueUs = platform.monotonicUs() + delayMs * 1000;
    const rang = (): void => {
      this.#lateMs = Math.max(this.#lateMs, (platform.monotonicUs() - dueUs) / 1000);
      run();
    };
    this.#timers[which] = platform.setTimer(delayMs, rang, false);
  }
}

function joined({ owner }: BeatSeat): PutEvent {
  return { kind: "worker-joined", subject: owner, extra: null };
}
