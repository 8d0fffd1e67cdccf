/**
 * A world for one durable run over the whole engine and a real store: processes that claim the run, senders of signals,
 * children, replies that are lost, and processes that die before or after a call took effect. Everything follows from
 * the seed.
 */
import { z } from "zod";
import { handler, job } from "../../src/index.ts";
import type { Millrace } from "../../src/index.ts";
import { durableMarks, hasMark } from "../../src/model/durable/durable-marks.ts";
import { readEntry } from "../../src/model/durable/entry-text.ts";
import { JournalCursor } from "../../src/model/durable/journal-cursor.ts";
import { MillraceError } from "../../src/model/error.ts";
import type { Store } from "../../src/store/store.ts";
import { createSeededRandom } from "../../src/testing/seeded-random.ts";
import type { SeededRandom } from "../../src/testing/seeded-random.ts";
import type { LiveCall } from "../../src/worker/durable/live-call.ts";
import { createRunCodec } from "../../src/worker/durable/run-codec.ts";
import { RunExecution } from "../../src/worker/durable/run-execution.ts";
import type { RunJournal } from "../../src/worker/durable/run-journal.ts";
import { StepCalls } from "../../src/worker/durable/step-calls.ts";
import { createPayloadCoder } from "../../src/codec/payload.ts";
import { millOn } from "../support/mill-on.ts";
import type { VirtualMill } from "../support/virtual/virtual-mill.ts";
import { interpret } from "./programs.ts";
import type { Block, Life } from "./programs.ts";

const signals = { x: z.number(), y: z.number(), ok: z.object({ ok: z.boolean() }) };
const retry = { attempts: 50, backoff: { kind: "fixed", delay: 50, jitter: "none" } } as const;
const random = job("random", { input: z.object({}), signals, durable: { version: 1 }, retry });
const children = new Map(
  ["a", "b", "c"].map((name) => [`job ${name}`, job(`job ${name}`, { retry: { attempts: 1 } })]),
);
/** Calls that a process can die at, or whose reply can be lost. */
const faulty = ["claim", "settleIfLeased", "recordIfLeased", "readJournal", "extendIfLeased"] as const;
const never = <Value>(): Promise<Value> => new Promise(() => undefined);

interface ProcessState {
  isDead: boolean;
  /** Its calls until it dies. */
  callsLeft: number;
  readonly diesAfter: boolean;
}

export class WorkerWorld {
  readonly violations: string[] = [];
  readonly #v: VirtualMill;
  readonly #random: SeededRandom;
  readonly #program: Block;
  readonly #recorded = new Set<string>();
  #executions = 0;
  #deaths: number;

  constructor(v: VirtualMill, seed: string, program: Block) {
    this.#v = v;
    this.#random = createSeededRandom(seed);
    this.#program = program;
    this.#deaths = this.#random.whole(0, 4);
  }

  async play(): Promise<readonly string[]> {
    const { mill } = this.#v;
    const { id } = await this.#v.run(mill.enqueue(random, {}));
    const processes: Millrace[] = [];
    let current = this.#begin(processes);
    for (let ms = 0; ms < 400_000; ms += 250) {
      await this.#v.advance(250);
      if (current.isDead) current = this.#begin(processes);
      if ((await this.#v.run(mill.jobs.get(id)))?.state === "completed") break;
      await this.#v.run(this.#signal(id, ms));
      if (this.violations.length > 0) break;
    }
    await this.#judge(id);
    return this.violations;
  }

  async #signal(id: string, ms: number): Promise<void> {
    const { mill } = this.#v;
    const pick = this.#random.pick(["x", "y", "ok", "none"] as const);
    // From some time on so many that no wait is left alone.
    const names = ms > 2000 ? (["x", "y"] as const) : pick === "none" ? [] : [pick];
    for (const name of names) {
      const key = `${name} ${ms}`;
      const value = name === "ok" ? { ok: this.#random.chance(0.8) } : this.#random.whole(0, 9);
      const source = this.#random.pick(["ann", "bob"]);
      for (let times = this.#random.whole(1, 2); times > 0; times--)
        await mill.signal(id, name, value, { key, source });
    }
  }

  #begin(processes: Millrace[]): ProcessState {
    const state: ProcessState = {
      isDead: false,
      callsLeft: this.#deaths-- > 0 ? this.#random.whole(3, 30) : Infinity,
      diesAfter: this.#random.chance(0.5),
    };
    const mill = millOn(this.#faulty(state), {}, this.#v.platform);
    processes.push(mill);
    const life: Life = {
      observe: () => undefined,
      io: () => this.#after(this.#random.whole(0, 30)),
      work: (key, fails) => this.#work(state, key, fails),
    };
    const handlers = [
      handler(random, async ({ step }) => interpret(this.#program, withChildren(step), life, false)),
      ...[...children.values()].map((child) =>
        handler(child, async ({ id }) => {
          await this.#after(this.#random.whole(0, 40));
          if (this.#random.chance(0.2)) throw new Error("child");
          return id.length;
        }),
      ),
    ];
    void mill.work(handlers, { lease: "1s" }).catch(() => undefined);
    return state;
  }

  #work(state: ProcessState, key: string, fails: number): Promise<string> {
    const call = key.slice(key.indexOf(":", key.indexOf(":") + 1) + 1);
    if (!state.isDead && this.#recorded.has(`end:${call}`))
      this.violations.push(`59: ${call} runs again after its result was recorded`);
    const value = `${call}=${++this.#executions}`;
    return this.#after(this.#random.whole(0, 25)).then(() => {
      if (state.isDead) return never();
      if (this.#random.chance(fails)) throw new Error(value);
      return value;
    });
  }

  #after(ms: number): Promise<void> {
    return new Promise((resolve) => void this.#v.platform.setTimer(ms, resolve));
  }

  #faulty(state: ProcessState): Store {
    const { store } = this.#v;
    const calls = faulty.map((name) => {
      const call = store[name] as (request: never) => Promise<unknown>;
      const made = async (request: never): Promise<unknown> => {
        if (state.isDead) return never();
        state.callsLeft -= 1;
        const dies = state.callsLeft <= 0;
        if (dies && !state.diesAfter) state.isDead = true;
        if (state.isDead) return never();
        if (dies) state.isDead = true;
        const answer = await call(request);
        if (name === "recordIfLeased") this.#note(request, answer as never);
        if (dies) return never();
        if (name !== "claim" && this.#random.chance(0.03))
          throw new MillraceError("store-unavailable", "the reply was lost", { outcome: "unknown" });
        return answer;
      };
      return [name, made] as const;
    });
    return { ...store, ...Object.fromEntries(calls), close: async () => undefined } as Store;
  }

  #note(
    writes: readonly { readonly entries?: readonly { readonly key: string }[] }[],
    answers: readonly unknown[],
  ): void {
    for (const [at, { entries = [] }] of writes.entries())
      if (typeof answers[at] === "object") for (const { key } of entries) this.#recorded.add(key);
  }

  /** A replay of the whole journal returns the same, and neither runs nor writes anything. */
  async #judge(id: string): Promise<void> {
    const { mill, store, platform } = this.#v;
    const run = <Value>(promise: Promise<Value>): Promise<Value> => this.#v.run(promise);
    const view = await run(mill.jobs.get(id));
    if (view?.state !== "completed") {
      this.violations.push(
        `the run is ${view?.state} (${view?.reason}): ${JSON.stringify(view?.attempts.at(-1))}`,
      );
      return;
    }
    const [answer] = await run(store.readJournal([{ id, after: 0, max: 100_000 }]));
    if (answer?.kind !== "ok" || !hasMark(answer.durable, "hasJournal")) return;
    if ((answer.durable & ~(durableMarks.hasJournal | durableMarks.hasChildren)) !== 0)
      this.violations.push(`marks ${answer.durable}`);
    const entries = answer.entries.map(readEntry);
    const keys = new Set(entries.map(({ key }) => key));
    if (keys.size < entries.length) this.violations.push("61: a key is there twice");
    let patches = 0;
    const refuse = (): never => {
      this.violations.push("a replay of the whole journal writes");
      throw new MillraceError("closed", "no writes in a replay");
    };
    const journal: RunJournal = {
      read: never,
      append: async (puts) => {
        if (puts.some(({ body }) => body.kind !== "patched" && body.kind !== "version")) refuse();
        patches += puts.length;
        return { kind: "ok", last: entries.length + patches, at: platform.now() };
      },
      suspend: refuse,
      commitSlip: refuse,
    };
    const life: Life = {
      observe: () => undefined,
      io: async () => undefined,
      work: (key) => {
        this.violations.push(`59: a replay of the whole journal runs ${key}`);
        return never();
      },
    };
    const codec = createRunCodec({ coder: createPayloadCoder() }, signals);
    const result = new Promise<unknown>((resolve) => {
      const settings = {
        ...{ platform, codec, round: 0, idleMs: 0, lingerMs: 20, unaskedMs: 30_000 },
        version: { version: 1, isNew: entries.length === 0 },
        judge: () => "retry" as const,
        undoDelayMs: () => null,
      };
      const page = { entries, slips: [], now: answer.now };
      const cursor = new JournalCursor<LiveCall>(view.createdAt.getTime());
      const execution = new RunExecution(journal, cursor, settings, page, (end) =>
        resolve(end.kind === "returned" ? end.value : end),
      );
      const step = new StepCalls(execution, {
        ...{ run: { run: id, round: 0 }, journal, codec, platform, backoffs: platform },
        acquire: () => Promise.reject(new Error("no limits here")),
        usage: {
          report: () => Promise.reject(new Error("no budgets here")),
          reserve: () => Promise.reject(new Error("no budgets here")),
        },
        input: null,
        takes: () => true,
        childId: String,
        encodeInput: String,
      });
      execution.begin(() => interpret(this.#program, withChildren(step), life, false));
    });
    const replayed = JSON.stringify(await run(result));
    if (replayed !== JSON.stringify(view.result))
      this.violations.push(
        `42: a replay returns ${replayed}, the run returned ${JSON.stringify(view.result)}`,
      );
  }
}

/** The programs name their children; a run needs their definitions. */
function withChildren(step: object): never {
  return new Proxy(step, {
    get(target, name) {
      const value = Reflect.get(target, name) as unknown;
      if (name === "invoke")
        return (child: { readonly name: string }, input: unknown) =>
          (value as (...given: unknown[]) => unknown).call(target, children.get(child.name), input);
      return typeof value === "function" ? (value.bind(target) as unknown) : value;
    },
  }) as never;
}
