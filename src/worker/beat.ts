/**
 * The beat of a process: once a second one call by which its workers claim, are known to the fleet and hear what is
 * meant for them when every hint was lost. All workers of the process share it.
 *
 *   claim   each worker that has a slot free claims with the beat; what follows rides with the claim of the first of
 *           them (beat-call.ts)
 *   write   the notice of each worker, and the sign of the terms that the process holds (engine/term-book.ts); oftener
 *           while one of its queues has a total, because its share is given to others as soon as its notice has run out
 *   read    orders and bells for its workers (worker-bell.ts), and the signs of the processes whose terms this one
 *           waits for. While a queue has a total all notices, with every second beat and where one must have run out. A
 *           hint that somebody has rung brings a read between two beats
 *   round   what nobody rings for: how long the store keeps jobs, and settings of queues whose bell was not written
 *
 * Always true: nothing here but the claims is needed for a job to run; a call that fails is made again with the next
 * beat.
 */
import { allDocs, docsPageMax } from "../engine/all-docs.ts";
import type { Engine } from "../engine/engine.ts";
import { answersWithin } from "../engine/race.ts";
import { bellIds, readCancelled, readOrder, rings, webhooksBellId } from "../engine/worker-bell.ts";
import { leftPut, noticePut, readNotice, registryPrefix, workerKind } from "../engine/worker-notice.ts";
import type { Timer } from "../platform/platform.ts";
import type { PutDocAnswer, ReadDocsAnswer, ReadDocsRequest } from "../store/operations.ts";
import type { Doc, DocPut, PutEvent } from "../store/records.ts";
import { BeatCall } from "./beat-call.ts";
import type { BeatSeat } from "./beat-seat.ts";
import { OtherWorkers } from "./other-workers.ts";

/** Behind a lost hint come the wait for the beat and a call or two: 1.2 s in all. */
const beatEveryMs = 1060;
/** A write comes with the first beat behind its time: with totals with every second one, else within 20.1 s. */
const writeEveryMs = { inFleet: 1500, alone: 19_000 };
/**
 * While a queue has a total, a worker that was killed is out of the shares when its notice has run out and the next
 * beat has come: 4.5 s after its last notice.
 */
const noticeTtlMs = { inFleet: 3400, alone: 60_000 };
/** All notices are read with every second beat: each of them lasts longer than until the next. */
const wholeEveryMs = 1500;
const roundEveryMs = 20_000;
/** A bell stands in front of the settings of queues, so that most rounds read nothing. */
const roundsPerLook = 3;
/** A read that a ring asks for: processes spread theirs, and rings in a row share one. */
const rungMs = { spread: 60, gap: 250 };
/** The calls of processes that were started together drift apart. */
const jitter = 0.03;
const callMaxMs = 10_000;
/** What rode with a claim that hangs goes with the next beat: a sign has to be renewed before it has run out. */
const carriedMaxMs = 1500;

/** What is written of all workers of the process; perhaps only its sign. */
interface Notices {
  readonly puts: readonly DocPut[];
  readonly hasNotices: boolean;
  /** The last of them renews the sign of the process. */
  readonly hasSign: boolean;
  readonly sentUs: number;
}

export class Beat {
  /** Makes the claims of all workers of the process. */
  readonly call: BeatCall;
  readonly #engine: Engine;
  readonly #seats = new Set<BeatSeat>();
  readonly #claimers = new Set<() => void>();
  /** By the id of a document that is listened to, the version that was heard last. */
  readonly #heard = new Map<string, number>();
  /** Those of which the feed was told that they joined. */
  readonly #joined = new WeakSet<BeatSeat>();
  /** Monotonic, when the last notice was sent that the store has taken. */
  #writtenUs = Number.NEGATIVE_INFINITY;
  /** Settles when every notice that was sent is answered or given up. */
  #writing: Promise<void> = Promise.resolve();
  #lateMs = 0;
  #readUs = Number.NEGATIVE_INFINITY;
  #isReading = false;
  #rounds = 0;
  // Monotonic, when all notices were read last, and when the first of other processes runs out, by the store's clock.
  #fleetSeen = { atUs: Number.NEGATIVE_INFINITY, endsAt: Number.POSITIVE_INFINITY };
  readonly #others: OtherWorkers;
  /** The next read answers a ring. */
  #isRung = false;
  readonly #timers: Record<"beat" | "rung" | "round", Timer | null> = {
    beat: null,
    rung: null,
    round: null,
  };

  constructor(engine: Engine) {
    this.#engine = engine;
    this.call = new BeatCall(engine);
    const own = (): ReadonlySet<string> => new Set([...this.#seats].map(({ owner }) => owner));
    this.#others = new OtherWorkers(engine, { own, put: (puts) => this.#put(puts) });
  }

  /** @returns a function that takes the worker out of the registry. */
  join(seat: BeatSeat): () => Promise<void> {
    this.#seats.add(seat);
    this.#engine.terms.readRegistry = () => void this.#read("signs");
    void this.#write().then(() => this.#meetOthers());
    this.#hearRound();
    if (seat.hasTotals) void this.#read("fleet");
    return async () => {
      this.#seats.delete(seat);
      if (this.#seats.size === 0) {
        this.#timers.rung?.cancel();
        this.#timers.round?.cancel();
        this.#engine.terms.readRegistry = null;
      }
      this.#endUnlessNeeded();
      // A notice that is still on its way must not come behind the end of it.
      await this.#writing;
      await this.#put([noticePut(seat.owner, null), leftPut(seat.owner, true)]);
    };
  }

  /** @param claim called with every beat. @returns a function that ends this. */
  addClaimer(claim: () => void): () => void {
    this.#claimers.add(claim);
    // Also where there is a beat already: only one with claimers keeps the process alive.
    if (this.#claimers.size === 1) this.#setBeat();
    return () => {
      this.#claimers.delete(claim);
      this.#endUnlessNeeded();
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

  /** The list of workers is wanted now: a total was set. */
  look(): void {
    void this.#write();
    void this.#read("fleet");
  }

  get #isInFleet(): boolean {
    return [...this.#seats].some(({ hasTotals }) => hasTotals);
  }

  #setBeat(): void {
    const keepsAlive = this.#claimers.size > 0;
    this.#set("beat", beatEveryMs, () => this.#beat(), keepsAlive);
  }

  #endUnlessNeeded(): void {
    if (this.#seats.size + this.#claimers.size === 0) this.#timers.beat?.cancel();
    else if (this.#claimers.size === 0) this.#setBeat();
  }

  #beat(): void {
    this.#setBeat();
    if (this.#seats.size > 0 && !this.#isReading) void this.#read("beat");
    for (const claim of this.#claimers) claim();
    this.call.claimsAsked();
  }

  async #write(isRinging = false): Promise<void> {
    const notices = this.#notices(isRinging);
    await this.#await(notices, this.#put(notices.puts));
  }

  /** Notes that these notices are on their way, and how they were answered. */
  #await(
    { hasNotices, hasSign, sentUs }: Notices,
    answering: Promise<readonly PutDocAnswer[] | null>,
  ): Promise<void> {
    const written = Promise.all([this.#writing, answering]).then(([, answers]) => {
      if (answers !== null && hasNotices) this.#writtenUs = Math.max(this.#writtenUs, sentUs);
      if (hasSign) this.#engine.terms.renewed(answers?.at(-1) ?? null, sentUs);
    });
    this.#writing = written;
    return written;
  }

  #notices(isRinging: boolean): Notices {
    const { platform } = this.#engine;
    const shared = {
      host: platform.hostName,
      processId: platform.processId,
      duties: this.#engine.readDuties(),
      memoryBytes: platform.memoryBytes(),
      loopDelayMs: Math.round(this.#lateMs),
      writtenAt: platform.now(),
      ttlMs: noticeTtlMs[this.#pace],
    };
    this.#lateMs = 0;
    const seats = [...this.#seats];
    const puts = seats.map((seat) => {
      const put = noticePut(seat.owner, { ...seat.notice(), ...shared });
      if (this.#joined.has(seat)) return isRinging ? rings(put) : put;
      return { ...put, tells: joined(seat) };
    });
    // Not told again while the answer is on its way; one that was lost may have been told.
    for (const seat of seats) this.#joined.add(seat);
    return this.#withSign(puts);
  }

  #withSign(puts: readonly DocPut[]): Notices {
    const sign = this.#engine.terms.renewal();
    const sentUs = this.#engine.platform.monotonicUs();
    return {
      puts: sign === null ? puts : [...puts, sign],
      hasNotices: puts.length > 0,
      hasSign: sign !== null,
      sentUs,
    };
  }

  get #pace(): "inFleet" | "alone" {
    return this.#isInFleet ? "inFleet" : "alone";
  }

  async #put(puts: readonly DocPut[]): Promise<readonly PutDocAnswer[] | null> {
    try {
      return await answersWithin(this.#engine.platform, this.#engine.store.putDocs(puts), callMaxMs);
    } catch (error) {
      this.#engine.log.debug("the notices of workers could not be written", { error });
      return null;
    }
  }

  /** @param why beat: what is due to be written goes along; fleet: all notices are wanted, where there are totals. */
  async #read(why: "beat" | "fleet" | "signs"): Promise<void> {
    if (this.#isReading || this.#seats.size === 0) return;
    this.#isReading = true;
    this.#isRung = false;
    const { platform, log, terms } = this.#engine;
    this.#readUs = platform.monotonicUs();
    try {
      const isWhole = this.#isInFleet && (why === "fleet" || this.#isFleetDue);
      const signs = terms.watched;
      const request = isWhole ? readAll : { kind: workerKind, ids: this.#ownIds(signs) };
      const first = await (why === "beat"
        ? this.#carry(request)
        : answersWithin(platform, this.#engine.store.readDocs(request), callMaxMs));
      const docs = first.cursor === null ? first.docs : await this.#withRest(first);
      this.#hear(docs);
      terms.seen(docs, signs);
      if (isWhole) this.#showFleet(docs);
    } catch (error) {
      log.debug("the registry of workers could not be read; what was known last holds", { error });
      for (const seat of this.#seats) seat.fleetUnseen();
    }
    this.#isReading = false;
    if (this.#isRung && this.#seats.size > 0) this.#setRungRead();
  }

  /** By the one call of the beat, with what has to be written. */
  async #carry(read: ReadDocsRequest): Promise<ReadDocsAnswer> {
    const { platform } = this.#engine;
    const sinceMs = (platform.monotonicUs() - this.#writtenUs) / 1000;
    const notices = sinceMs >= writeEveryMs[this.#pace] ? this.#notices(false) : this.#withSign([]);
    const answering = answersWithin(platform, this.call.carry({ puts: notices.puts, read }), carriedMaxMs);
    const put = answering.then(
      ({ puts }) => puts,
      () => null,
    );
    if (notices.puts.length > 0) void this.#await(notices, put);
    return (await answering).read as ReadDocsAnswer;
  }

  /** A large registry takes further reads. */
  async #withRest({ docs, cursor }: ReadDocsAnswer): Promise<readonly Doc[]> {
    const all = [...docs];
    const rest = allDocs(this.#engine.store, {
      ...{ kind: workerKind, prefix: registryPrefix },
      behind: cursor,
    });
    for await (const doc of rest) all.push(doc);
    return all;
  }

  #ownIds(signs: ReadonlySet<string>): readonly string[] {
    const own = [...this.#seats].flatMap(({ owner }) => Object.values(bellIds(owner)));
    return [...own, webhooksBellId, ...signs];
  }

  /** Whether all notices are to be read: their time has come, or one of them has run out unless it was renewed. */
  get #isFleetDue(): boolean {
    const { atUs, endsAt } = this.#fleetSeen;
    const sinceMs = (this.#engine.platform.monotonicUs() - atUs) / 1000;
    return sinceMs >= wholeEveryMs || endsAt <= (this.#engine.terms.storeNow ?? Infinity);
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

  #showFleet(docs: readonly Doc[]): void {
    const workers = docs.map(readNotice).filter((worker) => worker !== null);
    for (const seat of this.#seats) if (seat.hasTotals) seat.fleetSeen(workers);
    this.#others.see(workers);
    this.#fleetSeen = { atUs: this.#readUs, endsAt: this.#others.firstEnd(workers) };
  }

  #hearRound(): void {
    this.#set("round", roundEveryMs, () => this.#hearRound());
    void this.#hearRetention();
    if (this.#rounds++ % roundsPerLook !== 0) return;
    void this.#engine.queuePolicies.refresh();
    if (this.#rounds > 1) void this.#others.look();
  }

  async #meetOthers(): Promise<void> {
    await this.#others.look();
    if (this.#others.count > 0 && this.#seats.size > 0) void this.#write(true);
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
    const inMs = Math.max(platform.random() * rungMs.spread, rungMs.gap - sinceMs);
    this.#set("rung", inMs, () => {
      void this.#read("fleet");
      if (this.#others.count === 0) void this.#others.look();
    });
  }

  #set(which: "beat" | "rung" | "round", inMs: number, run: () => void, keepsAlive = false): void {
    this.#timers[which]?.cancel();
    const { platform } = this.#engine;
    const delayMs = Math.round(inMs * (1 - platform.random() * jitter));
    const dueUs = platform.monotonicUs() + delayMs * 1000;
    const rang = (): void => {
      this.#lateMs = Math.max(this.#lateMs, (platform.monotonicUs() - dueUs) / 1000);
      run();
    };
    this.#timers[which] = platform.setTimer(delayMs, rang, keepsAlive);
  }
}

/** All documents of the registry, as far as one read brings them. */
const readAll: ReadDocsRequest = {
  ...{ kind: workerKind, prefix: registryPrefix, after: null },
  max: docsPageMax,
};

function joined({ owner }: BeatSeat): PutEvent {
  return { kind: "worker-joined", subject: owner, extra: null };
}
