import { afterEach, beforeEach, expect, test } from "vitest";
import { runUntil } from "../../../test/support/virtual/virtual-mill.ts";
import { readMillraceOptions } from "../../client/millrace-options.ts";
import type { Store } from "../../store/store.ts";
import { openSqliteStore } from "../../stores/sqlite/sqlite-store.ts";
import { createVirtualPlatform } from "../../testing/virtual-platform.ts";
import type { VirtualPlatform } from "../../testing/virtual-platform.ts";
import { createServices } from "../services.ts";
import type { Services } from "../services.ts";
import { leaderId } from "./leadership.ts";

let platform: VirtualPlatform;
let store: Store;

beforeEach(async () => {
  platform = createVirtualPlatform();
  store = await openSqliteStore({ path: ":memory:", platform });
});
afterEach(() => store.close());

interface Process {
  readonly services: Services;
  /** No call of the process reaches the store any more. */
  isCut: boolean;
  /** The answers to its puts are lost. */
  isUnanswered: boolean;
  /** How often it wrote the leader lease. */
  takes: number;
  gained: number;
}

function startProcess(isCandidate = true): Process {
  const process: Omit<Process, "services"> = { isCut: false, isUnanswered: false, takes: 0, gained: 0 };
  const away = (): Promise<never> => Promise.reject(new Error("away"));
  const own: Store = {
    ...store,
    heartbeat: (request) => (process.isCut ? away() : store.heartbeat(request)),
    async putDocs(puts) {
      if (process.isCut) return away();
      if (puts.some(({ id }) => id === leaderId)) process.takes += 1;
      const answers = await store.putDocs(puts);
      return process.isUnanswered ? away() : answers;
    },
  };
  const { settings, log } = readMillraceOptions(platform, { log: false, metrics: false });
  const services = createServices(own, platform, settings, log);
  services.leadership.isCandidate = isCandidate;
  services.leadership.whenGained(() => (process.gained += 1));
  services.heartbeat.start(() => ({}));
  return Object.assign(process, { services });
}

const advance = (ms: number): Promise<void> => platform.time.advance(ms * 1000);
const leads = ({ services }: Process): boolean => services.leadership.isLeader;
const stop = ({ services }: Process): Promise<void> => runUntil(platform, services.heartbeat.stop());

/** Starts N processes; the first of them leads. */
async function startFleet(count: number): Promise<Process[]> {
  const fleet: Process[] = [];
  for (let number = 0; number < count; number++) {
    fleet.push(startProcess());
    await advance(10);
  }
  expect(fleet.map(leads)).toEqual(fleet.map((_, at) => at === 0));
  return fleet;
}

test("a dead leader is replaced within five seconds, and its successor is notified", async () => {
  const [one, two] = (await startFleet(2)) as [Process, Process];
  await advance(60_000);
  expect([leads(one), leads(two)]).toEqual([true, false]);
  one.isCut = true;
  await advance(5000);
  expect([leads(one), leads(two), two.gained]).toEqual([false, true, 1]);
});

test("renewal keeps the version that fences the leader's writes", async () => {
  const [one] = (await startFleet(2)) as [Process];
  const before = one.services.leadership.check();
  await advance(60_000);
  expect(one.services.leadership.check()).toEqual(before);
  expect(one.takes).toBe(1);
});

test("a leader that was away no longer leads once another does, and its old check is refused", async () => {
  const [one, two] = (await startFleet(2)) as [Process, Process];
  const past = one.services.leadership.check();
  one.isCut = true;
  await advance(5000);
  one.isCut = false;
  await advance(1100);
  expect([leads(one), leads(two)]).toEqual([false, true]);
  expect(one.services.leadership.check()).toBeNull();
  expect(two.services.leadership.check()?.version).toBeGreaterThan(past?.version ?? Infinity);
  two.isCut = true;
  await advance(5000);
  expect(leads(one)).toBe(true);
});

test("a leader that was away while it was the only process takes its lease again before it goes on", async () => {
  const [one] = (await startFleet(1)) as [Process];
  const past = one.services.leadership.check();
  one.isCut = true;
  await advance(20_000);
  expect(leads(one)).toBe(false);
  one.isCut = false;
  await advance(1100);
  expect(leads(one)).toBe(true);
  expect(one.services.leadership.check()?.version).toBeGreaterThan(past?.version ?? Infinity);
});

test("a process whose take of the lease lost its answer knows it by the next heartbeat", async () => {
  const one = startProcess();
  one.isUnanswered = true;
  await advance(10);
  expect([one.takes, leads(one)]).toEqual([1, false]);
  one.isUnanswered = false;
  await advance(1100);
  expect([one.takes, leads(one)]).toEqual([1, true]);
});

test("a leader that stops is replaced with the next heartbeat of another process, and only the successor writes", async () => {
  const [one, two, three] = (await startFleet(3)) as [Process, Process, Process];
  await advance(120_000);
  expect([two.takes, three.takes]).toEqual([0, 0]);
  await stop(one);
  await advance(1100);
  expect([leads(two), leads(three)].filter(Boolean)).toHaveLength(1);
  expect(two.takes + three.takes).toBe(1);
});

test("one of many candidates leads", async () => {
  const fleet = await startFleet(9);
  (fleet[0] as Process).isCut = true;
  await advance(10_000);
  expect(fleet.filter(leads)).toHaveLength(1);
});

test("a process with a duty switched off never leads", async () => {
  const [one] = (await startFleet(1)) as [Process];
  const two = startProcess(false);
  await advance(10_000);
  await stop(one);
  await advance(60_000);
  expect([leads(two), two.takes]).toEqual([false, 0]);
});
