/** Lanes (R6, R7): who of a group or a key may be claimed next, and what a key of a limit holds. */
import { expect } from "vitest";
import { foreverMs, limitGateKey } from "../../../src/model/limits/gate.ts";
import { keyedGate, laneStepOf, writeKeyUse } from "../../../src/model/routing/lane.ts";
import type { ClaimAnswer } from "../../../src/store/operations.ts";
import type { NewJob } from "../../../src/store/records.ts";
import type { Hint } from "../../../src/store/store.ts";
import {
  aChange,
  aClaim,
  aGate,
  aJob,
  aRoute,
  aSettle,
  finish,
  remove,
  schedule,
} from "../../support/builders.ts";
import { until } from "../../support/until.ts";
import { auditAll } from "../../support/walk.ts";
import type { ContractGroup } from "../subject.ts";
import { byRank, claimFrom, claimOne, grouped, ids, idsFrom, laneOf } from "./laned-jobs.ts";

/** A job of a group that takes turns with the others. */
const fair = (id: string, key: string, weight = 1, given: Partial<NewJob> = {}): NewJob =>
  aJob({ id, laneKey: `fair ${key}`, laneStep: laneStepOf(weight), ...given });
const slack = limitGateKey("slack");
const slackOf = (key: string): string => keyedGate(slack, key);
/** A job that asks for a key of the limit. */
const keyed = (id: string, key: string, weight = 1, given: Partial<NewJob> = {}): NewJob =>
  aJob({
    id,
    laneKey: `keyed ${given.queue ?? ""} ${given.name ?? ""} ${key} ${weight}`,
    laneGates: [writeKeyUse({ key: slackOf(key), weight, cap: null })],
    ...given,
  });
const byTurn = aRoute({ laneKey: "any", laneStep: 1 });
const perKey = (cap: number | null, rate: { stepUs: number; burstUs: number } | null = null) =>
  aGate(slack, { perKey: { cap, rate } });

export const closedKeysTitle =
  "jobs whose keys are closed when they come are met by no claim, however many, until the keys open";
export const laneHintTitle = "the end of a holder is a hint for the route of the next in its lane";

export const laneCases: ContractGroup = {
  about: "lanes",
  cases: [
    [
      "a claim that has its bytes says of an offer with lanes only whether there is more",
      async ({ submit, store }) => {
        const offers = [aRoute(), byRank].map((route) => ({ routes: [route], max: 5 }));
        const claim = (): Promise<ClaimAnswer> => store.claim(aClaim({ offers, inputBytesMax: 1 }));
        await submit(aJob({ id: "a" }), grouped("k1", "k"), grouped("k2", "k"));
        expect(await claim()).toMatchObject({ jobs: [{ id: "a" }], more: true });
        const { jobs } = await claim();
        expect(ids(jobs)).toEqual(["k1"]);
        await submit(aJob({ id: "b" }));
        expect(await claim()).toMatchObject({ jobs: [{ id: "b" }] });
        await store.settleIfLeased([aSettle(jobs[0]!, finish())]);
        expect(await idsFrom(store, [byRank])).toEqual(["k2"]);
        await submit(aJob({ id: "c" }));
        // The other partitions of a store are not asked any more.
        const more = (store.partitions ?? 1) > 1;
        expect(await claim()).toMatchObject({ jobs: [{ id: "c" }], more });
      },
    ],
    [
      closedKeysTitle,
      async ({ submit, store, platform }) => {
        await store.putGates([perKey(null, { stepUs: 20_000, burstUs: 20_000 })]);
        const keys = Array.from({ length: 1100 }, (_, at) => `k${at}`);
        await submit(...keys.map((key) => keyed(`a-${key}`, key)));
        const { jobs } = await claimFrom(store, [byRank], keys.length);
        expect(jobs).toHaveLength(keys.length);
        await store.settleIfLeased(jobs.map((each) => aSettle(each, finish())));
        await submit(...keys.map((key) => keyed(`b-${key}`, key)), aJob({ id: "plain" }));
        const offers = [byRank, aRoute()].map((route) => ({ routes: [route], max: 10 }));
        const beside = await store.claim(aClaim({ offers }));
        expect([ids(beside.jobs), beside.more, beside.opensInMs]).toEqual([["plain"], false, 20]);
        expect(await auditAll(store)).toEqual({});
        platform.advance(20);
        expect(await idsFrom(store, [byRank], 2)).toEqual(["b-k0", "b-k1"]);
        const rest = await claimFrom(store, [byRank], keys.length);
        expect([rest.jobs.length, rest.more]).toEqual([keys.length - 2, false]);
      },
    ],
    [
      "a group of one at once is claimed in order, one after the other's end",
      async ({ submit, store }) => {
        await submit(...["a", "b", "c"].map((id) => grouped(id, "k")), grouped("x", "other"));
        const first = await claimFrom(store, [byRank]);
        expect([ids(first.jobs), first.more]).toEqual([["a", "x"], false]);
        expect(await idsFrom(store, [byRank])).toEqual([]);
        await store.settleIfLeased([aSettle(first.jobs[0]!, finish())]);
        expect(await idsFrom(store, [byRank])).toEqual(["b"]);
      },
    ],
    [
      "up to the cap of a group run at once, and a lowered cap of later jobs holds for them",
      async ({ submit, store }) => {
        await submit(...["a", "b", "c", "d"].map((id) => grouped(id, "k", 2)), grouped("e", "k", 1));
        const { jobs } = await claimFrom(store, [byRank]);
        expect(ids(jobs)).toEqual(["a", "b"]);
        await store.settleIfLeased([aSettle(jobs[0]!, finish())]);
        const [c] = (await claimFrom(store, [byRank])).jobs;
        expect(c?.id).toBe("c");
        await store.settleIfLeased([aSettle(jobs[1]!, finish())]);
        const [d] = (await claimFrom(store, [byRank])).jobs;
        expect(d?.id).toBe("d");
        await store.settleIfLeased([aSettle(c!, finish())]);
        expect(await idsFrom(store, [byRank])).toEqual([]);
        await store.settleIfLeased([aSettle(d!, finish())]);
        expect(await idsFrom(store, [byRank])).toEqual(["e"]);
      },
    ],
    [
      "the order of a group holds over names: who serves only the second job's name has to wait",
      async ({ submit, store }) => {
        await submit(grouped("a", "k"), grouped("b", "k", 1, { name: "other" }));
        const other = aRoute({ laneKey: "any", name: "other" });
        expect(await idsFrom(store, [other])).toEqual([]);
        const a = await claimOne(store, [byRank]);
        expect(await idsFrom(store, [other])).toEqual([]);
        await store.settleIfLeased([aSettle(a, finish())]);
        expect(await idsFrom(store, [byRank])).toEqual([]);
        expect(await idsFrom(store, [other])).toEqual(["b"]);
      },
    ],
    [
      "several of one lane are taken by one call, and in their order over several routes",
      async ({ submit, store }) => {
        const other = { name: "other" };
        await submit(
          grouped("a", "k", 9),
          grouped("b", "k", 9, other),
          grouped("c", "k", 9),
          grouped("d", "l", 9),
        );
        const routes = [byRank, aRoute({ laneKey: "any", ...other })];
        expect(await idsFrom(store, routes, 3)).toEqual(["a", "b", "c"]);
      },
    ],
    [
      "priority orders inside a key, also ahead of a first job that waits longer",
      async ({ submit, store, platform }) => {
        await submit(grouped("a", "k"));
        const a = await claimOne(store, [byRank]);
        await submit(grouped("b", "k"));
        platform.advance(5);
        await submit(grouped("urgent", "k", 1, { rankBase: -1000 }));
        await store.settleIfLeased([aSettle(a, finish())]);
        expect(await idsFrom(store, [byRank])).toEqual(["urgent"]);
      },
    ],
    [
      "a key is free again however the lease of its holder ends",
      async ({ submit, store, platform }) => {
        await submit(...["a", "b", "c", "d"].map((id) => grouped(id, "k")));
        await store.settleIfLeased([
          aSettle(await claimOne(store, [byRank]), finish("failed", { keepMs: 0 })),
        ]);
        const b = await claimOne(store, [byRank]);
        platform.advance(2000);
        const rang = { states: ["running"], rang: "lease" } as const;
        await store.changeIf([{ id: b.id, cases: [{ guard: rang, next: schedule(90_000) }] }]);
        const c = await claimOne(store, [byRank]);
        await store.changeIf([aChange(c.id, ["running"], finish("cancelled"))]);
        expect(await idsFrom(store, [byRank])).toEqual(["d"]);
      },
    ],
    [
      "a first job whose clock has rung belongs to a duty, and nobody of its lane is claimed before",
      async ({ submit, store, platform }) => {
        await submit(grouped("a", "k", 1, { ttlMs: 10 }), grouped("b", "k"), grouped("c", "l"));
        platform.advance(10);
        expect(await idsFrom(store, [byRank])).toEqual(["c"]);
        await store.changeIf([aChange("a", ["ready"], finish("expired"))]);
        expect(await idsFrom(store, [byRank])).toEqual(["b"]);
      },
    ],
    [
      "fair lanes take turns: a long line does not keep a single job of another waiting",
      async ({ submit, store }) => {
        await submit(...Array.from({ length: 6 }, (_, at) => fair(`a${at}`, "a")));
        expect(await idsFrom(store, [byTurn], 2)).toEqual(["a0", "a1"]);
        await submit(fair("b0", "b"), fair("c0", "c"), fair("c1", "c"));
        expect(await idsFrom(store, [byTurn], 5)).toEqual(["b0", "c0", "a2", "c1", "a3"]);
        expect(await idsFrom(store, [byTurn], 5)).toEqual(["a4", "a5"]);
      },
    ],
    [
      "a lane with twice the weight comes twice as often, and a single lane fills a claim",
      async ({ submit, store }) => {
        await submit(...Array.from({ length: 9 }, (_, at) => fair(`a${at}`, "a", 2)));
        await submit(...Array.from({ length: 3 }, (_, at) => fair(`b${at}`, "b")));
        const taken = await idsFrom(store, [byTurn], 6);
        expect(taken.filter((id) => id.startsWith("b"))).toHaveLength(2);
        expect(await idsFrom(store, [byTurn], 50)).toHaveLength(6);
      },
    ],
    [
      "who comes and goes gains nothing: an empty lane keeps its turn until the others have reached it",
      async ({ submit, store }) => {
        await submit(fair("a0", "a"), fair("b0", "b"), fair("b1", "b"), fair("b2", "b"));
        expect(await idsFrom(store, [byTurn], 1)).toEqual(["a0"]);
        await submit(fair("a1", "a"));
        expect(await idsFrom(store, [byTurn], 1)).toEqual(["b0"]);
        expect(await idsFrom(store, [byTurn], 2)).toEqual(["b1", "a1"]);
      },
    ],
    [
      "priority orders inside a fair key",
      async ({ submit, store }) => {
        await submit(fair("a0", "a"), fair("a1", "a", 1, { rankBase: -1000 }), fair("b0", "b"));
        expect(await idsFrom(store, [byTurn], 3)).toEqual(["a1", "b0", "a0"]);
      },
    ],
    [
      "each key of a limit has its own permits, and other keys go on",
      async ({ submit, store }) => {
        await store.putGates([perKey(2)]);
        await submit(...["a", "b", "c"].map((id) => keyed(id, "k")), keyed("x", "l"));
        const first = await claimFrom(store, [byRank]);
        expect([ids(first.jobs), first.more]).toEqual([["a", "b", "x"], false]);
        const { gates } = await store.readGates({ keys: [slackOf("k"), slackOf("none")] });
        expect(gates).toMatchObject([{ key: slackOf("k"), version: 0, cap: 2, held: 2, perKey: null }]);
        await store.settleIfLeased([aSettle(first.jobs[0]!, finish())]);
        expect(await idsFrom(store, [byRank])).toEqual(["c"]);
      },
    ],
    [
      "a changed cap of each key holds at once for what waits, and one key can have a cap of its own",
      async ({ submit, store }) => {
        await store.putGates([perKey(1)]);
        await submit(...["a", "b", "c"].map((id) => keyed(id, "k")), keyed("x", "l"), keyed("y", "l"));
        expect(await idsFrom(store, [byRank])).toEqual(["a", "x"]);
        await store.putGates([aGate(slackOf("k"), { cap: 2 })]);
        expect(await idsFrom(store, [byRank])).toEqual(["b"]);
        await store.putGates([perKey(2)]);
        expect(await idsFrom(store, [byRank])).toEqual(["y"]);
        await store.putGates([aGate(slackOf("k"))]);
        expect(await idsFrom(store, [byRank])).toEqual([]);
        await store.putGates([perKey(3)]);
        expect(await idsFrom(store, [byRank])).toEqual(["c"]);
      },
    ],
    [
      "a rate of each key opens by its own clock, and says when, but not for ever once nobody waits",
      async ({ submit, store, platform }) => {
        await store.putGates([perKey(null, { stepUs: 20_000, burstUs: 20_000 })]);
        await submit(keyed("a", "k"), keyed("b", "k"), keyed("x", "l"));
        expect(await idsFrom(store, [byRank])).toEqual(["a", "x"]);
        const refused = await claimFrom(store, [byRank]);
        expect([refused.jobs, refused.opensInMs]).toEqual([[], 20]);
        platform.advance(19);
        expect(await idsFrom(store, [byRank])).toEqual([]);
        platform.advance(1);
        expect(await idsFrom(store, [byRank])).toEqual(["b"]);
        await submit(keyed("c", "k"));
        expect((await claimFrom(store, [byRank])).opensInMs).toBe(20);
        await store.changeIf([aChange("c", ["ready"], remove)]);
        platform.advance(20);
        await claimFrom(store, [byRank]);
        expect((await claimFrom(store, [byRank])).opensInMs).toBeUndefined();
      },
    ],
    [
      "a key whose tokens are spent is shown until they are back, also when nothing holds it",
      async ({ submit, store, platform }) => {
        await store.putGates([perKey(null, { stepUs: 10_000, burstUs: 10_000 })]);
        await submit(keyed("a", "k"));
        await store.settleIfLeased([aSettle(await claimOne(store, [byRank]), finish())]);
        const { gates, now } = await store.readGates({ keys: [slackOf("k"), slackOf("other")] });
        expect(gates).toMatchObject([{ key: slackOf("k"), version: 0, held: 0, rate: { stepUs: 10_000 } }]);
        expect(gates[0]?.tatUs).toBeGreaterThan(now * 1000);
        platform.advance(11);
        expect((await store.readGates({ keys: [slackOf("k")] })).gates).toEqual([]);
      },
    ],
    [
      "a key that is closed for a while holds its jobs back, whoever asks, and drains its tokens",
      async ({ submit, store, platform }) => {
        await store.putGates([perKey(5, { stepUs: 10_000, burstUs: 20_000 })]);
        await submit(keyed("a", "k"), keyed("x", "l"));
        await store.putGates([aGate(slackOf("k"), { closed: { inMs: 30 }, emptiesRate: true })]);
        expect(await idsFrom(store, [byRank])).toEqual(["x"]);
        platform.advance(29);
        expect((await claimFrom(store, [byRank])).jobs).toEqual([]);
        platform.advance(1);
        expect(await idsFrom(store, [byRank])).toEqual(["a"]);
        await store.putGates([aGate(slackOf("l"), { closed: { at: foreverMs } })]);
        await submit(keyed("y", "l"));
        platform.advance(100_000);
        expect((await claimFrom(store, [byRank])).opensInMs).toBeUndefined();
      },
    ],
    [
      "a key is shared by all names and queues, and one that nobody works on does not hold it",
      async ({ submit, store }) => {
        await store.putGates([perKey(1)]);
        const elsewhere = { queue: "elsewhere", name: "post" };
        await submit(keyed("a", "k"), keyed("b", "k", 1, elsewhere), keyed("c", "k", 1, elsewhere));
        const other = aRoute({ laneKey: "any", ...elsewhere });
        const b = await claimOne(store, [other]);
        expect(b.id).toBe("b");
        expect(await idsFrom(store, [byRank])).toEqual([]);
        await store.settleIfLeased([aSettle(b, finish())]);
        expect(await idsFrom(store, [byRank])).toEqual(["a"]);
        expect(await idsFrom(store, [other])).toEqual([]);
      },
    ],
    [
      "a job takes all its gates together: of two keys and its route's, or nothing",
      async ({ submit, store }) => {
        const api = limitGateKey("api");
        await store.putGates([perKey(2), aGate(api, { perKey: { cap: 1, rate: null } })]);
        const both = (id: string, tenant: string, user: string): NewJob =>
          aJob({
            id,
            laneKey: `both ${tenant} ${user}`,
            laneGates: [keyedGate(api, user), slackOf(tenant)].map((key) =>
              writeKeyUse({ key, weight: 1, cap: null }),
            ),
          });
        await submit(both("a", "t", "u"), both("b", "t", "u"), both("c", "t", "v"), both("d", "t", "w"));
        const { jobs } = await claimFrom(store, [byRank]);
        expect(ids(jobs)).toEqual(["a", "c"]);
        await store.settleIfLeased([aSettle(jobs[1]!, finish())]);
        expect(await idsFrom(store, [byRank])).toEqual(["d"]);
        await store.settleIfLeased([aSettle(jobs[0]!, finish())]);
        expect(await idsFrom(store, [byRank])).toEqual(["b"]);
      },
    ],
    [
      "weights count: a heavy job waits for its permits and is not overtaken inside its lane",
      async ({ submit, store }) => {
        await store.putGates([perKey(3)]);
        await submit(keyed("a", "k", 2), keyed("b", "k", 2));
        const a = await claimOne(store, [byRank]);
        expect(await idsFrom(store, [byRank])).toEqual([]);
        await store.settleIfLeased([aSettle(a, finish())]);
        expect(await idsFrom(store, [byRank])).toEqual(["b"]);
      },
    ],
    [
      "lanes wait at the gates of their route, too",
      async ({ submit, store }) => {
        const [all] = [limitGateKey("all")];
        const gates = [{ key: all, weight: 1 }];
        await store.putGates([aGate(all, { cap: 2 })]);
        await submit(...["a", "b", "c"].map((id) => grouped(id, id, 1, { gates })));
        const routes = [aRoute({ laneKey: "any", gates })];
        const { jobs } = await claimFrom(store, routes);
        expect(ids(jobs)).toEqual(["a", "b"]);
        await store.settleIfLeased([aSettle(jobs[0]!, finish())]);
        expect(await idsFrom(store, routes)).toEqual(["c"]);
      },
    ],
    [
      "what a lane's job is: its record shows it, a list and the counts see it as ready",
      async ({ submit, store, read }) => {
        await submit(grouped("a", "k"), grouped("b", "k"));
        expect(await read("b")).toMatchObject({ state: "ready", laneKey: laneOf("k"), laneStep: null });
        expect(await store.countJobs()).toEqual([{ queue: "mail", name: "send", state: "ready", count: 2 }]);
        const [route] = await store.readRoutes();
        expect(route).toMatchObject({ queue: "mail", name: "send", lanes: "rank" });
      },
    ],
    [
      laneHintTitle,
      async ({ submit, store }) => {
        await submit(grouped("a", "k"), grouped("b", "k", 1, { name: "other" }));
        const a = await claimOne(store, [byRank]);
        const heard = new Set<number>();
        const stop = store.watch((hint: Hint) => {
          if (hint.kind === "ready") for (const route of hint.routes) heard.add(route);
        });
        await store.settleIfLeased([aSettle(a, finish())]);
        await until("the hint came", () => heard.has(aRoute({ laneKey: "any", name: "other" })));
        stop();
      },
    ],
    [
      "a thousand keys that are closed cost a claim no look at each",
      async ({ submit, store }) => {
        await store.putGates([perKey(1)]);
        await submit(...Array.from({ length: 300 }, (_, at) => keyed(`j${at}`, `k${at % 150}`)));
        expect(await idsFrom(store, [byRank], 500)).toHaveLength(150);
        expect(await idsFrom(store, [byRank], 500)).toEqual([]);
        await submit(keyed("late", "new"));
        expect(await idsFrom(store, [byRank], 500)).toEqual(["late"]);
      },
    ],
  ],
};
