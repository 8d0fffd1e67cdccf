/** Journals of durable runs over partitions: each lies with its run, and calls over several are joined. */
import { beforeEach, expect, test } from "vitest";
import {
  anAppend,
  anEntry,
  aRecord,
  aSignal,
  keysOf,
  leaseOf,
  suspend,
} from "../../../test/contract/cases/durable/journal-calls.ts";
import { aClaim, aDoc, aJob, aSettle } from "../../../test/support/builders.ts";
import { failingPart } from "../../../test/support/stores/failing-part.ts";
import type { FailingPart } from "../../../test/support/stores/failing-part.ts";
import { openReference } from "../../../test/support/stores/reference-as-store.ts";
import { createHeldPlatform } from "../../../test/support/virtual/held-platform.ts";
import type { HeldPlatform } from "../../../test/support/virtual/held-platform.ts";
import { readAllDue } from "../../../test/support/walk.ts";
import { MillraceError } from "../../model/error.ts";
import type { LeasedJob } from "../records.ts";
import type { Hint, Store } from "../store.ts";
import { partitionedStore } from "./partitioned-store.ts";

/** The first letter of a name after "p" is its partition. */
const partitionOf = (name: string): number => Number(name.charAt(1));
const placement = { partitions: 3, ofId: partitionOf, ofName: partitionOf, ofGates: 0 };
const away = new MillraceError("store-unavailable", "away");
const ids = ["p0-a", "p1-a", "p1-b", "p2-a"];

let platform: HeldPlatform;
let parts: FailingPart[];
let store: Store;
let leases: ReadonlyMap<string, LeasedJob>;
const leased = (id: string): LeasedJob => leases.get(id) as LeasedJob;

beforeEach(async () => {
  platform = createHeldPlatform();
  parts = Array.from({ length: placement.partitions }, () => failingPart(openReference(platform, 1)));
  store = partitionedStore(parts, { platform, placement });
  await store.submit(ids.map((id) => ({ jobs: [aJob({ id })] })));
  const { jobs } = await store.claim(aClaim({ leaseMs: 60_000 }));
  leases = new Map(jobs.map((job) => [job.id, job]));
});

test("entries, signals and reads go to the partition of the run, and are answered in the order given", async () => {
  const writes = ids.toReversed().map((id) => aRecord(leased(id), anEntry("one"), anEntry(id)));
  expect(await store.recordIfLeased(writes)).toMatchObject(ids.map(() => ({ kind: "appended", last: 2 })));
  const appends = [...ids, "p2-none"].map((id) => anAppend(id, aSignal(id)));
  expect((await store.changeIf(appends)).map(({ kind }) => kind)).toEqual([
    ...["repeated", "repeated", "repeated", "repeated"],
    "gone",
  ]);
  const reads = ["p2-a", "p0-none", "p1-b", "p0-a"].map((id) => ({ id, after: 1, max: 9 }));
  expect(await store.readJournal(reads)).toMatchObject([
    { kind: "ok", entries: [{ number: 2, key: "p2-a" }] },
    { kind: "gone" },
    { kind: "ok", entries: [{ number: 2, key: "p1-b" }] },
    { kind: "ok", entries: [{ number: 2, key: "p0-a" }] },
  ]);
  expect(await keysOf(parts[1]!, "p1-a")).toEqual(["one", "p1-a"]);
});

test("what an entry has made lies in the partition of its run, or the whole call is refused before any write", async () => {
  const write = (id: string, effects: object) => ({ ...aRecord(leased(id), anEntry("invoke")), effects });
  for (const effects of [{ jobs: [aJob({ id: "p2-b" })] }, { docs: [aDoc("p0-d", "1")] }]) {
    const writes = [write("p0-a", {}), write("p1-a", effects)];
    await expect(store.recordIfLeased(writes)).rejects.toMatchObject({ code: "placement-conflict" });
  }
  expect([await keysOf(store, "p0-a"), await keysOf(store, "p1-a")]).toEqual([[], []]);
  const own = { jobs: [aJob({ id: "p1-c", digest: "d" })], docs: [aDoc("p1-d", "1")] };
  expect(await store.recordIfLeased([write("p1-a", own)])).toMatchObject([{ kind: "appended", last: 1 }]);
  expect(await parts[1]!.readJobs(["p1-c"])).toMatchObject([{ state: "ready" }]);
});

test("a settle learns from the partition of its run what its journal holds", async () => {
  await store.changeIf([anAppend("p1-a", aSignal("s"))]);
  const settles = ["p2-a", "p1-a", "p0-a"].map((id, at) =>
    aSettle(leased(id), suspend(), { journal: { seen: at === 2 ? 4 : 0, entries: [] } }),
  );
  expect(await store.settleIfLeased(settles)).toEqual([
    { kind: "ok" },
    { kind: "arrived", last: 1 },
    { kind: "stale" },
  ]);
});

test("a renewal names the journals that have grown in any partition, also while one of them is away", async () => {
  await store.changeIf(["p2-a", "p0-a", "p1-b"].map((id) => anAppend(id, aSignal("s"))));
  const request = { owner: "w1", leaseMs: 1000, wantsOthers: false };
  const named = ids.map((id) => ({ ...leaseOf(leased(id)), seen: id === "p1-b" ? 1 : 0 }));
  const all = await store.extendIfLeased({ ...request, leases: named });
  expect(all.grown?.toSorted()).toEqual(["p0-a", "p2-a"]);
  parts[0]!.fails = away;
  const some = await store.extendIfLeased({ ...request, leases: named });
  expect(some).toMatchObject({ answers: ["unknown", "ok", "ok", "ok"], grown: ["p2-a"] });
  const none = await store.extendIfLeased({ ...request, leases: named.slice(1, 2) });
  expect(none).not.toHaveProperty("grown");
});

test("hints of all partitions say whose journals have grown", async () => {
  const hints: Hint[] = [];
  store.watch((hint) => hints.push(hint));
  parts[2]!.hint({ kind: "signalled", ids: ["p2-a"], owner: "w1" });
  expect(hints).toEqual([
    { kind: "signalled", ids: ["p2-a"], owner: "w1" },
    { kind: "emitted", partition: 2 },
  ]);
});

test("the wake time that a settle sets is known without a hint", async () => {
  store.watch(() => undefined);
  platform.advance(20_000);
  // From now on partitions are asked only if their clocks may be due, but for one in turn.
  await store.claim(aClaim());
  const journal = { seen: 0, entries: [] };
  const waits = (id: string, inMs: number) => aSettle(leased(id), suspend({ wake: { inMs } }), { journal });
  await store.settleIfLeased([
    waits("p2-a", 400),
    waits("p1-a", 700),
    waits("p0-a", 900),
    waits("p1-b", 900),
  ]);
  expect((await store.promoteDue({ max: 9 })).nextDueInMs).toBe(400);
  platform.advance(400);
  expect((await readAllDue(store, "wake")).map(({ id }) => id)).toEqual(["p2-a"]);
});
