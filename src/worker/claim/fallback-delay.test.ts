import { afterEach, beforeEach, describe, expect, test } from "vitest";
import { millOn } from "../../../test/support/mill-on.ts";
import { runUntil } from "../../../test/support/virtual/virtual-mill.ts";
import type { Millrace } from "../../client/millrace.ts";
import { job } from "../../engine/submit/job-definition.ts";
import type { Hint, Store } from "../../store/store.ts";
import { openSqliteStore } from "../../stores/sqlite/sqlite-store.ts";
import { createVirtualPlatform } from "../../testing/virtual-platform.ts";
import type { VirtualPlatform } from "../../testing/virtual-platform.ts";
import { handler } from "../handler.ts";

const quick = job<number>("quick");
const fleetSize = 8;

let platform: VirtualPlatform;
let store: Store;
let mills: Millrace[];
let sender: Millrace;
/** By process: how often it has claimed, and which jobs it has run, each with its start. */
let claims: number[];
let listeners: Set<(hint: Hint) => void>[];
let starts: Map<number, { readonly by: number; readonly atMs: number }>;
/** A process that takes no job. */
let isFull: boolean[];

const nowMs = (): number => platform.time.elapsedUs / 1000;
const advance = (ms: number): Promise<void> => platform.time.advance(ms * 1000);
const sum = (): number => claims.reduce((all, each) => all + each, 0);

async function startWorker(by: number, canAnnounce: boolean): Promise<void> {
  const own = new Set<(hint: Hint) => void>();
  listeners.push(own);
  const shared: Store = {
    ...store,
    claim: (request) => {
      claims[by] = (claims[by] ?? 0) + 1;
      return store.claim(isFull[by] === true ? { ...request, offers: [] } : request);
    },
    watch: (listener) => {
      own.add(listener);
      return store.watch(listener);
    },
    close: async () => undefined,
    ...(canAnnounce
      ? {
          announceTaken: (routes) => {
            for (const each of listeners)
              if (each !== own) for (const listener of each) listener({ kind: "taken", routes });
          },
        }
      : {}),
  };
  const mill = millOn(shared, { duties: false }, platform);
  mills.push(mill);
  const run = handler(quick, async ({ input }) => void starts.set(input, { by, atMs: nowMs() }));
  await runUntil(platform, mill.work([run]));
}

/** Enqueues one job and waits for its start. @returns how late it was, and by how many claims. */
async function runOne(input: number): Promise<{ readonly lateMs: number; readonly claims: number }> {
  const [fromMs, before] = [nowMs(), sum()];
  await runUntil(platform, sender.enqueue(quick, input));
  // Those who stand by have had their moment.
  await advance(150);
  return { lateMs: (starts.get(input)?.atMs ?? 0) - fromMs, claims: sum() - before };
}

async function startFleet(canAnnounce: boolean): Promise<void> {
  for (let by = 0; by < fleetSize; by++) await startWorker(by, canAnnounce);
  // Those who joined first have heard of the others.
  await advance(500);
}

beforeEach(async () => {
  platform = createVirtualPlatform();
  store = await openSqliteStore({ path: ":memory:", platform });
  [mills, claims, isFull, listeners] = [[], [], [], []];
  starts = new Map();
  sender = millOn({ ...store, close: async () => undefined }, { duties: false }, platform);
});
afterEach(async () => {
  for (const mill of [...mills, sender]) await runUntil(platform, mill.close());
  await store.close();
});

describe("processes that serve one queue", () => {
  test("claim all of them for one ready job where nobody can tell that it is taken", async () => {
    await startFleet(false);
    for (let input = 0; input < 5; input++) await runOne(input);
    expect((await runOne(99)).claims).toBeGreaterThanOrEqual(fleetSize);
  });

  test("leave a ready job to one of them, which starts it at once", async () => {
    await startFleet(true);
    for (let input = 0; input < 30; input++) await runOne(input);
    const polls = Math.ceil((150 / 1092) * fleetSize) + fleetSize;
    const before = sum();
    for (let input = 100; input < 110; input++) expect((await runOne(input)).lateMs).toBeLessThan(5);
    // Ten jobs in 1.5 s: two rounds of polls, and a claim or two for each job.
    expect(sum() - before).toBeLessThan(2 * polls + 20);
  });

  test("start at once what had waited at a gate, however often they have claimed in vain before it opened", async () => {
    await startFleet(true);
    for (let input = 0; input < 30; input++) await runOne(input);
    for (let input = 300; input < 305; input++) {
      await runUntil(platform, sender.queues.pause("default"));
      for (let more = 0; more < 3; more++) await runOne(10 * input + more);
      const fromMs = nowMs();
      await runUntil(platform, sender.queues.resume("default"));
      await advance(150);
      expect((starts.get(10 * input) as { atMs: number }).atMs - fromMs).toBeLessThan(5);
    }
  });

  test("stand in for one that does not answer, a moment late and once", async () => {
    await startFleet(true);
    for (let input = 0; input < 30; input++) await runOne(input);
    const front = (starts.get(29) as { by: number }).by;
    isFull[front] = true;
    const first = await runOne(200);
    expect(first.lateMs).toBeLessThan(120);
    expect((await runOne(201)).lateMs).toBeLessThan(120);
    await runOne(202);
    expect((await runOne(203)).lateMs).toBeLessThan(5);
  });
});
