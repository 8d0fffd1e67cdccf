/** Gates (R7): what a claim must pass, how permits come back, and what is emitted. */
import { expect } from "vitest";
import { foreverMs, limitGateKey, queueGateKey } from "../../../src/model/limits/gate.ts";
import type { GateUse } from "../../../src/model/limits/gate.ts";
import type { ClaimAnswer } from "../../../src/store/operations.ts";
import type { NewJob } from "../../../src/store/records.ts";
import type { Hint, Store } from "../../../src/store/store.ts";
import {
  aChange,
  aClaim,
  aGate,
  aJob,
  aRoute,
  aSettle,
  finish,
  handBack,
  schedule,
} from "../../support/builders.ts";
import { until } from "../../support/until.ts";
import { sortStateCounts } from "../../support/walk.ts";
import type { ContractGroup } from "../subject.ts";

const slack = limitGateKey("slack");
const usesSlack: readonly GateUse[] = [{ key: slack, weight: 1 }];
const ids = (jobs: readonly { readonly id: string }[]): string[] => jobs.map(({ id }) => id);
const limited = (id: string, given: Partial<NewJob> = {}): NewJob => aJob({ id, gates: usesSlack, ...given });
const routesOf = (...jobs: readonly Partial<NewJob>[]): number[] => [...new Set(jobs.map(aRoute))];
const claimFrom = (store: Store, routes: readonly number[], max = 10): Promise<ClaimAnswer> =>
  store.claim(aClaim({ offers: [{ routes, max }] }));

export const gateHintTitle =
  "a permit that comes back and a gate that is put are hints for the routes that share the gate";

/** Routes of ready hints, from now on. */
function hearReady(store: Store): { readonly routes: Set<number>; stop(): void } {
  const routes = new Set<number>();
  const stop = store.watch((hint: Hint) => {
    if (hint.kind === "ready") for (const route of hint.routes) routes.add(route);
  });
  return { routes, stop };
}

export const gateCases: ContractGroup = {
  about: "gates",
  cases: [
    [
      "what the put of a gate emits is in the feed with the put, and a refused put emits nothing",
      async ({ store }) => {
        const emits = { kind: "queue-changed", subject: "q", extra: "{}" } as const;
        const put = aGate(queueGateKey("q"), { cap: 3, guard: { version: 0 }, emits });
        expect(await store.putGates([put])).toEqual([{ kind: "ok", version: 1 }]);
        expect(await store.putGates([put])).toEqual([{ kind: "changed", version: 1 }]);
        const { partitions = 1 } = store;
        const feeds = await Promise.all(
          Array.from({ length: partitions }, (_, partition) =>
            store.readFeed({ partition, after: 0, max: 10 }),
          ),
        );
        const events = feeds.flatMap(({ records }) => records.flatMap((record) => record.events));
        expect(events).toEqual([
          { kind: "queue-changed", id: "q", rev: 0, route: 0, state: null, attempt: 0, extra: "{}" },
        ]);
      },
    ],
    [
      "state counts tell jobs of one name apart by the gates of their routes",
      async ({ submit, store }) => {
        const heavy = [{ key: slack, weight: 3 }];
        await submit(limited("a"), limited("b"), limited("c", { gates: heavy }), aJob({ id: "d" }));
        const kind = { queue: "mail", name: "send", state: "ready" } as const;
        expect(sortStateCounts(await store.countJobs())).toEqual(
          sortStateCounts([
            { ...kind, count: 1 },
            { ...kind, gates: usesSlack, count: 2 },
            { ...kind, gates: heavy, count: 1 },
          ]),
        );
      },
    ],
    [
      "a gate is put under its version and read with what is held",
      async ({ store, lease, platform }) => {
        const rate = { stepUs: 1000, burstUs: 5000 };
        const put = aGate(slack, { cap: 3, rate, body: "b", guard: { version: 0 } });
        expect(await store.putGates([put])).toEqual([{ kind: "ok", version: 1 }]);
        expect(await store.putGates([put])).toEqual([{ kind: "changed", version: 1 }]);
        const closed = { inMs: 7 };
        const again = aGate(slack, { cap: 2, rate, guard: { version: 1 }, closed, isIntakeClosed: true });
        await lease(limited("a"));
        expect(await store.putGates([again])).toEqual([{ kind: "ok", version: 2 }]);
        const now = platform.now();
        const expected = {
          ...{ key: slack, version: 2, cap: 2, rate, tatUs: now * 1000 + 1000, closedUntil: now + 7 },
          ...{ held: 1, isIntakeClosed: true, perKey: null, body: null },
        };
        expect(await store.readGates({ keys: [slack, limitGateKey("none")] })).toEqual({
          ...{ gates: [expected], cursor: null, now },
        });
      },
    ],
    [
      "gates are listed by prefix, in byte order, in pages",
      async ({ store }) => {
        const names = ["b", "a", "ü", "c:d"].map(limitGateKey);
        await store.putGates([...names.map((key) => aGate(key)), aGate(queueGateKey("mail"))]);
        const first = await store.readGates({ prefix: "l:", after: null, max: 3 });
        expect(first.gates.map(({ key }) => key)).toEqual(["l:a", "l:b", "l:c:d"]);
        const second = await store.readGates({ prefix: "l:", after: first.cursor, max: 3 });
        expect([second.gates.map(({ key }) => key), second.cursor]).toEqual([["l:ü"], null]);
      },
    ],
    [
      "a route keeps its gates, and jobs without them stay on another one",
      async ({ store, submit }) => {
        await submit(limited("a"), aJob({ id: "b" }));
        const routes = await store.readRoutes();
        expect(routes.map(({ gates }) => gates).sort((a, b) => a.length - b.length)).toEqual([[], usesSlack]);
        expect(routes.map(({ number }) => number)).toContain(aRoute({ gates: usesSlack }));
      },
    ],
    [
      "a gate that was never put lets everything pass",
      async ({ submit, store }) => {
        await submit(limited("a"), limited("b"));
        expect(ids((await claimFrom(store, [aRoute({ gates: usesSlack })])).jobs)).toEqual(["a", "b"]);
      },
    ],
    [
      "no more than the cap run at once, whoever claims, and an end makes room for the next",
      async ({ submit, store }) => {
        await store.putGates([aGate(slack, { cap: 2 })]);
        await submit(...["a", "b", "c", "d"].map((id) => limited(id)));
        const routes = [aRoute({ gates: usesSlack })];
        const first = await claimFrom(store, routes);
        expect([ids(first.jobs), first.more, first.opensInMs]).toEqual([["a", "b"], false, undefined]);
        expect(ids((await store.claim(aClaim({ owner: "w2", offers: [{ routes, max: 5 }] }))).jobs)).toEqual(
          [],
        );
        await store.settleIfLeased([aSettle(first.jobs[0]!, finish())]);
        expect(ids((await claimFrom(store, routes)).jobs)).toEqual(["c"]);
      },
    ],
    [
      "a permit ends with its lease, however that ends",
      async ({ submit, store, platform }) => {
        await store.putGates([aGate(slack, { cap: 1 })]);
        const routes = [aRoute({ gates: usesSlack })];
        await submit(...Array.from({ length: 6 }, (_, at) => limited(`j${at}`)));
        const next = async (): Promise<ClaimAnswer["jobs"][number]> => {
          const { jobs } = await claimFrom(store, routes);
          expect(jobs).toHaveLength(1);
          return jobs[0]!;
        };
        await store.settleIfLeased([aSettle(await next(), schedule(100_000))]);
        await store.settleIfLeased([aSettle(await next(), finish("failed"))]);
        await store.settleIfLeased([aSettle(await next(), finish("completed", { keepMs: 0 }))]);
        await store.changeIf([aChange((await next()).id, ["running"], finish("cancelled"))]);
        const lost = await next();
        platform.advance(5000);
        const reclaimed = schedule(100_000, { event: "reclaimed" });
        await store.changeIf([aChange(lost.id, ["running"], reclaimed, { rang: "lease" })]);
        await store.settleIfLeased([aSettle(await next(), handBack)]);
        expect((await store.readGates({ keys: [slack] })).gates).toMatchObject([{ held: 0 }]);
        expect((await next()).attempt).toBe(1);
      },
    ],
    [
      "the routes that share a gate share its permits, in claim order and by weight",
      async ({ submit, store }) => {
        const heavy = [{ key: slack, weight: 3 }];
        await store.putGates([aGate(slack, { cap: 5 })]);
        await submit(
          ...["a", "b"].map((id) => limited(id)),
          aJob({ id: "c", name: "pack", gates: heavy }),
          aJob({ id: "plain" }),
          limited("d"),
          aJob({ id: "e", name: "pack", gates: heavy }),
        );
        const routes = routesOf(limited("a"), { name: "pack", gates: heavy }, {});
        const first = await claimFrom(store, routes);
        expect(ids(first.jobs)).toEqual(["a", "b", "c", "plain"]);
        expect(first.more).toBe(false);
        await store.settleIfLeased(first.jobs.slice(0, 2).map((job) => aSettle(job, finish())));
        expect(ids((await claimFrom(store, routes)).jobs)).toEqual(["d"]);
      },
    ],
    [
      "a light job does not overtake a heavy one that waits for the same gate",
      async ({ submit, store }) => {
        const heavy = [{ key: slack, weight: 2 }];
        await store.putGates([aGate(slack, { cap: 2 })]);
        await submit(limited("a"), aJob({ id: "heavy", name: "pack", gates: heavy }), limited("light"));
        const routes = routesOf(limited("a"), { name: "pack", gates: heavy });
        const [first] = (await claimFrom(store, routes)).jobs;
        expect(first?.id).toBe("a");
        expect(ids((await claimFrom(store, routes)).jobs)).toEqual([]);
        await store.settleIfLeased([aSettle(first!, finish())]);
        expect(ids((await claimFrom(store, routes)).jobs)).toEqual(["heavy"]);
      },
    ],
    [
      "a job takes all its gates together or none of them",
      async ({ submit, store }) => {
        const other = limitGateKey("other");
        const both = [
          { key: other, weight: 1 },
          { key: slack, weight: 1 },
        ];
        await store.putGates([aGate(slack, { cap: 1 }), aGate(other, { cap: 5 })]);
        await submit(limited("a"), aJob({ id: "both", gates: both }), aJob({ id: "plain", name: "pack" }));
        const offers = [
          { routes: [aRoute({ gates: usesSlack }), aRoute({ gates: both })], max: 5 },
          { routes: [aRoute({ name: "pack" })], max: 5 },
        ];
        expect(ids((await store.claim(aClaim({ offers }))).jobs)).toEqual(["a", "plain"]);
        const { gates } = await store.readGates({ keys: [slack, other] });
        expect(gates.map(({ key, held }) => [key, held])).toEqual([
          [other, 0],
          [slack, 1],
        ]);
      },
    ],
    [
      "a changed cap holds at once for what waits, and what runs keeps its permit",
      async ({ submit, store }) => {
        await store.putGates([aGate(slack, { cap: 3 })]);
        await submit(...["a", "b", "c", "d", "e"].map((id) => limited(id)));
        const routes = [aRoute({ gates: usesSlack })];
        const { jobs } = await claimFrom(store, routes);
        expect(jobs).toHaveLength(3);
        await store.putGates([aGate(slack, { cap: 1 })]);
        await store.settleIfLeased(jobs.slice(0, 2).map((job) => aSettle(job, finish())));
        expect(ids((await claimFrom(store, routes)).jobs)).toEqual([]);
        await store.putGates([aGate(slack, { cap: 2 })]);
        expect(ids((await claimFrom(store, routes)).jobs)).toEqual(["d"]);
      },
    ],
    [
      "a rate lets a burst pass, then one per step, and the answer says when",
      async ({ submit, store, platform }) => {
        await store.putGates([aGate(slack, { rate: { stepUs: 2500, burstUs: 5000 } })]);
        await submit(...["a", "b", "c", "d"].map((id) => limited(id)));
        const routes = [aRoute({ gates: usesSlack })];
        const first = await claimFrom(store, routes);
        expect([ids(first.jobs), first.more, first.opensInMs]).toEqual([["a", "b"], false, 3]);
        platform.advance(2);
        expect(await claimFrom(store, routes)).toMatchObject({ jobs: [], opensInMs: 1 });
        platform.advance(1);
        expect(await claimFrom(store, routes)).toMatchObject({ jobs: [{ id: "c" }], opensInMs: 2 });
        // An end gives no token back.
        await store.settleIfLeased(first.jobs.map((job) => aSettle(job, finish())));
        expect((await claimFrom(store, routes)).jobs).toEqual([]);
        platform.advance(2);
        expect(ids((await claimFrom(store, routes)).jobs)).toEqual(["d"]);
        expect((await claimFrom(store, routes)).opensInMs).toBeUndefined();
      },
    ],
    [
      "a gate whose tokens are taken lets nothing pass until new ones have come",
      async ({ submit, store, platform }) => {
        const rate = { stepUs: 10_000, burstUs: 30_000 };
        await store.putGates([aGate(slack, { rate, emptiesRate: true })]);
        await submit(limited("a"), limited("b"));
        const routes = [aRoute({ gates: usesSlack })];
        expect(await claimFrom(store, routes)).toMatchObject({ jobs: [], opensInMs: 10 });
        platform.advance(10);
        expect(ids((await claimFrom(store, routes)).jobs)).toEqual(["a"]);
      },
    ],
    [
      "a closed gate opens by its own clock, or by hand",
      async ({ submit, store, platform }) => {
        await submit(limited("a"), limited("b"), aJob({ id: "plain" }));
        await store.putGates([aGate(slack, { closed: { inMs: 20 } })]);
        const routes = routesOf(limited("a"), {});
        expect(await claimFrom(store, routes)).toMatchObject({ jobs: [{ id: "plain" }], opensInMs: 20 });
        platform.advance(20);
        expect(ids((await claimFrom(store, routes, 1)).jobs)).toEqual(["a"]);
        await store.putGates([aGate(slack, { closed: { at: foreverMs } })]);
        const shut = await claimFrom(store, routes);
        expect([shut.jobs, shut.opensInMs]).toEqual([[], undefined]);
        await store.putGates([aGate(slack)]);
        expect(ids((await claimFrom(store, routes)).jobs)).toEqual(["b"]);
      },
    ],
    [
      "a queue's gate holds for all its routes, also for what waits there already",
      async ({ submit, store }) => {
        await submit(
          aJob({ id: "a" }),
          limited("b"),
          aJob({ id: "c", name: "pack" }),
          aJob({ id: "d", queue: "other" }),
        );
        const routes = routesOf({}, limited("b"), { name: "pack" });
        const offers = [
          { routes, max: 5 },
          { routes: [aRoute({ queue: "other" })], max: 5 },
        ];
        await store.putGates([aGate(queueGateKey("mail"), { closed: { at: foreverMs } })]);
        expect(ids((await store.claim(aClaim({ offers }))).jobs)).toEqual(["d"]);
        await store.putGates([aGate(queueGateKey("mail"))]);
        expect(ids((await store.claim(aClaim({ offers }))).jobs)).toEqual(["a", "b", "c"]);
        expect((await store.readGates({ keys: [queueGateKey("mail")] })).gates).toMatchObject([{ held: 3 }]);
      },
    ],
    [
      "a queue with a closed intake refuses new work, not what is known, nor follow-ups, nor retries",
      async ({ submit, store, lease }) => {
        const given = aJob({ id: "given", digest: "d" });
        await submit(given);
        const running = await lease(aJob({ id: "a", name: "pack" }));
        await store.putGates([aGate(queueGateKey("mail"), { isIntakeClosed: true })]);
        const refused = await store.submit([
          { jobs: [aJob({ id: "x", queue: "other" }), aJob({ id: "b" })] },
          { jobs: [given] },
          { jobs: [aJob({ id: "y", queue: "other" })] },
        ]);
        expect(refused).toEqual([
          { kind: "refused", reason: "intake-closed", id: "b" },
          { kind: "ok", ids: ["given"], hows: ["existing"] },
          { kind: "ok", ids: ["y"], hows: ["created"] },
        ]);
        const effects = { jobs: [aJob({ id: "a-follow" })] };
        const [answer] = await store.settleIfLeased([aSettle(running, schedule(0), { effects })]);
        expect(answer).toEqual({ kind: "ok" });
        expect((await store.readJobs(["x", "a-follow"])).map((job) => job?.state)).toEqual([
          undefined,
          "ready",
        ]);
      },
    ],
    [
      gateHintTitle,
      async ({ submit, store }) => {
        const pack = aJob({ id: "b", name: "pack", gates: usesSlack });
        await submit(limited("a"), pack, aJob({ id: "c", name: "pack" }));
        await store.putGates([aGate(slack, { cap: 1 })]);
        const [job] = (await claimFrom(store, routesOf(limited("a")))).jobs;
        const both = routesOf(limited("a"), pack);
        const settled = hearReady(store);
        await store.settleIfLeased([aSettle(job!, finish())]);
        await until("the settle is heard", () => both.every((route) => settled.routes.has(route)));
        settled.stop();
        const put = hearReady(store);
        await store.putGates([aGate(slack, { cap: 2 })]);
        await until("the put is heard", () => both.every((route) => put.routes.has(route)));
        put.stop();
        const queue = hearReady(store);
        await store.putGates([aGate(queueGateKey("mail"))]);
        await until("the queue's gate is heard", () => queue.routes.has(aRoute({ name: "pack" })));
        queue.stop();
      },
    ],
  ],
};
