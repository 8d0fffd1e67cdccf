/** One of four partitions fails or falls silent: the others go on, nothing is lost with it, and it is logged. */
import { beforeEach, describe, expect, test } from "vitest";
import { aClaim, aDoc, aGate, aJob, aRoute } from "../../../test/support/builders.ts";
import { failingPart } from "../../../test/support/stores/failing-part.ts";
import type { FailingPart } from "../../../test/support/stores/failing-part.ts";
import { openReference } from "../../../test/support/stores/reference-as-store.ts";
import { auditAll, findAll, pruneAll } from "../../../test/support/walk.ts";
import { createVirtualPlatform } from "../../testing/virtual-platform.ts";
import type { VirtualPlatform } from "../../testing/virtual-platform.ts";
import { settleTurn } from "../../testing/virtual-time.ts";
import { MillraceError } from "../../model/error.ts";
import type { ExtendRequest } from "../operations.ts";
import type { LeasedJob } from "../records.ts";
import type { Hint, Store } from "../store.ts";
import { partitionedStore } from "./partitioned-store.ts";

const partitions = 4;
/** The first letter of a name after "p" is its partition. */
const partitionOf = (name: string): number => Number(name.charAt(1));
const placement = { partitions, ofId: partitionOf, ofName: partitionOf, ofGates: 0 };
const broken = new Error("WRONGTYPE Operation against a key holding the wrong kind of value");
const away = new MillraceError("store-unavailable", "away");

let platform: VirtualPlatform;
let parts: FailingPart[];
let sick: FailingPart;
let store: Store;
let hints: Hint[];
beforeEach(() => {
  platform = createVirtualPlatform();
  parts = Array.from({ length: partitions }, () => failingPart(openReference(platform, 1)));
  sick = parts[1] as FailingPart;
  store = partitionedStore(parts, { platform, placement });
  hints = [];
  store.watch((hint) => hints.push(hint));
});

const passMs = (ms: number): Promise<void> => platform.time.advance(ms * 1000);

/** The answer, and how many milliseconds it took. */
async function within<Answer>(limitMs: number, asked: Promise<Answer>): Promise<Answer> {
  let isOver = false;
  asked.then(
    () => (isOver = true),
    () => (isOver = true),
  );
  await settleTurn();
  for (let ms = 0; ms < limitMs && !isOver; ms += 10) await passMs(10);
  expect(isOver, `answered within ${limitMs} ms`).toBe(true);
  return asked;
}

const submit = (...ids: readonly string[]): ReturnType<Store["submit"]> =>
  store.submit(ids.map((id) => ({ jobs: [aJob({ id })] })));
const claim = async (leaseMs = 30_000): Promise<LeasedJob[]> => [
  ...(await within(300, store.claim(aClaim({ max: 10, leaseMs })))).jobs,
];
const idsOf = (jobs: readonly { readonly id: string }[]): string[] => jobs.map(({ id }) => id).sort();
const extend = (leases: readonly LeasedJob[], wantsOthers: boolean): ExtendRequest => ({
  owner: "w1",
  leaseMs: 30_000,
  leases: leases.map(({ id, seq, fence }) => ({ id, seq, fence })),
  wantsOthers,
});

describe("claims", () => {
  test("wait a quarter second for a silent partition, once, and not at all while it stays silent", async () => {
    await submit("p0-a", "p1-a", "p2-a");
    sick.fallSilent();
    expect(idsOf(await claim())).toEqual(["p0-a", "p2-a"]);
    for (let n = 0; n < 20; n++) {
      await submit(`p0-${n}`);
      parts[0]?.hint({ kind: "ready", routes: [aRoute()] });
      const jobs = await within(10, store.claim(aClaim({ max: 10 })));
      expect(idsOf(jobs.jobs)).toEqual([`p0-${n}`]);
      await passMs(1000);
    }
    expect(sick.claims).toBe(1);
  });

  test("bring the jobs of a late answer to their owner, who is woken, with leases that count from then", async () => {
    await submit("p0-a", "p1-a");
    sick.fallSilent();
    expect(idsOf(await claim())).toEqual(["p0-a"]);
    await passMs(20_000);
    hints.length = 0;
    sick.speak();
    await passMs(10);
    expect(hints).toContainEqual({ kind: "ready", routes: [aRoute()] });
    const [late] = await claim();
    expect(late?.id).toBe("p1-a");
    await passMs(29_000);
    expect((await store.readDue({ clock: "lease", max: 10, cursor: null })).jobs.map(({ id }) => id)).toEqual(
      ["p0-a"],
    );
    expect(await claim()).toEqual([]);
  });

  test("hand out no job of a late answer whose lease has ended", async () => {
    await submit("p0-a", "p1-a");
    sick.fallSilent();
    await claim(1000);
    await passMs(5000);
    sick.speak();
    // Reclaimed by another process meanwhile.
    const { jobs } = await sick.readDue({ clock: "lease", max: 10, cursor: null });
    await sick.changeIf(
      jobs.map(({ id, rev }) => ({
        id,
        cases: [
          {
            guard: { states: ["running"], rev },
            next: { to: "ready", event: "reclaimed", countsAttempt: 0 },
          },
        ],
      })),
    );
    await passMs(10);
    const again = [...(await claim()), ...(await claim())].filter(({ id }) => id === "p1-a");
    expect(again.map(({ fence }) => fence)).toEqual([(jobs[0]?.fence ?? 0) + 1]);
  });

  test("are not held up by a partition whose claims fail, and its lost jobs are looked for once it can be asked", async () => {
    await submit("p0-a", "p1-a");
    Object.assign(sick, { fails: new MillraceError("outcome-unknown", "lost"), failing: ["claim"] });
    expect(idsOf(await claim())).toEqual(["p0-a"]);
    sick.fails = null;
    await passMs(300);
    const answer = await within(10, store.claim(aClaim({ max: 10 })));
    expect(answer).toMatchObject({ jobs: [], mustLook: true });
    const { others } = await within(10, store.extendIfLeased(extend([], true)));
    expect(idsOf(others)).toEqual(["p1-a"]);
    expect(await within(10, store.claim(aClaim({ max: 10 })))).not.toHaveProperty("mustLook");
  });

  test.each(["look", "claim"])(
    "and a look for lost jobs hand out each job once: a %s comes first",
    async (first) => {
      await submit("p0-a", "p1-a");
      sick.fallSilent();
      const known = await claim();
      expect(idsOf(known)).toEqual(["p0-a"]);
      const look = async (): Promise<void> => {
        const { others } = await within(300, store.extendIfLeased(extend(known, true)));
        known.push(...others);
      };
      // While the claim is open, and after its late answer.
      await look();
      sick.speak();
      await passMs(10);
      if (first === "look") await look();
      known.push(...(await claim()));
      await look();
      known.push(...(await claim()));
      expect(idsOf(known)).toEqual(["p0-a", "p1-a"]);
    },
  );

  test("find a partition again that never answered one of them", async () => {
    await submit("p0-a", "p1-a");
    const answering: Store["claim"] = sick.claim.bind(sick);
    sick.claim = () => new Promise<never>(() => {});
    expect(idsOf(await claim())).toEqual(["p0-a"]);
    sick.claim = answering;
    let mustLook: boolean | undefined;
    for (let second = 0; second < 40 && mustLook !== true; second++) {
      await passMs(1000);
      ({ mustLook } = await within(10, store.claim(aClaim())));
    }
    expect(store.missing?.()).toEqual([]);
    expect(mustLook).toBe(true);
    const other = await within(10, store.claim(aClaim({ owner: "w2", max: 10 })));
    expect(idsOf(other.jobs)).toEqual(["p1-a"]);
  });

  test("wait for the first answer where every partition is slow", async () => {
    await submit("p0-a", "p2-a");
    for (const part of parts) part.fallSilent();
    const claiming = store.claim(aClaim({ max: 10 }));
    await passMs(3000);
    for (const part of parts) part.speak();
    const { jobs } = await within(10, claiming);
    const rest = await claim();
    expect(idsOf([...jobs, ...rest])).toEqual(["p0-a", "p2-a"]);
  });
});

describe("leases", () => {
  test("of the other partitions are extended, those of a silent one are answered as unknown", async () => {
    await submit("p0-a", "p1-a", "p2-a");
    const jobs = (await claim()).toSorted((one, other) => one.id.localeCompare(other.id));
    sick.fallSilent();
    const { answers } = await within(300, store.extendIfLeased(extend(jobs, false)));
    expect(answers).toEqual(["ok", "unknown", "ok"]);
    sick.speak();
    await passMs(10);
    expect((await within(10, store.extendIfLeased(extend(jobs, false)))).answers).toEqual(["ok", "ok", "ok"]);
  });
});

describe("gates", () => {
  test("of a silent partition are not waited for by those who can do without", async () => {
    await store.putGates([aGate("q:mail")]);
    parts[0]?.fallSilent();
    const read = (limitMs: number): Promise<unknown> =>
      within(
        limitMs,
        store.readGates({ keys: ["q:mail"], mayFail: true }).catch((error: unknown) => error),
      );
    for (const limitMs of [6000, 10])
      expect(await read(limitMs)).toMatchObject({ code: "store-unavailable" });
    parts[0]?.speak();
    await passMs(10);
    expect(await read(10)).toMatchObject({ gates: [{ key: "q:mail" }] });
  });
});

describe("duties", () => {
  const promote = async (limitMs = 300): Promise<number> =>
    (await within(limitMs, store.promoteDue({ max: 10 }))).count;

  test("promote in the others at once, whether one is silent or fails in a way of its own", async () => {
    for (const trouble of ["silent", "failing"]) {
      if (trouble === "silent") sick.fallSilent();
      else Object.assign(sick, { fails: broken, failing: ["promoteDue"] });
      for (let n = 0; n < 5; n++) {
        const due = { inMs: 100 };
        await store.submit([{ jobs: [aJob({ id: `p0-${trouble}${n}`, due })] }]);
        await passMs(100);
        expect(await promote(n === 0 ? 300 : 10)).toBe(1);
      }
      sick.speak();
      sick.fails = null;
      await passMs(60_000);
      await promote();
    }
  });

  test("answer the next clock of the others behind one that is due and cannot be answered", async () => {
    Object.assign(sick, { fails: broken, failing: ["promoteDue"] });
    await store.submit([
      { jobs: [aJob({ id: "p1-a", due: { inMs: 10 } })] },
      { jobs: [aJob({ id: "p0-a", due: { inMs: 400 } })] },
    ]);
    await passMs(100);
    expect(await within(300, store.promoteDue({ max: 10 }))).toMatchObject({
      nextDueInMs: 0,
      hiddenInMs: 300,
    });
  });

  test("wait for no silent partition where it alone was worth asking, so that the others' clocks are heard", async () => {
    // From here on hints are trusted.
    await passMs(10_000);
    // One look at all, then at the first: the second, which is the sick one, has not been looked at for longest.
    for (let n = 0; n < 2; n++) {
      await promote();
      await passMs(1);
    }
    await store.submit([{ jobs: [aJob({ id: "p0-a", due: { inMs: 400 } })] }]);
    sick.fallSilent();
    expect(await promote()).toBe(0);
    await passMs(400);
    expect(await promote(10)).toBe(1);
  });

  test("count what a silent partition promoted once it answers", async () => {
    await store.submit([{ jobs: [aJob({ id: "p1-a", due: { inMs: 5 } })] }]);
    await passMs(10);
    sick.fallSilent();
    expect(await promote()).toBe(0);
    sick.speak();
    await passMs(10);
    expect(await promote()).toBe(1);
  });

  test("wait for several silent partitions no longer than for one", async () => {
    await submit("p0-a", "p1-a", "p2-a", "p3-a");
    await store.claim(aClaim({ leaseMs: 10, max: 10 }));
    await store.putDocs(["p0-d", "p1-d", "p2-d", "p3-d"].map((id) => aDoc(id, "1", { due: { inMs: 10 } })));
    await passMs(100);
    for (const part of parts.slice(0, 3)) part.fallSilent();
    const [due, docs] = await within(
      5100,
      Promise.all([
        store.readDue({ clock: "lease", max: 10, cursor: null }),
        store.readDueDocs({ max: 10, cursor: null }),
      ]),
    );
    expect(due).toMatchObject({ jobs: [{ id: "p3-a" }], cursor: null, now: expect.any(Number) });
    expect(docs).toMatchObject({ docs: [{ id: "p3-d" }], cursor: null, now: due.now });
  });

  test.each([1, 3, 7])("go on with pages of %i past a partition that fell silent in between", async (max) => {
    const ids = parts.flatMap((_, number) => Array.from({ length: 5 }, (__, n) => `p${number}-${n}`));
    await submit(...ids);
    await store.claim(aClaim({ leaseMs: 10, max: 100 }));
    await passMs(100);
    const walk = async (afterFirst: () => void): Promise<string[]> => {
      const first = await store.readDue({ clock: "lease", max, cursor: null });
      const found = idsOf(first.jobs);
      afterFirst();
      for (let { cursor } = first; cursor !== null;) {
        const page = await within(5100, store.readDue({ clock: "lease", max, cursor }));
        expect(page.jobs.length).toBeLessThanOrEqual(max);
        found.push(...idsOf(page.jobs));
        ({ cursor } = page);
      }
      return found.sort();
    };
    expect(await walk(() => {})).toEqual(ids);
    const found = await walk(() => sick.fallSilent());
    expect(new Set(found).size).toBe(found.length);
    expect(found).toEqual(expect.arrayContaining(ids.filter((id) => partitionOf(id) !== 1)));
  });

  test("read, prune and audit what the others have", async () => {
    await submit("p0-a", "p1-a", "p3-a");
    await store.claim(aClaim({ leaseMs: 10, max: 10 }));
    await store.putDocs(["p0-d", "p1-d", "p3-d"].map((id) => aDoc(id, "1", { expiresInMs: 10 })));
    await passMs(100);
    sick.fails = broken;
    const due = await store.readDue({ clock: "lease", max: 10, cursor: null });
    expect(due.jobs.map(({ id }) => id)).toEqual(["p0-a", "p3-a"]);
    expect(await pruneAll(store, { what: "expired", max: 10 })).toBe(2);
    expect(await auditAll(store)).toEqual({});
  });
});

describe("what is missing", () => {
  test("is named with lists, counts and the description, which answer for the rest", async () => {
    await submit("p0-a", "p1-a", "p2-a");
    expect(store.missing?.()).toEqual([]);
    sick.fails = broken;
    const page = await store.findJobs({ filter: {}, max: 10, scanMax: 100, cursor: null });
    expect(page).toMatchObject({ missing: [1], cursor: null });
    expect(idsOf(page.jobs)).toEqual(["p0-a", "p2-a"]);
    expect(idsOf(await findAll(store, {}, 1))).toEqual(["p0-a", "p2-a"]);
    expect(await store.countJobs()).toMatchObject([{ count: 2 }]);
    expect(await store.readRoutes()).toHaveLength(1);
    expect((await store.describe()).warnings).toEqual([expect.stringMatching(/^Partition 1 .*WRONGTYPE/)]);
    expect(store.missing?.()).toMatchObject([{ number: 1, error: broken }]);
    sick.fails = null;
    await store.countJobs();
    await findAll(store);
    await store.readRoutes();
    await store.describe();
    expect(store.missing?.()).toEqual([]);
  });

  test("is found again: a partition that was away is probed, and workers and duties are made to look there", async () => {
    await submit("p0-a", "p1-a");
    sick.fails = away;
    expect(idsOf(await claim())).toEqual(["p0-a"]);
    expect(store.missing?.()).toMatchObject([{ number: 1, failures: 1, error: away }]);
    sick.fails = null;
    hints.length = 0;
    await passMs(6000);
    const found = await claim();
    expect(hints).toEqual([
      { kind: "ready", routes: [aRoute()] },
      { kind: "due", inMs: 0 },
    ]);
    expect(store.missing?.()).toEqual([]);
    expect(idsOf([...found, ...(await claim())])).toEqual(["p1-a"]);
  });

  test("fails a call that is addressed to it, and one over documents, of which no part may be taken for the whole", async () => {
    sick.fails = broken;
    await expect(submit("p1-a")).rejects.toBe(broken);
    await expect(store.readJobs(["p1-a"])).rejects.toBe(broken);
    const all = { kind: "kv", prefix: "", after: null, max: 10 };
    await expect(store.readDocs(all)).rejects.toBe(broken);
    expect(await store.readDocs({ ...all, passesOver: true })).toEqual({ docs: [], cursor: null });
  });

  test("is everything: then the error is thrown", async () => {
    for (const part of parts) part.fails = away;
    await expect(store.countJobs()).rejects.toBe(away);
    await expect(store.claim(aClaim())).rejects.toBe(away);
    await expect(store.promoteDue({ max: 1 })).rejects.toBe(away);
    await expect(store.readDue({ clock: "lease", max: 1, cursor: null })).rejects.toBe(away);
    await expect(store.describe()).rejects.toBe(away);
  });
});
