/**
 * A world for one durable run: a store in memory behind a slow network, workers that claim the run, senders of signals,
 * and one fault at a chosen call: the worker dies before or after the call took effect, its reply is lost, or the
 * worker stands still until its lease is somebody else's. Everything follows from the seed.
 */
import { branchPrefix } from "../../src/model/durable/call-key.ts";
import { JournalCursor } from "../../src/model/durable/journal-cursor.ts";
import type { EntryBody } from "../../src/model/durable/journal-entry.ts";
import { createSeededRandom } from "../../src/testing/seeded-random.ts";
import type { SeededRandom } from "../../src/testing/seeded-random.ts";
import { defaultStartAt, settleTurn, VirtualTime } from "../../src/testing/virtual-time.ts";
import type { LiveCall } from "../../src/worker/durable/live-call.ts";
import { RunExecution } from "../../src/worker/durable/run-execution.ts";
import type { RunCodec, RunEnd, RunSettings } from "../../src/worker/durable/run-settings.ts";
import type { JournalPage, RunJournal } from "../../src/worker/durable/run-journal.ts";
import { StepCalls } from "../../src/worker/durable/step-calls.ts";
import { MemoryRun } from "./memory-run.ts";
import type { StoreBug } from "./memory-run.ts";
import { interpret } from "./programs.ts";
import type { Block, Life } from "./programs.ts";

export type FaultKind = "dies before" | "dies after" | "reply lost" | "stands still";
export const faultKinds: readonly FaultKind[] = ["dies before", "dies after", "reply lost", "stands still"];

export interface Fault {
  /** Of the run's store calls, from 0 on. */
  readonly call: number;
  readonly kind: FaultKind;
}

export interface Bugs {
  readonly store?: StoreBug;
  readonly Execution?: typeof RunExecution;
  readonly Cursor?: typeof JournalCursor<LiveCall>;
  /** Of no bug: the program has plain I/O, so that lives differ in their order. */
  readonly hasIo?: true;
}

export interface Story {
  /** How many store calls the run made. */
  readonly calls: number;
  readonly violations: readonly string[];
}

const leaseMs = 150;
const endsMs = 60_000;

export const plainCodec: RunCodec = {
  encode: (value) => (value === undefined ? null : JSON.stringify(value)),
  decode: (text) => (text === null ? undefined : JSON.parse(text)),
  encodeError: (error) => JSON.stringify({ message: (error as Error).message }),
  decodeError: (text) => new Error((JSON.parse(text) as { message: string }).message),
  readSignal: (name, text) => {
    const value: unknown = text === null ? null : JSON.parse(text);
    const fits = name === "ok" ? typeof value === "object" : typeof value === "number";
    return fits ? { value, text } : { refused: "wrong shape" };
  },
};

class WorldLife implements Life {
  isDead = false;
  readonly log: string[] = [];
  readonly #world: DurableWorld;

  constructor(world: DurableWorld) {
    this.#world = world;
  }

  observe(what: string): void {
    if (!this.isDead) this.log.push(what);
  }

  io(): Promise<void> {
    return this.isDead ? new Promise(() => undefined) : this.#world.io();
  }

  work(key: string, fails: number): Promise<string> {
    return this.isDead ? new Promise(() => undefined) : this.#world.work(this, key, fails);
  }
}

export class DurableWorld {
  readonly time: VirtualTime;
  readonly run: MemoryRun;
  readonly violations: string[] = [];
  readonly #random: SeededRandom;
  readonly #program: Block;
  readonly #fault: Fault | null;
  readonly #bugs: Bugs;
  readonly #lives: WorldLife[] = [];
  #calls = 0;
  #executions = 0;
  #isClaiming = false;
  #servedChildren = 0;
  #current: RunExecution | null = null;

  constructor(seed: string, program: Block, fault: Fault | null, bugs: Bugs = {}) {
    const random = createSeededRandom(seed);
    this.#random = random;
    this.#program = program;
    this.#fault = fault;
    this.#bugs = bugs;
    this.time = new VirtualTime({ tieBreak: () => random.next() });
    this.run = new MemoryRun(() => this.time.now, bugs.store ?? null);
  }

  async play(): Promise<Story> {
    this.#planSignals();
    this.#serve();
    while (
      this.time.elapsedUs < endsMs * 1000 &&
      this.run.state !== "completed" &&
      this.run.state !== "expired"
    ) {
      if (!(await this.time.step())) break;
      this.#check();
      if (this.violations.length > 0) break;
    }
    if (this.violations.length === 0) await this.#judge();
    for (const life of this.#lives) life.isDead = true;
    this.#current?.abandon();
    return { calls: this.#calls, violations: this.violations };
  }

  io(): Promise<void> {
    return new Promise((resolve) => this.#after(this.#random.whole(0, 30), resolve));
  }

  work(life: WorldLife, key: string, fails: number): Promise<string> {
    const call = key.slice(key.indexOf(":", key.indexOf(":") + 1) + 1);
    if (this.run.has(`end:${call}`))
      this.violations.push(`59: ${call} runs again after its result was recorded`);
    const value = `${call}=${++this.#executions}`;
    return new Promise((resolve, reject) => {
      this.#after(this.#random.whole(0, 25), () => {
        if (life.isDead) return;
        if (this.#random.chance(fails)) reject(new Error(value));
        else resolve(value);
      });
    });
  }

  #after(ms: number, run: () => void): void {
    this.time.after(ms * 1000 + this.#random.whole(0, 999), run);
  }

  /** Early, late and repeated ones; and from some time on so many that no wait is left alone. */
  #planSignals(): void {
    const random = this.#random.fork("signals");
    const send = (at: number, key: string, name: string): void => {
      const source = name === "ok" ? random.pick(["ann", "bob"]) : undefined;
      const value =
        name === "ok" ? { ok: random.chance(0.8) } : random.chance(0.1) ? "bad" : random.whole(0, 9);
      const body: EntryBody = {
        ...{ kind: "signal", name, value: JSON.stringify(value) },
        ...(source === undefined ? {} : { source }),
      };
      const arrives = (): void => {
        this.run.arrive(`signal:${key}`, body);
        this.#hint();
      };
      this.#after(at, arrives);
      // The sender had no answer and sends again.
      if (random.chance(0.4)) this.#after(at + random.whole(0, 120), arrives);
    };
    for (let count = random.whole(0, 8); count > 0; count--)
      send(random.whole(0, 250), `early ${count}`, random.pick(["x", "y", "ok"]));
    for (let at = 600; at < endsMs / 2; at += 200)
      for (const name of ["x", "y"]) send(at, `flood ${name} ${at}`, name);
  }

  /** A hint may be lost. */
  #hint(): void {
    if (this.#random.chance(0.3)) return;
    const last = this.run.last;
    this.#after(this.#random.whole(0, 10), () => this.#current?.heard(last));
  }

  /** Duties and a worker that looks for work. */
  #serve(): void {
    this.#after(this.#random.whole(5, 40), () => {
      this.run.serveClocks();
      this.#serve();
    });
    for (; this.#servedChildren < this.run.children.length; this.#servedChildren++) {
      const call = this.run.children[this.#servedChildren] as string;
      const body: EntryBody = {
        ...{ kind: "child", call, state: this.#random.chance(0.8) ? "completed" : "failed" },
        value: JSON.stringify({ message: `child of ${call}` }),
      };
      this.#after(this.#random.whole(0, 80), () => {
        this.run.arrive(`child:${call}`, body);
        this.#hint();
      });
    }
    this.#claim();
  }

  #claim(): void {
    if (this.run.state !== "ready" || this.#isClaiming) return;
    this.#isClaiming = true;
    this.#after(this.#random.whole(0, 15), () => {
      this.#isClaiming = false;
      if (this.run.state !== "ready") return;
      const fence = this.run.claim();
      this.#after(this.#random.whole(0, 5), () => this.#live(fence));
    });
  }

  #live(fence: number): void {
    const life = new WorldLife(this);
    this.#lives.push(life);
    this.#current = this.#execute(life, this.#journal(life, fence), this.run.read(0), (end) => {
      if (!life.isDead) this.#ended(life, fence, end);
    });
  }

  #execute(
    life: WorldLife,
    journal: RunJournal,
    page: JournalPage,
    ended: (end: RunEnd) => void,
  ): RunExecution {
    const { Execution = RunExecution, Cursor = JournalCursor } = this.#bugs;
    const platform = {
      defer: (run: () => void) => void this.time.after(0, () => (life.isDead ? undefined : run())),
      setTimer: (delayMs: number, run: () => void) =>
        this.time.after(Math.max(1, delayMs) * 1000, () => (life.isDead ? undefined : run())),
      monotonicUs: () => this.time.elapsedUs,
      random: () => this.#random.next(),
    };
    const settings: RunSettings = {
      ...{ platform, codec: plainCodec, round: 0, idleMs: 0, lingerMs: 5, unaskedMs: 30_000 },
      version: { version: 1, isNew: !page.entries.some(({ body }) => body.kind === "version") },
      judge: () => "retry",
      undoDelayMs: () => null,
    };
    const cursor = new Cursor(defaultStartAt);
    const execution = new Execution(journal, cursor, settings, page, ended);
    const parts = {
      run: { run: "run", round: 1 },
      journal,
      codec: plainCodec,
      platform,
      backoffs: platform,
      acquire: () => Promise.reject(new Error("no limits here")),
      usage: {
        report: () => Promise.reject(new Error("no budgets here")),
        reserve: () => Promise.reject(new Error("no budgets here")),
      },
      input: null,
      takes: () => true,
      childId: String,
      encodeInput: (input: unknown) => JSON.stringify(input),
    };
    const step = new StepCalls(execution, parts);
    execution.begin(() => interpret(this.#program, step as never, life, this.#bugs.hasIo === true));
    return execution;
  }

  #ended(life: WorldLife, fence: number, end: RunEnd): void {
    switch (end.kind) {
      case "returned":
        this.#complete(life, fence, end.value);
        return;
      case "suspended":
      case "lost":
        return;
      default:
        this.violations.push(
          `the run ended as ${JSON.stringify(end)} (${String((end as { error?: unknown }).error)})`,
        );
    }
  }

  /** Repeated if the reply was lost. */
  #complete(life: WorldLife, fence: number, value: unknown): void {
    void this.#call(life, fence, () => this.run.complete(fence, value)).catch(() =>
      this.#complete(life, fence, value),
    );
  }

  #journal(life: WorldLife, fence: number): RunJournal {
    return {
      read: (after) => this.#call(life, fence, () => this.run.readIfLeased(fence, after)),
      append: (entries, starts) => this.#call(life, fence, () => this.run.append(fence, entries, starts)),
      suspend: (request) => this.#call(life, fence, () => this.run.suspend(fence, request)),
      commitSlip: (_connection, slip) => this.#call(life, fence, () => this.run.commitSlip(fence, slip)),
    };
  }

  /** One store call: on its way there, its effect, and its reply. */
  #call<Answer>(life: WorldLife, fence: number, effect: () => Answer): Promise<Answer> {
    if (life.isDead) return new Promise(() => undefined);
    const fault = this.#fault?.call === this.#calls++ ? this.#fault.kind : null;
    const random = this.#random;
    if (fault === "stands still") this.#after(leaseMs, () => this.run.reclaim(fence));
    return new Promise((resolve, reject) => {
      if (fault === "dies before") {
        this.#die(life, fence);
        return;
      }
      this.#after(fault === "stands still" ? leaseMs * 2 : random.whole(0, 6), () => {
        if (life.isDead) return;
        const answer = effect();
        if (fault === "dies after") {
          this.#die(life, fence);
          return;
        }
        this.#after(random.whole(0, 6), () => {
          if (life.isDead) return;
          if (fault === "reply lost") reject(new Error("reply lost"));
          else resolve(answer);
        });
      });
    });
  }

  #die(life: WorldLife, fence: number): void {
    life.isDead = true;
    this.#after(leaseMs, () => this.run.reclaim(fence));
  }

  #check(): void {
    const { run } = this;
    if (run.state === "suspended" && run.last > run.seen)
      this.violations.push(`60: suspended after ${run.seen} entries, and there are ${run.last}`);
  }

  /** After the run: its journal, and a replay of it that must append nothing and run nothing. */
  async #judge(): Promise<void> {
    const { run, violations } = this;
    if (run.state !== "completed") {
      violations.push(`the run did not complete: ${run.state}, ${run.last} entries`);
      return;
    }
    this.#judgeJournal();
    const life = new WorldLife(this);
    const refuse = (): never => {
      violations.push("a replay of the whole journal writes");
      throw new Error("no writes in a replay");
    };
    let patches = 0;
    const journal: RunJournal = {
      read: () => new Promise(() => undefined),
      // A patch after which the handler learnt nothing was not recorded before the run completed.
      append: async (entries) => {
        if (entries.some(({ body }) => body.kind !== "patched" && body.kind !== "version")) refuse();
        patches += entries.length;
        return { kind: "ok", last: run.last + patches, at: this.time.now };
      },
      suspend: refuse,
      commitSlip: refuse,
    };
    life.work = (key) => {
      violations.push(`59: a replay of the whole journal runs ${key}`);
      return new Promise(() => undefined);
    };
    let result: unknown = null;
    this.#execute(life, journal, run.read(0), (end) => {
      result = end.kind === "returned" ? end.value : end;
    });
    await settleTurn();
    for (let turn = 0; turn < 50_000 && result === null; turn++) if (!(await this.time.step())) break;
    if (JSON.stringify(result) !== JSON.stringify(run.result))
      violations.push(
        `42: a replay returns ${JSON.stringify(result)}, the run returned ${JSON.stringify(run.result)}`,
      );
    if (this.#bugs.hasIo === true) return;
    for (const { log } of this.#lives) {
      const shown = durablyObserved(log);
      const at = shown.findIndex((what, index) => what !== life.log[index]);
      if (at >= 0) violations.push(`42: a life observed ${shown[at]}, the replay ${life.log[at]} (${at})`);
    }
  }

  #judgeJournal(): void {
    const { entries } = this.run;
    const taken = new Set<number>();
    const keys = new Set<string>();
    const opened = new Map<string, number>();
    const closed: string[] = [];
    for (const { key, body, at, number } of entries) {
      if (keys.has(key)) this.violations.push(`61: the key ${key} is there twice`);
      keys.add(key);
      const signals = body.kind === "arrived" ? [body.signal] : body.kind === "decided" ? body.signals : [];
      for (const signal of signals) {
        if (taken.has(signal)) this.violations.push(`61: the signal ${signal} is taken twice`);
        if (signal >= number) this.violations.push(`61: the signal ${signal} is taken before it came`);
        taken.add(signal);
      }
      const loser = "as" in body ? closed.find((prefix) => body.call.startsWith(prefix)) : undefined;
      if (loser !== undefined) this.violations.push(`${body.kind} ${key} came after its branch was closed`);
      if (body.kind === "raced")
        for (const other of ["branch 0", "branch 1"])
          if (other !== body.winner) closed.push(branchPrefix(body.call, other));
      if (body.kind === "opened" && body.endsInMs !== undefined) opened.set(body.call, at + body.endsInMs);
      if (body.kind === "rang" && at < (opened.get(body.call) ?? 0))
        this.violations.push(`63: ${body.call} rang ${(opened.get(body.call) ?? 0) - at} ms early`);
    }
  }
}

/**
 * An answer of `patched` that was not durable when its life ended has been seen by nobody, nor what followed at once.
 */
function durablyObserved(log: readonly string[]): readonly string[] {
  return log.slice(0, log.findLastIndex((what) => !what.startsWith("?")) + 1);
}
