import { afterEach, beforeEach, expect, test } from "vitest";
import { runUntil } from "../../test/support/virtual-mill.ts";
import { readMillraceOptions } from "../client/millrace-options.ts";
import type { Store } from "../store/store.ts";
import { openSqliteStore } from "../stores/sqlite/sqlite-store.ts";
import { createVirtualPlatform } from "../testing/virtual-platform.ts";
import type { VirtualPlatform } from "../testing/virtual-platform.ts";
import { Term } from "./duties/term.ts";
import { Engine } from "./engine.ts";

let platform: VirtualPlatform;
let store: Store;

beforeEach(async () => {
  platform = createVirtualPlatform();
  store = await openSqliteStore({ path: ":memory:", platform });
});
afterEach(() => store.close());

interface Process {
  readonly engine: Engine;
  readonly term: Term;
  /** Nothing that it asks of the store arrives any more. */
  isCut: boolean;
  /** The answers to its puts are lost. */
  isDeaf: boolean;
  puts: number;
}

function startProcess(): Process {
  const process: Partial<Process> = { isCut: false, isDeaf: false, puts: 0 };
  const away = (): Promise<never> => Promise.reject(new Error("away"));
  const own: Store = {
    ...store,
    readDocs: (request) => (process.isCut === true ? away() : store.readDocs(request)),
    async putDocs(puts) {
      if (process.isCut === true) return away();
      process.puts = (process.puts ?? 0) + 1;
      const answers = await store.putDocs(puts);
      return process.isDeaf === true ? away() : answers;
    },
  };
  const { settings, log } = readMillraceOptions(platform, { log: false, metrics: false });
  const engine = new Engine(own, platform, settings, log);
  return Object.assign(process, { engine, term: new Term(engine, "upkeep") }) as Process;
}

const take = ({ term }: Process): Promise<boolean> => runUntil(platform, term.take());
const advance = (ms: number): Promise<void> => platform.time.advance(ms * 1000);
const holds = ({ term }: Process): boolean => term.check() !== null;

test("a term whose holder is gone comes to who waits for it within five seconds, and it is told", async () => {
  const [one, two] = [startProcess(), startProcess()];
  let told = 0;
  two.term.whenTaken(() => (told += 1));
  expect([await take(one), await take(two)]).toEqual([true, false]);
  await advance(60_000);
  expect([holds(one), holds(two)]).toEqual([true, false]);
  one.isCut = true;
  await advance(5000);
  expect([holds(two), told]).toEqual([true, 1]);
});

test("a holder that was away takes nothing for its own that another has, and its check is that of the past", async () => {
  const [one, two] = [startProcess(), startProcess()];
  await take(one);
  await take(two);
  const past = one.term.check();
  one.isCut = true;
  await advance(5000);
  one.isCut = false;
  expect(await take(one)).toBe(false);
  expect(one.term.check()).toBeNull();
  expect(two.term.check()?.version).toBeGreaterThan(past?.version ?? Infinity);
  two.isCut = true;
  await advance(5000);
  expect(holds(one)).toBe(true);
});

test("a holder that was away while nobody waited has its term still", async () => {
  const one = startProcess();
  await take(one);
  one.isCut = true;
  await advance(20_000);
  one.isCut = false;
  expect(await take(one)).toBe(true);
});

test("a term whose taking was answered to nobody is known again as the own one", async () => {
  const one = startProcess();
  await take(one);
  await runUntil(platform, one.term.giveBack());
  one.isDeaf = true;
  await expect(take(one)).rejects.toThrow("away");
  one.isDeaf = false;
  expect(await take(one)).toBe(true);
});

test("a term that was given back comes to another with its next look; who waits writes nothing", async () => {
  const [one, two] = [startProcess(), startProcess()];
  await take(one);
  await take(two);
  two.puts = 0;
  await advance(120_000);
  expect(two.puts).toBe(0);
  await runUntil(platform, one.engine.terms.close());
  await advance(1100);
  expect(holds(two)).toBe(true);
  expect(await take(one)).toBe(false);
});

test("a holder that stops rings, and the first that looks takes the term; the others see it by one read", async () => {
  const holder = startProcess();
  await take(holder);
  const waiting = Array.from({ length: 8 }, startProcess);
  for (const each of waiting) await take(each);
  const unwatch = store.watch((hint) => {
    if (hint.kind === "rung") for (const each of waiting) each.engine.terms.rung();
  });
  for (const each of waiting) each.puts = 0;
  await runUntil(platform, holder.engine.terms.close());
  await advance(100);
  unwatch();
  expect(waiting.filter(holds)).toHaveLength(1);
  expect(waiting.filter(({ puts }) => puts > 0)).toHaveLength(1);
});

test("of many that wait one takes the term", async () => {
  const waiting = Array.from({ length: 8 }, startProcess);
  const holder = startProcess();
  await take(holder);
  for (const each of waiting) await take(each);
  holder.isCut = true;
  await advance(10_000);
  expect(waiting.filter(holds)).toHaveLength(1);
});
