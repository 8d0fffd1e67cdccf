/**
 * A bucket with its writers, as the store of a simulation. One process writes at a time. It is killed, paused, closed
 * and taken over at random; one that wakes finds out by itself that it is fenced. Nodes reach it over the network, so
 * they outlive it: what a writer has told and not landed is lost to them.
 *
 * The world knows which commit each record carries and which records have landed, so it sees at once if an answer is
 * given too early. In the end it takes out of the history what never landed: that did not happen.
 */
import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { isDeepStrictEqual } from "node:util";
import { isMillraceError, MillraceError } from "../../src/model/error.ts";
import { openBucketStore } from "../../src/stores/bucket/bucket-store.ts";
import type { WhenHeld } from "../../src/stores/bucket/takeover/held-bucket.ts";
import { logPrefix, numberOf } from "../../src/stores/bucket/layout.ts";
import { MemoryBucket } from "../../src/stores/bucket/objects/memory.ts";
import { Replica } from "../../src/stores/bucket/copy/replica.ts";
import { waitsOf } from "../../src/stores/bucket/log/who-waits.ts";
import type { ClaimAnswer } from "../../src/store/operations.ts";
import { isRead } from "../../src/stores/sqlite/connection/commit.ts";
import type { CallOutcome } from "../../src/stores/sqlite/connection/commit.ts";
import { laterOperations } from "../../src/store/later-version.ts";
import type { Hint, Store } from "../../src/store/store.ts";
import type { SeededRandom } from "../../src/testing/seeded-random.ts";
import { settleTurn } from "../../src/testing/virtual-time.ts";
import type { VirtualTime } from "../../src/testing/virtual-time.ts";
import type { Effect, Operation, StoreCall } from "../history/history.ts";
import { rowsOf } from "../support/compared-bucket.ts";
import { FaultyObjects } from "./faulty-objects.ts";
import type { ObjectsFault } from "./faulty-objects.ts";
import type { Network } from "./faulty-store.ts";
import type { FaultClass, Plan } from "./plan.ts";
import { handedOutEarly } from "./handed-out.ts";
import type { Taken } from "./handed-out.ts";
import { SimProcess } from "./actors/sim-process.ts";

/** One call at a writer. */
interface Committed {
  readonly writer: SimWriter;
  readonly entry: StoreCall | null;
  position: number | null;
}

interface SimWriter {
  readonly process: SimProcess;
  readonly objects: FaultyObjects;
  store: Store | null;
  state: "opening" | "open" | "gone";
  /** The number of its fence in the log. Of the writers that have opened only the one with the last fence lives on. */
  fence: number;
  isPaused: boolean;
  /** By the number of a record: the last commit that it carries. */
  readonly carried: Map<number, number>;
  /** The last commit that has landed where nothing was ever removed. */
  landed: number;
  readonly calls: Set<(error: Error) => void>;
  /** What its claims have taken. */
  readonly taken: { readonly request: unknown; readonly position: number; readonly jobs: readonly Taken[] }[];
}

export interface BucketWorldOptions {
  readonly plan: Plan;
  readonly time: VirtualTime;
  readonly random: SeededRandom;
  readonly clock: { readonly offsetMs: number };
}

const tuning = {
  sleptMs: 3000,
  graceMs: 20_000,
  cleanUpEveryMs: 1000,
  recordsMin: 40,
  apartMs: 500,
  closeRecords: 20,
};
const callTimeoutMs = 5000;
const claimsPerLook = 8;
const hangUs = 600_000_000;
const listPage = 7;

const operations = [
  ...(["describe", "submit", "claim", "settleIfLeased", "extendIfLeased", "recordIfLeased"] as const),
  ...(["changeIf", "promoteDue", "readDue", "putGates", "readGates", "putDocs", "readDocs"] as const),
  ...(["readDueDocs", "readJobs", "findJobs", "countJobs", "readRoutes", "readFeed"] as const),
  ...([
    "readLogs",
    "readFrames",
    "readJournal",
    "prune",
    "auditIndexes",
    "readUnreadable",
    "deleteUnreadable",
    "readHeads",
  ] as const),
  "heartbeat",
] as const satisfies readonly (keyof Store)[];
type OperationName = (typeof operations)[number];

/** Which fault of the network a fault of the bucket goes with, and how often it strikes beside that. */
const faults: Readonly<Record<ObjectsFault, readonly [FaultClass, number]>> = {
  busy: ["unavailable", 1],
  "lost-request": ["lost-request", 0.5],
  "lost-reply": ["lost-reply", 0.5],
  late: ["lost-reply", 0.2],
  twice: ["hints", 0.5],
  slow: ["slow", 0.5],
  hang: ["hang", 0.05],
};

export class BucketWorld {
  readonly clients: readonly [Store, Store];
  /** Goes on until it is answered: for whoever is past all faults. */
  readonly patient: Store;
  /** The same for whoever moves the time. */
  readonly observer: Store;
  /** What must never happen. */
  readonly violations: string[] = [];
  takeOvers = 0;
  fencedWriters = 0;
  lostCalls = 0;
  /** Claims that were answered before all commits had landed. */
  earlyClaims = 0;
  readonly #looks: Promise<void>[] = [];
  readonly #options: BucketWorldOptions;
  readonly #bucket = new MemoryBucket({ pageSize: listPage });
  readonly #folder = mkdtempSync(join(tmpdir(), "millrace-bucket-world-"));
  readonly #writers: SimWriter[] = [];
  readonly #attached: (SimWriter | null)[] = [null, null];
  readonly #listeners: Set<(hint: Hint) => void>[] = [new Set(), new Set()];
  readonly #unwatch: ((() => void) | null)[] = [null, null];
  readonly #removed = new Set<string>();
  /** The last try of each call. */
  readonly #calls = new Map<StoreCall, Committed>();
  readonly #byRequest = new Map<unknown, Committed>();
  #current: SimWriter | null = null;
  #started = 0;
  /** Of the writers that have opened. */
  #lastFence = 0;
  #isAway = false;
  #isOver = false;
  /** Whose file is compared with the bucket. */
  #last: SimWriter | null = null;
  #network!: Network;
  #copies = 0;

  constructor(options: BucketWorldOptions) {
    this.#options = options;
    this.clients = [this.#clientOf(0), this.#clientOf(1)];
    this.patient = this.#storeOf((name, request) => this.#persist(name, request), 0);
    this.observer = this.#storeOf((name, request) => this.#drive(this.#persist(name, request)), 0);
  }

  async open(): Promise<void> {
    this.#start("take");
    await this.#until(() => this.#current !== null);
  }

  /** From then on the bucket and its writers have the faults of the network. */
  join(network: Network): void {
    this.#network = network;
    const { plan, random } = this.#options;
    const act = (
      name: string,
      isOn: boolean,
      periodMs: number,
      run: (random: SeededRandom) => void,
    ): void => {
      if (isOn) this.#repeatedly(random.fork(name), periodMs, run);
    };
    act("kill", plan.isOn.crash, 10_000, (draw) => this.#killCurrent(draw));
    act("pause", plan.isOn.pause, 8000, (draw) => this.#pauseCurrent(draw));
    act("outage", plan.isOn.outage, 15_000, (draw) => this.#goAway(draw));
    act("skew", plan.isOn.skew, 10_000, (draw) => this.#stepClock(draw));
    act("take", !plan.isFaultFree, 12_000, () => this.#start("take"));
    act("close", !plan.isFaultFree, 20_000, () => this.#closeCurrent());
  }

  /** The history without what never landed. */
  witnessed(evidence: { operations: readonly Operation[]; effects: readonly Effect[] }): {
    operations: readonly Operation[];
    effects: readonly Effect[];
  } {
    const lost = new Set<string>();
    for (const [entry, { writer, position }] of this.#calls) {
      if (position === null || position <= writer.landed) continue;
      this.lostCalls += 1;
      if (entry.kind === "claim")
        for (const { id, fence } of entry.answer?.jobs ?? []) lost.add(`${id}#${fence}`);
      entry.answer = null;
      entry.order = null;
      if (entry.seen === "ok") entry.seen = "unknown";
    }
    const effects = evidence.effects.filter(({ id, fence }) => !lost.has(`${id}#${fence}`));
    return { operations: evidence.operations, effects };
  }

  async close(): Promise<void> {
    this.#isOver = true;
    try {
      const last = (this.#last = this.#current);
      if (last !== null) await this.#drive(this.#inside(last, () => (last.store as Store).close()));
      for (const writer of this.#writers.filter((each) => each !== last)) {
        writer.process.resume();
        writer.objects.reap();
        await this.#options.time.advance(10_000_000);
        const { store } = writer;
        if (store !== null) await this.#drive(store.close().catch(() => undefined));
      }
    } finally {
      rmSync(this.#folder, { recursive: true, force: true });
    }
    await Promise.all(this.#looks);
    if (this.violations.length > 0) throw new Error(this.violations.join("\n"));
  }

  #start(whenHeld: WhenHeld): void {
    const { time, random, clock } = this.#options;
    const number = ++this.#started;
    const draw = random.fork(`writer ${number}`);
    const own = this.#options.plan.isOn.skew ? draw.whole(-3000, 3000) : 0;
    const view = { offsetMs: 0, drift: 0 };
    const process = new SimProcess({
      name: `writer-${number}`,
      time,
      random: draw.fork("platform"),
      clock: Object.defineProperty(view, "offsetMs", { get: () => clock.offsetMs + own }),
      processId: number,
    });
    const objects: FaultyObjects = new FaultyObjects({
      objects: this.#bucket.open(),
      process,
      time,
      random: draw.fork("objects"),
      strikes: (fault) => this.#strikes(fault, draw),
      isAway: () => this.#isAway,
      onDone: (verb, names, answer) => this.#note(writer, verb, names, answer),
    });
    const writer: SimWriter = {
      ...{ process, objects, store: null, state: "opening", fence: 0, isPaused: false },
      ...{ carried: new Map(), landed: 0, calls: new Set(), taken: [] },
    };
    this.#writers.push(writer);
    process.deliver(0, () => {
      openBucketStore({
        ...{
          objects,
          platform: process.platform,
          whenHeld,
          cacheFolder: this.#folder,
          tuning,
          callTimeoutMs,
        },
        witness: {
          onTaken: (calls, { outcomes }, position, shown) => {
            for (const [at, { operation, request }] of calls.entries()) {
              const outcome = outcomes[at] as CallOutcome;
              this.#committed(request, outcome, isRead(operation) ? shown : position);
              if (operation !== "claim" || outcome.kind !== "answer") continue;
              const { jobs } = outcome.answer as ClaimAnswer;
              if (jobs.length > 0) writer.taken.push({ request, position, jobs });
            }
          },
          onPut: (n, position) => void writer.carried.set(n, position),
        },
        onClosed: (path) => (this.#last === writer ? this.#compare(path) : Promise.resolve()),
      }).then(
        (store) => this.#opened(writer, store),
        (error: unknown) => {
          writer.state = "gone";
          if (!isMillraceError(error) || !["store-unavailable", "outcome-unknown"].includes(error.code))
            if (!this.#isOver) this.violations.push(`${process.name} could not open: ${String(error)}`);
          this.#startLater(500);
        },
      );
    });
  }

  #opened(writer: SimWriter, store: Store): void {
    writer.store = store;
    writer.state = "open";
    this.takeOvers += 1;
    // A writer that was paused before it had opened may have been replaced by then.
    if (writer.fence < this.#lastFence) return;
    this.#lastFence = writer.fence;
    this.#current = writer;
    this.#attach(0, writer);
    const second = this.#attached[1];
    if (second === null || second === undefined || second.state === "gone") this.#attach(1, writer);
  }

  #attach(client: number, writer: SimWriter): void {
    if (this.#attached[client] === writer) return;
    this.#unwatch[client]?.();
    this.#attached[client] = writer;
    this.#unwatch[client] = (writer.store as Store).watch((hint) => {
      for (const listener of this.#listeners[client] ?? []) listener(hint);
    });
  }

  /** Whoever is not open yet will be; else another one begins. */
  #startLater(delayMs: number): void {
    this.#options.time.after(delayMs * 1000, () => {
      if (this.#isOver || this.#current?.state === "open") return;
      if (!this.#writers.some(({ state, isPaused }) => state === "opening" && !isPaused)) this.#start("take");
    });
  }

  #gone(writer: SimWriter): void {
    if (writer.state === "gone") return;
    writer.state = "gone";
    if (this.#current === writer) this.#current = null;
    this.#startLater(1);
  }

  #killCurrent(draw: SeededRandom): void {
    const opening = this.#writers.filter(({ state, isPaused }) => state === "opening" && !isPaused);
    const victim = draw.chance(0.2) ? opening[0] : this.#current;
    if (victim === undefined || victim === null) return;
    victim.process.pause();
    this.#gone(victim);
    for (const reject of victim.calls)
      this.#options.time.after(draw.whole(0, 2_000_000), () =>
        reject(new MillraceError("outcome-unknown", "The connection was lost.")),
      );
    victim.calls.clear();
    this.#start(draw.chance(0.5) ? "take" : "wait");
  }

  #pauseCurrent(draw: SeededRandom): void {
    const writer = this.#current;
    if (writer === null) return;
    writer.process.pause();
    writer.isPaused = true;
    if (draw.chance(0.7)) this.#start(draw.chance(0.5) ? "take" : "wait");
    this.#options.time.after(draw.whole(100_000, draw.chance(0.5) ? 5_000_000 : 60_000_000), () => {
      writer.isPaused = false;
      if (writer.state !== "gone") writer.process.resume();
    });
  }

  #goAway(draw: SeededRandom): void {
    this.#isAway = true;
    this.#options.time.after(draw.whole(50_000, 12_000_000), () => (this.#isAway = false));
  }

  #stepClock(draw: SeededRandom): void {
    const { clock } = this.#options;
    (clock as { offsetMs: number }).offsetMs += draw.whole(-3000, 6000);
  }

  #closeCurrent(): void {
    const writer = this.#current;
    if (writer === null || writer.isPaused) return;
    this.#gone(writer);
    void this.#inside(writer, () => (writer.store as Store).close()).catch(() => undefined);
  }

  #repeatedly(random: SeededRandom, periodMs: number, act: (random: SeededRandom) => void): void {
    this.#options.time.after(random.whole(1000, periodMs * 2000), () => {
      if (!this.#network.isStormy || this.#isOver) return this.#heal();
      act(random);
      this.#repeatedly(random, periodMs, act);
    });
  }

  #heal(): void {
    this.#isAway = false;
  }

  #strikes(fault: ObjectsFault, random: SeededRandom): boolean {
    const [name, weight] = faults[fault];
    const { plan } = this.#options;
    if (!(this.#network as Network | undefined)?.isStormy || !plan.isOn[name]) return false;
    return random.chance(Math.min(plan.rate[name], 0.1) * weight);
  }

  #note(writer: SimWriter, verb: string, names: readonly string[], answer: unknown): void {
    if (verb === "remove") for (const name of names) this.#removed.add(name);
    const [name = ""] = names;
    if (verb !== "put" || answer !== "stored" || !name.startsWith(logPrefix) || this.#removed.has(name))
      return;
    // An opener puts its fence, and then voids before it.
    if (writer.state === "opening") writer.fence = Math.max(writer.fence, numberOf(name));
    writer.landed = Math.max(writer.landed, writer.carried.get(numberOf(name)) ?? 0);
  }

  #committed(request: unknown, outcome: CallOutcome, position: number): void {
    const call = this.#byRequest.get(request);
    // A dead writer that is cleared away may still begin what had come to it.
    if (call === undefined || this.#isOver) return;
    this.#byRequest.delete(request);
    call.position = position;
    const { entry } = call;
    if (entry === null || outcome.kind !== "answer") return;
    entry.order = ++this.#network.orders;
    entry.answer = outcome.answer as never;
    entry.leftUs = this.#options.time.elapsedUs;
  }

  /** In the process of the writer: if it is paused, when it wakes, and if it is killed, never. */
  #inside<T>(writer: SimWriter, run: () => Promise<T>): Promise<T> {
    return new Promise((resolve, reject) => {
      writer.process.deliver(0, () => void run().then(resolve, reject));
    });
  }

  async #callAt(
    writer: SimWriter,
    name: OperationName,
    request: unknown,
    entry: StoreCall | null = null,
  ): Promise<unknown> {
    // An object of its own, so that the same request that is sent twice is two calls.
    const own =
      request === undefined || request === null
        ? request
        : Array.isArray(request)
          ? [...(request as unknown[])]
          : { ...(request as object) };
    const call: Committed = { writer, entry, position: null };
    if (own !== undefined && own !== null) this.#byRequest.set(own, call);
    if (entry !== null) {
      const before = this.#calls.get(entry);
      // What an earlier try committed at a writer that has ended, and never landed, did not happen.
      if (before !== undefined && (before.position ?? 0) > before.writer.landed) {
        entry.answer = null;
        entry.order = null;
      }
      this.#calls.set(entry, call);
    }
    try {
      const answer = await new Promise<unknown>((resolve, reject) => {
        writer.calls.add(reject);
        const run = (writer.store as Store)[name] as (given: unknown) => Promise<unknown>;
        this.#inside(writer, () => run(own))
          .then(resolve, reject)
          .finally(() => writer.calls.delete(reject));
      });
      const isPromised = name !== "describe" && waitsOf[name] === "for-landing";
      if (isPromised && call.position !== null && call.position > writer.landed)
        this.violations.push(
          `${name} was answered by ${writer.process.name} before its commit ${call.position} had landed (${writer.landed})`,
        );
      if (name !== "describe" && isRead(name)) await this.#untilTrue(call);
      if (name === "claim") this.#lookAtClaim(call, own, answer as ClaimAnswer);
      return answer;
    } catch (error) {
      if (!isMillraceError(error)) throw error;
      const isEnded = ["store-fenced", "closed", "store-replaced"].includes(error.code);
      if (!isEnded) throw error;
      const { position } = call;
      const hasHappened = position !== null && position <= writer.landed;
      if (
        hasHappened &&
        error.outcome === "did-not-happen" &&
        (name === "submit" || name === "settleIfLeased")
      )
        this.violations.push(
          `${name} at ${writer.process.name} was told not to have happened, but it had landed`,
        );
      if (error.code === "store-fenced") this.fencedWriters += 1;
      this.#gone(writer);
      throw new MillraceError("store-unavailable", `${writer.process.name} has ended.`, { cause: error });
    }
  }

  /**
   * Whoever is in the process of a writer goes down with it. A node lives on, and what it was shown and never landed,
   * or was no longer so, must not become the guard of a call at the next writer: versions are given again there.
   */
  async #untilTrue({ writer, position }: Committed): Promise<void> {
    for (;;) {
      if (writer.state === "gone" || writer.fence < this.#lastFence)
        throw new MillraceError("store-unavailable", `${writer.process.name} was replaced.`);
      if (position === null || position <= writer.landed) return;
      await new Promise<void>((resolve) => void this.#options.time.after(50_000, resolve));
    }
  }

  /** A part of the claims that were answered before all commits had landed. */
  #lookAtClaim({ writer, position }: Committed, own: unknown, answer: ClaimAnswer): void {
    if (answer.jobs.length === 0 || position === null || position <= writer.landed) return;
    this.earlyClaims += 1;
    if (this.earlyClaims % claimsPerLook !== 1) return;
    const path = join(this.#folder, `copy-${this.#copies++}.db`);
    // Nothing is waited for but microtasks, so the bucket stays as it is meanwhile.
    const { landed } = writer;
    const before = writer.taken.filter(
      (each) => each.request !== own && each.position > landed && each.position <= position,
    );
    const look = handedOutEarly(this.#bucket.open(), path, {
      answer,
      before: before.flatMap(({ jobs }) => jobs),
      pid: writer.process.platform.processId,
    }).then((found) => {
      for (const each of found)
        this.violations.push(
          `a claim was answered by ${writer.process.name} too early: in the bucket ${each}`,
        );
    });
    this.#looks.push(look);
  }

  async #callFrom(
    client: number,
    name: OperationName,
    request: unknown,
    entry: StoreCall | null,
  ): Promise<unknown> {
    let writer = this.#attached[client] ?? null;
    if (writer === null || writer.state === "gone") {
      writer = this.#current;
      if (writer === null) {
        this.#startLater(1);
        throw new MillraceError("store-unavailable", "Nobody writes to the bucket.");
      }
      this.#attach(client, writer);
    }
    try {
      return await this.#callAt(writer, name, request, entry);
    } catch (error) {
      // Once the world has healed nobody should meet a writer that has ended.
      const hasEnded = writer.state === "gone" || writer.fence < this.#lastFence;
      const isEnded = isMillraceError(error) && error.code === "store-unavailable" && hasEnded;
      if (this.#network.isStormy || !isEnded) throw error;
      await new Promise<void>((resolve) => void this.#options.time.after(100_000, resolve));
      return this.#callFrom(client, name, request, entry);
    }
  }

  async #persist(name: OperationName, request: unknown): Promise<unknown> {
    for (let tries = 0; ; tries++) {
      const writer = this.#current;
      try {
        if (writer !== null) return await this.#callAt(writer, name, request);
        this.#startLater(1);
      } catch (error) {
        if (tries > 1000) throw error;
      }
      await new Promise<void>((resolve) => void this.#options.time.after(100_000, resolve));
    }
  }

  async #until(holds: () => boolean): Promise<void> {
    const { time } = this.#options;
    const endUs = time.elapsedUs + hangUs;
    await settleTurn();
    while (!holds()) {
      if (time.elapsedUs > endUs || !(await time.step()))
        throw new Error(`The bucket hangs: ${this.#states()}`);
    }
  }

  #states(): string {
    const states = this.#writers.map(
      ({ process: { name }, state, isPaused }) => `${name} ${state} ${isPaused}`,
    );
    return `${states.filter((each) => !each.includes("gone")).join(", ")}; current ${this.#current?.process.name}`;
  }

  /** For whoever moves the time itself. */
  async #drive<T>(promise: Promise<T>): Promise<T> {
    let isDone = false;
    promise.then(
      () => (isDone = true),
      () => (isDone = true),
    );
    await this.#until(() => isDone);
    return promise;
  }

  /** The bucket, restored, has the very rows of the file that its writer has closed. */
  async #compare(path: string): Promise<void> {
    const copy = join(this.#folder, `copy-${this.#copies++}.db`);
    const replica = await Replica.restore(this.#bucket.open(), { path: copy, pageSize: 4096 });
    const { isFree } = replica;
    replica.close();
    if (!isFree || !isDeepStrictEqual(rowsOf(copy), rowsOf(path)))
      this.violations.push("the restored bucket is not what its writer had");
    for (const end of ["", "-wal", "-shm"]) rmSync(`${copy}${end}`, { force: true });
  }

  #clientOf(client: number): Store {
    return this.#storeOf((name, request, entry) => this.#callFrom(client, name, request, entry), client);
  }

  #storeOf(
    call: (name: OperationName, request: unknown, entry: StoreCall | null) => Promise<unknown>,
    client: number,
  ): Store {
    const calls = operations.map((name) => [
      name,
      (request?: unknown, entry: StoreCall | null = null) => call(name, request, entry),
    ]);
    return {
      ...(Object.fromEntries(calls) as Pick<Store, OperationName>),
      ...laterOperations,
      watch: (listener) => {
        this.#listeners[client]?.add(listener);
        return () => void this.#listeners[client]?.delete(listener);
      },
      inTransaction: () => {
        throw new MillraceError("not-in-transaction", "A bucket has none.");
      },
      close: () => Promise.resolve(),
    };
  }
}
