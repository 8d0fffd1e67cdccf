/**
 * How soon a fleet acts by its heartbeats alone, by the virtual clock: on what another process has changed within 1.2
 * s, and after a process that died within five seconds. The real stores' part is in heartbeats.test.ts, members.test.ts
 * and takeover.test.ts.
 */
import { afterEach, beforeEach, describe, expect, test } from "vitest";
import type { Millrace } from "../../src/client/millrace.ts";
import { job } from "../../src/engine/submit/job-definition.ts";
import { leaderId } from "../../src/engine/fleet/leadership.ts";
import { registryKind } from "../../src/engine/fleet/registration.ts";
import { webhookQueue } from "../../src/model/events/webhook.ts";
import type { Store } from "../../src/store/store.ts";
import { openSqliteStore } from "../../src/stores/sqlite/sqlite-store.ts";
import { createVirtualPlatform } from "../../src/testing/virtual-platform.ts";
import type { VirtualPlatform } from "../../src/testing/virtual-platform.ts";
import { handler } from "../../src/worker/handler.ts";
import { millOn } from "../support/mill-on.ts";
import { runUntil } from "../support/virtual/virtual-mill.ts";

const hook = { url: "http://127.0.0.1:9/", secret: "a secret of enough length", kinds: "failed" } as const;
const shared = job<null>("shared", { queue: "shared" });

let platform: VirtualPlatform;
let store: Store;
let started: Millrace[];

const run = <Value>(promise: Promise<Value>): Promise<Value> => runUntil(platform, promise);
const advance = (ms: number): Promise<void> => platform.time.advance(ms * 1000);

interface Member {
  readonly mill: Millrace;
  /** As kill -9 does: nothing that it asks of the store arrives any more, and it hears nothing. */
  die(): void;
}

function start(isUnheard: boolean, hasDuties = true): Member {
  let isDead = false;
  const calls = Object.entries(store).map(([name, call]: [string, unknown]) => [
    name,
    typeof call === "function"
      ? (...given: unknown[]) =>
          isDead ? Promise.reject(new Error("dead")) : (call as (...all: unknown[]) => unknown)(...given)
      : call,
  ]);
  const own: Store = {
    ...(Object.fromEntries(calls) as unknown as Store),
    watch: (listener) =>
      store.watch((hint) => {
        if (!isDead && !isUnheard) listener(hint);
      }),
    close: async () => undefined,
  };
  const mill = millOn(own, hasDuties ? {} : { duties: false }, platform);
  started.push(mill);
  return { mill, die: () => void (isDead = true) };
}

const work = (mill: Millrace, slots: number | { total: number }) =>
  run(mill.work([handler(shared, async () => undefined)], { queues: { shared: slots } }));
const shares = async (mill: Millrace): Promise<string> =>
  (await run(mill.workers.list())).map(({ slots }) => slots["shared"]).join();
/** Which process leads; null for none. */
const leader = async (): Promise<string | null> => {
  const { docs } = await run(store.readDocs({ kind: registryKind, ids: [leaderId] }));
  return docs[0]?.body ?? null;
};

beforeEach(async () => {
  platform = createVirtualPlatform();
  store = await openSqliteStore({ path: ":memory:", platform });
  started = [];
});
afterEach(async () => {
  for (const mill of started) await run(mill.close());
  await store.close();
});

describe("within 1.2 s, although every hint is lost,", () => {
  const isUnheard = true;
  const withinMs = 1200;
  test.each<[role: string, begin: (mill: Millrace) => unknown]>([
    ["with workers", (mill) => work(mill, 4)],
    ["whose workers share a total", (mill) => work(mill, { total: 4 })],
    ["without workers", (mill) => mill.duties.start()],
  ])("processes %s lead after one that stops", async (_role, begin) => {
    const [one, two] = [start(isUnheard), start(isUnheard)];
    await begin(one.mill);
    await advance(10_000);
    const first = await leader();
    await begin(two.mill);
    await advance(10_000);
    expect(await leader()).toBe(first);
    await run(one.mill.close());
    await advance(withinMs);
    expect([null, first]).not.toContain(await leader());
  });

  test("workers take over the share of one that stops", async () => {
    const [one, two] = [start(isUnheard), start(isUnheard)];
    await work(one.mill, { total: 6 });
    const worker = await work(two.mill, { total: 6 });
    await advance(10_000);
    expect(await shares(one.mill)).toBe("3,3");
    await run(worker.stop());
    await advance(withinMs);
    expect(await shares(one.mill)).toBe("6");
  });

  test("an idle worker follows a setting and a desired state", async () => {
    const [operator, other] = [start(isUnheard, false).mill, start(isUnheard).mill];
    const worker = await work(other, 4);
    await advance(10_000);
    await run(operator.queues.set("shared", { total: 2 }));
    await advance(withinMs);
    expect(await shares(operator)).toBe("2");
    await run(operator.workers.stop(worker.id));
    await advance(withinMs);
    expect(await shares(operator)).toBe("");
  });

  test("a process without workers looks after the first webhook", async () => {
    const [operator, other] = [start(isUnheard, false).mill, start(isUnheard).mill];
    other.duties.start();
    await advance(10_000);
    await run(operator.webhooks.add("hook", hook));
    await advance(withinMs);
    const workers = await run(operator.workers.list());
    expect(workers.flatMap(({ queues }) => queues)).toEqual([webhookQueue]);
  });
});

describe("within five seconds after a process died", () => {
  test("another has its share", async () => {
    const [one, two] = [start(false), start(false)];
    await work(one.mill, { total: 12 });
    await work(two.mill, { total: 12 });
    await advance(10_000);
    expect(await shares(one.mill)).toBe("6,6");
    two.die();
    await advance(5000);
    expect(await shares(one.mill)).toBe("12");
  });

  test("another leads", async () => {
    const [one, two] = [start(false), start(false)];
    one.mill.duties.start();
    await advance(10_000);
    const first = await leader();
    two.mill.duties.start();
    await advance(10_000);
    expect(await leader()).toBe(first);
    one.die();
    await advance(5000);
    expect([null, first]).not.toContain(await leader());
  });
});
