/** The process heartbeat, one call per second: what it writes and reads, and when. */
import { beforeEach, describe, expect, test } from "vitest";
import { millOn } from "../../../test/support/mill-on.ts";
import { useVirtualMill } from "../../../test/support/virtual/use-virtual-mill.ts";
import { deferred } from "../../../test/support/virtual/virtual-mill.ts";
import type { Millrace } from "../../client/millrace.ts";
import type { HeartbeatRequest } from "../../store/operations.ts";
import type { Store } from "../../store/store.ts";
import { handler } from "../../worker/handler.ts";
import type { WorkerOptions } from "../../worker/worker-settings.ts";
import { job } from "../submit/job-definition.ts";
import { registryKind } from "./registration.ts";

const v = useVirtualMill({ duties: false });
const mail = job<null>("mail", { queue: "email" });
const quickly = handler(mail, async () => undefined);

/** The store calls of the process under test: heartbeats, and other calls for documents of the registry. */
let heartbeats: HeartbeatRequest[];
let others: string[];
let mill: Millrace;
/** Claims of that process are never answered. */
let isHanging: boolean;

beforeEach(() => {
  heartbeats = [];
  others = [];
  isHanging = false;
  const store: Store = {
    ...v.store,
    claim: (request) => (isHanging ? new Promise(() => undefined) : v.store.claim(request)),
    heartbeat(request) {
      heartbeats.push(request);
      return v.store.heartbeat(request);
    },
    putDocs(puts) {
      if (puts.some(({ kind }) => kind === registryKind)) others.push("put");
      return v.store.putDocs(puts);
    },
    readDocs(request) {
      if (request.kind === registryKind) others.push("read");
      return v.store.readDocs(request);
    },
    watch: () => () => undefined,
  };
  mill = millOn({ ...store, close: async () => undefined }, {}, v.platform);
});

const start = (
  options: WorkerOptions,
): Promise<{ readonly id: string; readonly stopped: Promise<unknown> }> =>
  v.run(mill.work([quickly], options));

/** Collects the calls of ten seconds, after the first. */
async function tenSeconds(): Promise<void> {
  await v.advance(1500);
  heartbeats = [];
  others = [];
  await v.advance(10_000);
}

const expectOneEachSecond = (): void => {
  expect(others).toEqual([]);
  expect(heartbeats.length).toBeGreaterThanOrEqual(9);
  expect(heartbeats.length).toBeLessThanOrEqual(10);
  // Every second heartbeat renews the registration.
  const writing = heartbeats.filter(({ puts }) => puts.length > 0).length;
  expect(writing).toBeGreaterThanOrEqual(4);
  expect(writing).toBeLessThanOrEqual(5);
};

describe.each([
  ["without totals", 3],
  ["with totals", { total: 3 }],
])("an idle process %s", (_title, email) => {
  test("makes one call each second, and every second one writes", async () => {
    await start({ queues: { email } });
    await tenSeconds();
    expectOneEachSecond();
    const whole = heartbeats.filter(({ read }) => "prefix" in read).length;
    const most = typeof email === "number" ? 0 : 5;
    expect([most, Math.max(0, most - 1)]).toContain(whole);
    await v.run(mill.close());
  });

  test("makes one call for all of its workers", async () => {
    await start({ queues: { email }, label: "one" });
    await start({ queues: { email }, label: "two" });
    await tenSeconds();
    expectOneEachSecond();
    expect(await v.run(v.mill.workers.list())).toHaveLength(2);
    await v.run(mill.close());
  });
});

test("a process without workers makes the same call, and its duties are shown", async () => {
  mill.duties.start();
  await tenSeconds();
  expectOneEachSecond();
  const views = await v.run(v.mill.duties.list());
  expect(views.map(({ processes }) => processes)).toEqual(views.map(() => 1));
  await v.run(mill.close());
  expect((await v.run(v.mill.duties.list())).map(({ processes }) => processes)).toEqual(views.map(() => 0));
});

test("a worker whose slots are all busy gets cancels and its desired state", async () => {
  const gate = deferred();
  const worker = await v.run(mill.work([handler(mail, () => gate.promise)], { queues: { email: 1 } }));
  await v.run(mill.enqueue(mail, null));
  await tenSeconds();
  expectOneEachSecond();
  await v.run(v.mill.workers.quiet(worker.id));
  await v.advance(1200);
  expect(await v.run(v.mill.workers.list())).toMatchObject([{ mode: "quiet" }]);
  gate.resolve();
  await v.run(mill.close());
});

test("a worker whose claim hangs gets cancels and its desired state", async () => {
  const worker = await start({ queues: { email: 1 } });
  await v.advance(5000);
  isHanging = true;
  await v.advance(2000);
  await v.run(v.mill.workers.quiet(worker.id));
  await v.advance(1200);
  expect(await v.run(v.mill.workers.list())).toMatchObject([{ mode: "quiet" }]);
  await v.advance(100_000);
  isHanging = false;
  await v.run(mill.close());
});

test("a killed worker disappears from the registry within five seconds", async () => {
  let isDead = false;
  const store: Store = {
    ...v.store,
    heartbeat: (request) => (isDead ? new Promise(() => undefined) : v.store.heartbeat(request)),
    close: async () => undefined,
  };
  const doomed = millOn(store, {}, v.platform);
  await v.run(doomed.work([quickly], { queues: { email: 3 } }));
  await v.advance(20_000);
  expect(await v.run(v.mill.workers.list())).toHaveLength(1);
  isDead = true;
  await v.advance(5000);
  expect(await v.run(v.mill.workers.list())).toEqual([]);
  isDead = false;
  await v.run(doomed.close());
  await v.run(mill.close());
});
