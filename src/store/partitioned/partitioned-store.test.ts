import { beforeEach, describe, expect, test } from "vitest";
import { aChange, aClaim, aDoc, aJob, aRoute, aSettle, finish } from "../../../test/support/builders.ts";
import { createHeldPlatform } from "../../../test/support/virtual/held-platform.ts";
import type { HeldPlatform } from "../../../test/support/virtual/held-platform.ts";
import { failingPart } from "../../../test/support/stores/failing-part.ts";
import type { FailingPart } from "../../../test/support/stores/failing-part.ts";
import { openReference } from "../../../test/support/stores/reference-as-store.ts";
import {
  auditAll,
  findAll,
  pruneAll,
  readAllDocs,
  readAllDue,
  readWholeFeed,
} from "../../../test/support/walk.ts";
import { MillraceError } from "../../model/error.ts";
import type { DocPut } from "../records.ts";
import type { Hint, Store } from "../store.ts";
import { partitionedStore } from "./partitioned-store.ts";

const partitions = 4;
/** The first letter of a name after "p" is its partition. */
const partitionOf = (name: string): number => Number(name.charAt(1));
const placement = { partitions, ofId: partitionOf, ofName: partitionOf, ofGates: 0 };

const away = new MillraceError("store-unavailable", "away");
const lost = new MillraceError("outcome-unknown", "lost");

let platform: HeldPlatform;
let parts: FailingPart[];
let store: Store;
beforeEach(() => {
  platform = createHeldPlatform();
  parts = Array.from({ length: partitions }, () => failingPart(openReference(platform, 1)));
  store = partitionedStore(parts, { platform, placement });
});

const submit = (...ids: readonly string[]): ReturnType<Store["submit"]> =>
  store.submit(ids.map((id) => ({ jobs: [aJob({ id })] })));
const claimAll = async (max = 10): Promise<string[]> =>
  (await store.claim(aClaim({ max }))).jobs.map(({ id }) => id).sort();
const counts = (): number[] => parts.map(({ claims }) => claims);
const resetCounts = (): void => parts.forEach((part) => ((part.claims = 0), (part.promotions = 0)));

/** As a worker does: watching, and every partition has been asked once. */
async function watching(): Promise<Hint[]> {
  const hints: Hint[] = [];
  store.watch((hint) => hints.push(hint));
  platform.advance(20_000);
  await claimAll();
  platform.advance(1000);
  resetCounts();
  return hints;
}

describe("writes", () => {
  test("go to the partition of the job, and are answered in the order given", async () => {
    await submit("p3-a", "p0-a", "p3-b", "p1-a");
    expect((await parts[3]!.readJobs(["p3-a", "p3-b"])).map((job) => job?.seq)).toEqual([1, 2]);
    const read = await store.readJobs(["p1-a", "p2-x", "p3-b", "p0-a"]);
    expect(read.map((job) => job?.id)).toEqual(["p1-a", undefined, "p3-b", "p0-a"]);
    const changes = ["p3-a", "p2-x", "p0-a"].map((id) => aChange(id, ["ready"], finish("cancelled")));
    expect((await store.changeIf(changes)).map(({ kind }) => kind)).toEqual(["ok", "gone", "ok"]);
  });

  test("of one step in two partitions are refused before anything is written", async () => {
    const conflict = { code: "placement-conflict" };
    const units = [{ jobs: [aJob({ id: "p0-a" })] }, { jobs: [aJob({ id: "p1-a" }), aJob({ id: "p2-a" })] }];
    await expect(store.submit(units)).rejects.toMatchObject(conflict);
    expect(await store.readJobs(["p0-a", "p1-a"])).toEqual([null, null]);
    const withDoc = { jobs: [aJob({ id: "p0-a" })], docs: [aDoc("p1-d", "1")] };
    await expect(store.submit([withDoc])).rejects.toMatchObject(conflict);
    await submit("p0-a");
    const [leased] = (await store.claim(aClaim())).jobs;
    const effects = { jobs: [aJob({ id: "p1-b" })] };
    await expect(store.settleIfLeased([aSettle(leased!, finish(), { effects })])).rejects.toMatchObject(
      conflict,
    );
  });

  test("that add to a counter and leave work in another partition are refused before anything is written", async () => {
    const conflict = { code: "placement-conflict" };
    const add = (id: string): DocPut => ({
      ...{ kind: "kv", id: "p1-counter" },
      add: { by: 1, marks: [1], leaves: { kind: "deferred", id } },
    });
    await expect(store.putDocs([aDoc("p0-d", "1"), add("p2-work")])).rejects.toMatchObject(conflict);
    await expect(store.submit([{ jobs: [], docs: [add("p2-work")] }])).rejects.toMatchObject(conflict);
    expect(await readAllDocs(store, "kv", "")).toEqual([]);
    expect(await store.putDocs([add("p1-work")])).toEqual([{ kind: "ok", version: 1, number: 1 }]);
    expect((await store.readDueDocs({ max: 9, cursor: null })).docs).toMatchObject([{ id: "p1-work" }]);
  });

  test("that failed in one partition alone are answered as not known, so that a repeat is marked as one", async () => {
    parts[1]!.fails = away;
    await expect(submit("p0-a", "p1-a")).rejects.toMatchObject({ code: "outcome-unknown" });
    await expect(submit("p1-a")).rejects.toMatchObject({ code: "store-unavailable" });
    parts[1]!.fails = null;
    const again = ["p0-a", "p1-a"].map((id) => ({ jobs: [aJob({ id })], isRepeat: true }));
    expect(await store.submit(again)).toMatchObject([{ hows: ["existing"] }, { hows: ["created"] }]);
  });
});

describe("claims", () => {
  test("take from all partitions no more than is wanted, whoever begins", async () => {
    await submit("p0-a", "p1-a", "p2-a", "p3-a", "p3-b");
    const taken = new Set<string>();
    for (let round = 0; round < 5; round++) {
      const { jobs } = await store.claim(aClaim({ max: 1 }));
      expect(jobs).toHaveLength(1);
      taken.add(jobs[0]!.id);
    }
    expect(taken.size).toBe(5);
    expect(await claimAll()).toEqual([]);
  });

  test("ask nobody in vain while hints come in, but one in turn", async () => {
    await watching();
    await claimAll();
    expect(counts().reduce((sum, count) => sum + count)).toBe(1);
    await submit("p2-a");
    parts[2]!.hint({ kind: "ready", routes: [aRoute()] });
    resetCounts();
    expect(await claimAll()).toEqual(["p2-a"]);
    expect(counts()).toEqual([0, 0, expect.any(Number), 0]);
  });

  test("ask everybody again once what is known is old", async () => {
    await watching();
    platform.advance(40_000);
    await claimAll();
    expect(counts().every((count) => count > 0)).toBe(true);
  });

  test("begin with another partition each time, so that none starves", async () => {
    for (let n = 0; n < 80; n++) await submit(`p${n % 4}-${n}`);
    await watching();
    const firsts = new Set<number>();
    for (let round = 0; round < 4; round++) firsts.add(partitionOf((await claimAll(1))[0] as string));
    expect(firsts.size).toBe(4);
  });

  test("do not overrule a hint that comes while they are under way", async () => {
    await watching();
    await submit("p2-a");
    parts[2]!.hint({ kind: "ready", routes: [aRoute()] });
    const part = parts[2]!;
    const claim: Store["claim"] = part.claim.bind(part);
    part.claim = async (request) => {
      const answer = await claim(request);
      part.claim = claim;
      await parts[2]!.submit([{ jobs: [aJob({ id: "p2-late" })] }]);
      parts[2]!.hint({ kind: "ready", routes: [aRoute()] });
      return answer;
    };
    expect(await claimAll()).toEqual(["p2-a", "p2-late"]);
  });

  test("leave out a partition that is away, and find it again", async () => {
    await submit("p0-a", "p1-a", "p2-a");
    parts[1]!.fails = away;
    expect(await claimAll()).toEqual(["p0-a", "p2-a"]);
    parts[1]!.fails = null;
    expect(await claimAll()).toEqual([]);
    platform.advance(1000);
    expect(await claimAll()).toEqual(["p1-a"]);
    for (const part of parts) part.fails = away;
    await expect(claimAll()).rejects.toMatchObject({ code: "store-unavailable" });
  });

  test("whose reply is lost are known once the partition answers, and then looked for there", async () => {
    await submit("p0-a", "p1-a", "p2-a");
    await store.claim(aClaim({ offers: [] }));
    parts[1]!.fails = lost;
    expect(await claimAll()).toEqual(["p0-a", "p2-a"]);
    parts[1]!.fails = away;
    platform.advance(1000);
    expect(await claimAll()).toEqual([]);
    parts[1]!.fails = null;
    parts[3]!.fails = away;
    platform.advance(20_000);
    expect(await store.claim(aClaim())).toMatchObject({ jobs: [], mustLook: true });
    const { others } = await store.extendIfLeased({
      owner: "w1",
      leaseMs: 1000,
      leases: [],
      wantsOthers: true,
    });
    expect(others.map(({ id }) => id)).toEqual(["p1-a"]);
  });

  test("know a route by one number in every partition", async () => {
    await store.submit([
      { jobs: [aJob({ id: "p0-a", name: "one" })] },
      { jobs: [aJob({ id: "p1-a", name: "two" })] },
    ]);
    await store.submit([{ jobs: [aJob({ id: "p1-b", name: "one" })] }]);
    const one = aRoute({ name: "one" });
    const two = aRoute({ name: "two" });
    const routes = new Map((await store.readRoutes()).map(({ number, name }) => [number, name]));
    expect(routes).toEqual(
      new Map([
        [one, "one"],
        [two, "two"],
      ]),
    );
    const { jobs } = await store.claim(aClaim({ offers: [{ routes: [one], max: 10 }] }));
    expect(jobs.map(({ id, route }) => `${id} ${route}`).sort()).toEqual([`p0-a ${one}`, `p1-b ${one}`]);
  });
});

describe("clocks", () => {
  test("are asked for where they may have rung, and the next of all is known", async () => {
    await watching();
    await store.submit([{ jobs: [aJob({ id: "p3-a", due: { inMs: 500 } })] }]);
    parts[3]!.hint({ kind: "due", inMs: 500 });
    for (let round = 0; round < 8; round++) await store.promoteDue({ max: 10 });
    expect((await store.promoteDue({ max: 10 })).nextDueInMs).toBe(500);
    platform.advance(500);
    expect(await store.promoteDue({ max: 10 })).toMatchObject({ count: 1 });
    parts[3]!.hint({ kind: "ready", routes: [aRoute()] });
    expect(await claimAll()).toEqual(["p3-a"]);
  });

  test("of leases that nobody hinted at are known before a lease of 15 s ends, whatever the number of partitions", async () => {
    const sixteen = Array.from({ length: 16 }, () => failingPart(openReference(platform, 1)));
    const wide = partitionedStore(sixteen, {
      platform,
      placement: { partitions: 16, ofId: () => 0, ofName: () => 0, ofGates: 0 },
    });
    wide.watch(() => undefined);
    const look = async (): Promise<number | null> => {
      platform.advance(1400);
      return (await wide.promoteDue({ max: 10 })).nextDueInMs;
    };
    for (let round = 0; round < 40; round++) expect(await look()).toBe(null);
    for (const part of sixteen) {
      // Another process, which dies at once.
      await part.submit([{ jobs: [aJob({ id: "a" })] }]);
      const { jobs } = await part.claim(aClaim({ leaseMs: 15_000 }));
      let next: number | null = null;
      for (let round = 0; round < 10 && next === null; round++) next = await look();
      expect(next).toBeGreaterThan(0);
      await part.settleIfLeased(jobs.map((job) => aSettle(job, finish())));
      platform.advance(20_000);
      while ((await look()) !== null);
    }
  });

  test("that rang are read page by page from every partition", async () => {
    await submit("p0-a", "p1-a", "p1-b", "p3-a", "p3-b", "p3-c");
    await store.claim(aClaim({ leaseMs: 10 }));
    platform.advance(10);
    for (const max of [1, 2, 100]) {
      const rung = await readAllDue(store, "lease", max);
      expect(rung.map(({ id, route }) => `${id} ${route}`).sort()).toEqual(
        ["p0-a", "p1-a", "p1-b", "p3-a", "p3-b", "p3-c"].map((id) => `${id} ${aRoute()}`),
      );
    }
    parts[0]!.fails = away;
    parts[2]!.fails = away;
    expect(await readAllDue(store, "lease", 2)).toHaveLength(5);
  });

  test("of a partition that is away do not stop the promotion of the others", async () => {
    await store.submit([
      { jobs: [aJob({ id: "p0-a", due: { inMs: 5 } })] },
      { jobs: [aJob({ id: "p1-a", due: { inMs: 5 } })] },
    ]);
    platform.advance(5);
    parts[0]!.fails = away;
    expect(await store.promoteDue({ max: 10 })).toMatchObject({ count: 1, nextDueInMs: expect.any(Number) });
    parts[0]!.fails = null;
    platform.advance(20_000);
    expect(await store.promoteDue({ max: 10 })).toMatchObject({ count: 0, more: true });
    expect(await store.promoteDue({ max: 10 })).toMatchObject({ count: 1 });
  });
});

describe("hints", () => {
  test("come from every partition as they were emitted there", async () => {
    const hints = await watching();
    hints.length = 0;
    const emitted: Hint[] = [
      { kind: "ready", routes: [aRoute()] },
      { kind: "finished", ids: ["x"] },
    ];
    for (const hint of emitted) parts[1]!.hint(hint);
    // Behind each of them stands which partition's feed has grown.
    expect(hints).toEqual(emitted.flatMap((hint) => [hint, { kind: "emitted", partition: 1 }]));
  });
});

describe("looking", () => {
  test("lists, counts and documents are those of all partitions, whatever the size of a page", async () => {
    const ids: string[] = [];
    for (let n = 0; n < 17; n++) {
      const id = `p${(n * 7) % 4}-${n}`;
      await submit(id);
      ids.push(id);
      platform.advance(1);
    }
    for (const max of [1, 3, 100])
      expect((await findAll(store, {}, max)).map(({ id }) => id)).toEqual(ids.toReversed());
    for (const scanMax of [1, 2, 5])
      expect((await findAll(store, {}, 3, scanMax)).map(({ id }) => id).sort()).toEqual(ids.toSorted());
    expect(await store.countJobs()).toEqual([{ queue: "mail", name: "send", state: "ready", count: 17 }]);
    const names = ["p1-a", "p0-b", "p3-c", "p2-ü", "p0-🙂", "p0-\uffee"];
    await store.putDocs(names.map((id) => aDoc(id, id)));
    const sorted = names.toSorted((one, other) => Buffer.compare(Buffer.from(one), Buffer.from(other)));
    for (const max of [1, 2, 100])
      expect((await readAllDocs(store, "kv", "p", max)).map(({ id }) => id)).toEqual(sorted);
    const { docs } = await store.readDocs({ kind: "kv", ids: ["p3-c", "p1-a", "p2-x"] });
    expect(docs.map(({ id }) => id)).toEqual(["p1-a", "p3-c"]);
  });

  test("a cursor of another store is refused", async () => {
    const request = { filter: {}, max: 1, scanMax: 9, cursor: "5" };
    await expect(store.findJobs(request)).rejects.toMatchObject({ code: "invalid-option" });
    await expect(store.readFeed({ partition: 9, after: 0, max: 1 })).rejects.toMatchObject({
      code: "invalid-option",
    });
  });

  test("each partition has its feed", async () => {
    await submit("p2-a", "p0-a", "p2-b");
    const records = await readWholeFeed(store);
    expect(records.map(({ number, events }) => [number, events.map(({ id, route }) => [id, route])])).toEqual(
      [
        [1, [["p0-a", aRoute()]]],
        [
          1,
          [
            ["p2-a", aRoute()],
            ["p2-b", aRoute()],
          ],
        ],
      ],
    );
  });

  test("it says how many partitions it has, and promises what the weakest does", async () => {
    parts[2]!.describe = async () => ({ ...(await parts[0]!.describe()), epoch: 7, warnings: ["slow"] });
    expect(store.partitions).toBe(4);
    expect(await store.describe()).toMatchObject({
      partitions: 4,
      durability: "memory",
      epoch: 7,
      warnings: ["slow"],
    });
  });
});

describe("upkeep", () => {
  test("prunes and audits every partition in bites", async () => {
    const ids = ["p0-a", "p1-a", "p1-b", "p3-a", "p3-b", "p3-c"];
    await submit(...ids);
    await store.changeIf(ids.map((id) => aChange(id, ["ready"], finish("cancelled"))));
    platform.advance(10);
    const history = {
      what: "history",
      outcome: "cancelled",
      queue: null,
      exceptQueues: [],
      olderThanMs: 5,
    } as const;
    expect(await pruneAll(store, { ...history, max: 2, cursor: null })).toBe(6);
    expect(await findAll(store)).toEqual([]);
    await store.putDocs(["p0-d", "p1-d", "p2-d"].map((id) => aDoc(id, "1", { expiresInMs: 1 })));
    platform.advance(5);
    expect(await pruneAll(store, { what: "expired", max: 2 })).toBe(3);
    expect(await auditAll(store, 1)).toEqual({});
  });

  test("keeps a count as a whole, each partition its share of it, and never fewer", async () => {
    const ids = [0, 1, 2, 3].flatMap((at) =>
      Array.from({ length: 4 + 4 * at }, (_, index) => `p${at}-${index}`),
    );
    await submit(...ids);
    for (const id of ids) {
      await store.changeIf([aChange(id, ["ready"], finish("cancelled"))]);
      platform.advance(1);
    }
    const surplus = { what: "surplus", outcome: "cancelled", queue: "mail", max: 3, cursor: null } as const;
    expect(await pruneAll(store, { ...surplus, keep: 40 })).toBe(0);
    expect(await pruneAll(store, { ...surplus, keep: 10 })).toBeGreaterThanOrEqual(30 - 4);
    const kept = (await findAll(store)).map(({ id }) => id);
    expect(kept.length).toBeGreaterThanOrEqual(10);
    expect(["p0-3", "p1-7", "p2-11", "p3-15"].filter((newest) => !kept.includes(newest))).toEqual([]);
    expect(await pruneAll(store, { ...surplus, keep: 1 })).toBe(kept.length - 4);
  });
});
