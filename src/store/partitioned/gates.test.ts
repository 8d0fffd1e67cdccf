/** Gates over partitions, on partitions that keep the contract to the letter: the reference model. */
import { beforeEach, describe, expect, test } from "vitest";
import { foreverMs, limitGateKey, queueGateKey } from "../../model/limits/gate.ts";
import { keyedGate, writeKeyUse } from "../../model/routing/lane.ts";
import { aClaim, aGate, aJob, aRoute } from "../../../test/support/builders.ts";
import { createHeldPlatform } from "../../../test/support/virtual/held-platform.ts";
import { openReference } from "../../../test/support/stores/reference-as-store.ts";
import type { NewJob } from "../records.ts";
import type { Store } from "../store.ts";
import { partitionedStore } from "./partitioned-store.ts";

const partitions = 4;
/** The first letter of a name after "p" is its partition. */
const partitionOf = (name: string): number => Number(name.charAt(1));
const placement = { partitions, ofId: partitionOf, ofName: partitionOf, ofGates: 2 };
const slack = limitGateKey("slack");
const mail = queueGateKey("mail");

let parts: Store[];
let store: Store;
beforeEach(() => {
  const platform = createHeldPlatform();
  parts = Array.from({ length: partitions }, () => openReference(platform, 1));
  store = partitionedStore(parts, { platform, placement });
});

async function submitOnEach(): Promise<void> {
  await store.submit(["p0a", "p1a", "p2a", "p3a"].map((id) => ({ jobs: [aJob({ id })] })));
}

test("a limit is where its jobs are, and a job elsewhere cannot have it", async () => {
  await store.putGates([aGate(slack, { cap: 1 })]);
  const held = await Promise.all(parts.map((part) => part.readGates({ keys: [slack] })));
  expect(held.map(({ gates }) => gates.length)).toEqual([0, 0, 1, 0]);
  const gates = [{ key: slack, weight: 1 }];
  await expect(store.submit([{ jobs: [aJob({ id: "p1x", gates })] }])).rejects.toMatchObject({
    code: "placement-conflict",
  });
  await store.submit(["p2x", "p2y"].map((id) => ({ jobs: [aJob({ id, gates })] })));
  const offers = [{ routes: [aRoute({ gates })], max: 5 }];
  expect((await store.claim(aClaim({ offers }))).jobs).toHaveLength(1);
  expect((await store.claim(aClaim({ offers }))).jobs).toHaveLength(0);
  expect((await store.readGates({ keys: [slack] })).gates).toMatchObject([{ held: 1 }]);
});

test("a queue's gate is closed and opened in every partition before the put is answered", async () => {
  await submitOnEach();
  await store.putGates([aGate(mail, { closed: { at: foreverMs } })]);
  expect((await store.claim(aClaim())).jobs).toEqual([]);
  expect((await store.readGates({ prefix: "q:", after: null, max: 5 })).gates).toMatchObject([
    { key: mail, closedUntil: foreverMs, held: 0 },
  ]);
  await store.putGates([aGate(mail)]);
  expect((await store.claim(aClaim())).jobs).toHaveLength(4);
  expect((await store.readGates({ keys: [mail] })).gates).toMatchObject([{ held: 4 }]);
});

test.each([
  ["the earlier put comes last", [1, 0]],
  ["the earlier put comes first", [0, 1]],
])("two puts of a queue at once leave every partition with the later one, where %s", async (_what, order) => {
  const part = parts[0] as Store;
  const arrivals: { arrive: () => void; hasArrived: Promise<unknown> }[] = [];
  const { promise: bothAreThere, resolve } = Promise.withResolvers<void>();
  const delayed: Store = {
    ...part,
    readGates: (request) => part.readGates(request),
    putGates: async (puts) => {
      if (arrivals.length === 2) return part.putGates(puts);
      const { promise: mayArrive, resolve: arrive } = Promise.withResolvers<void>();
      const hasArrived = mayArrive.then(() => part.putGates(puts));
      arrivals.push({ arrive, hasArrived });
      if (arrivals.length === 2) resolve();
      return hasArrived;
    },
  };
  const slow = partitionedStore([delayed, ...parts.slice(1)], { platform: createHeldPlatform(), placement });
  await submitOnEach();
  const puts = [slow.putGates([aGate(mail, { closed: { at: foreverMs } })]), slow.putGates([aGate(mail)])];
  await bothAreThere;
  for (const which of order) {
    arrivals[which]?.arrive();
    await arrivals[which]?.hasArrived;
  }
  await Promise.all(puts);
  const copies = await Promise.all(parts.map((each) => each.readGates({ keys: [mail] })));
  expect(copies.map(({ gates: [gate] }) => gate?.closedUntil)).toEqual([null, null, null, null]);
  expect((await store.claim(aClaim())).jobs).toHaveLength(4);
});

test("a put that its guard refuses changes no partition", async () => {
  await store.putGates([aGate(mail)]);
  const closed = { at: foreverMs };
  expect(await store.putGates([aGate(mail, { closed, guard: { version: 7 } })])).toEqual([
    { kind: "changed", version: 1 },
  ]);
  await submitOnEach();
  expect((await store.claim(aClaim())).jobs).toHaveLength(4);
});

test("the partitions share a queue's rate, so that together they never exceed it", async () => {
  await store.putGates([aGate(mail, { rate: { stepUs: 1000, burstUs: 8000 } })]);
  await store.submit(Array.from({ length: 40 }, (_, at) => ({ jobs: [aJob({ id: `p${at % 4}-${at}` })] })));
  expect(await store.claim(aClaim({ max: 40 }))).toMatchObject({ jobs: { length: 8 }, opensInMs: 4 });
  expect((await store.readGates({ keys: [mail] })).gates).toMatchObject([
    { rate: { stepUs: 1000, burstUs: 8000 }, held: 8 },
  ]);
});

describe("keys of a limit", () => {
  const keyOf = (key: string): string => keyedGate(slack, key);
  const keyed = (id: string, key: string, given: Partial<NewJob> = {}): NewJob =>
    aJob({ id, laneKey: key, laneGates: [writeKeyUse({ key: keyOf(key), weight: 1, cap: null })], ...given });
  const routes = [aRoute({ laneKey: "any" })];
  const claimed = async (offered = routes): Promise<string[]> =>
    (await store.claim(aClaim({ offers: [{ routes: offered, max: 9 }] }))).jobs.map(({ id }) => id).sort();

  test("are bounded in whichever partition they lie, and free again when the limit says nothing of them", async () => {
    await store.putGates([aGate(slack, { perKey: { cap: 1, rate: null } })]);
    const jobs = ["p0a", "p0b", "p1a", "p1b", "p3a"].map((id) => keyed(id, id.slice(0, 2)));
    await store.submit(jobs.map((job) => ({ jobs: [job] })));
    expect(await claimed()).toEqual(["p0a", "p1a", "p3a"]);
    expect(await claimed()).toEqual([]);
    expect(
      (await store.readGates({ keys: [slack, keyOf("p1"), keyOf("p2"), keyOf("p3")] })).gates,
    ).toMatchObject([
      { key: slack, perKey: { cap: 1 }, held: 0 },
      { key: keyOf("p1"), version: 0, cap: 1, held: 1 },
      { key: keyOf("p3"), version: 0, cap: 1, held: 1 },
    ]);
    await store.putGates([aGate(slack)]);
    expect(await claimed()).toEqual(["p0b", "p1b"]);
  });

  test("are put where they lie, also for jobs that the limit itself keeps elsewhere", async () => {
    await store.putGates([aGate(slack, { cap: 9 })]);
    const closed = { at: foreverMs };
    expect(await store.putGates([aGate(keyOf("p1"), { closed, guard: { version: 0 } })])).toEqual([
      { kind: "ok", version: 1 },
    ]);
    expect(await store.putGates([aGate(keyOf("p1"), { guard: { version: 0 } })])).toEqual([
      { kind: "changed", version: 1 },
    ]);
    const gates = [{ key: slack, weight: 1 }];
    const onRoute = [aRoute({ laneKey: "any", gates })];
    await store.submit([keyed("p1a", "p1"), keyed("p2a", "p1", { gates })].map((job) => ({ jobs: [job] })));
    expect([await claimed(), await claimed(onRoute)]).toEqual([[], []]);
    await store.putGates([aGate(keyOf("p1"), { guard: { version: 1 } })]);
    expect([await claimed(), await claimed(onRoute)]).toEqual([["p1a"], ["p2a"]]);
    expect((await store.readGates({ keys: [keyOf("p1")] })).gates).toMatchObject([{ version: 2, held: 2 }]);
    expect((await store.readGates({ prefix: "l:", after: null, max: 9 })).gates).toMatchObject([
      { key: slack },
      {},
    ]);
  });
});
