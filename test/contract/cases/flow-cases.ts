/** Rule R4: members of flows, born blocked, freed by the ends of others, and what is left to a duty. */
import { expect } from "vitest";
import {
  aChange,
  aDoc,
  aGate,
  aJob,
  aRoute,
  aSettle,
  askCancel,
  finish,
  remove,
  schedule,
} from "../../support/builders.ts";
import { findAll, pruneAll } from "../../support/walk.ts";
import type { ContractGroup } from "../subject.ts";
import {
  aFlow,
  aMember,
  always,
  chain,
  edgeTo,
  forgive,
  nameOf,
  onFailure,
  deferred,
  runReady,
  tolerated,
} from "./flow-jobs.ts";

const foreverMs = 8_640_000_000_000_000;

export const flowCases: ContractGroup = {
  about: "flows",
  cases: [
    [
      "a member that needs others is born blocked, and is freed by the end that it waits for",
      async ({ store, claim, read, events }) => {
        expect(await store.submit([{ jobs: chain }])).toMatchObject([{ kind: "ok" }]);
        expect(await read("F")).toMatchObject({ state: "blocked", flow: null, edges: null });
        expect(await read("F.b")).toMatchObject({ state: "blocked", rev: 1, flow: "F", waits: "1,0,0,0" });
        const jobs = await claim();
        expect(jobs.map(nameOf)).toEqual(["a"]);
        expect(await claim()).toEqual([]);
        expect(await store.settleIfLeased([aSettle(jobs[0]!, finish())])).toEqual([{ kind: "ok" }]);
        expect(await read("F.b")).toMatchObject({ state: "ready", rev: 2, waits: "0,0,0,0" });
        expect(await read("F.c")).toMatchObject({ state: "blocked", rev: 1 });
        expect((await events("F.b")).map(({ kind }) => kind)).toEqual(["submitted", "freed"]);
        expect(await runReady(store)).toEqual(["b"]);
        expect(await deferred(store)).toEqual([]);
        expect(await runReady(store)).toEqual(["c"]);
        expect(await deferred(store)).toEqual(["F"]);
        expect(await read("F")).toMatchObject({ state: "blocked", rev: 1, waits: "0,0,0,1,3,3,0,0,0,0" });
      },
    ],
    [
      "members of several jobs that one claim takes are each of their own job",
      async ({ store, claim, read }) => {
        const names = ["one", "two", "three"];
        const first = names.map((name) => aMember(name, { name, to: [edgeTo(`behind ${name}`)] }));
        const behind = names.map((name) => aMember(`behind ${name}`, { name, need: 1 }));
        await store.submit([{ jobs: [aFlow(6), ...first, ...behind] }]);
        const offers = [{ routes: names.map((name) => aRoute({ name })), max: 10 }];
        for (const prefix of ["", "behind "]) {
          const jobs = await claim({ offers });
          const ids = names.map((name) => `F.${prefix}${name}`);
          expect(jobs.map(({ id }) => id).toSorted()).toEqual(ids.toSorted());
          // By the route a worker knows which handler runs the job.
          expect(new Set(jobs.map(({ route }) => route)).size).toBe(names.length);
          for (const [at, id] of ids.entries())
            expect(await read(id)).toMatchObject({ state: "running", name: names[at] });
          await store.settleIfLeased(jobs.map((job) => aSettle(job, finish())));
        }
        expect(await deferred(store)).toEqual(["F"]);
      },
    ],
    [
      "a freed member is placed by the moment at which it is freed, with its delay, rank and time-to-live",
      async ({ store, platform, claim, read }) => {
        await store.submit([
          {
            jobs: [
              aFlow(2),
              aMember("a", { to: [edgeTo("b")] }),
              aMember("b", { need: 1, due: { inMs: 500 }, rankBase: 7, ttlMs: 100 }),
            ],
          },
        ]);
        const { createdAt } = await read("F.b");
        expect(await read("F.b")).toMatchObject({ state: "blocked", ttlAt: null });
        platform.advance(1000);
        expect(await runReady(store)).toEqual(["a"]);
        const dueAt = createdAt + 1500;
        expect(await read("F.b")).toMatchObject({
          state: "scheduled",
          dueAt,
          rank: dueAt + 7,
          ttlAt: dueAt + 100,
        });
        platform.advance(500);
        await store.promoteDue({ max: 5 });
        expect((await claim()).map(nameOf)).toEqual(["b"]);
      },
    ],
    [
      "a join of all waits for each of its parents, and knows at the first miss that it can never be freed",
      async ({ store, read }) => {
        const jobs = [
          aFlow(3),
          aMember("a", { to: [edgeTo("c")] }),
          aMember("b", { to: [edgeTo("c")] }),
          aMember("c", { need: 2 }),
        ];
        await store.submit([{ jobs }]);
        await runReady(store, { a: "failed" });
        expect(await read("F.c")).toMatchObject({ state: "blocked", waits: "1,-1,0,0" });
        expect(await deferred(store)).toEqual(["F.c"]);
        await store.changeIf([aChange("F.c", ["blocked"], finish("skipped"))]);
        expect(await read("F.c")).toMatchObject({ state: "skipped", keepUntil: foreverMs });
        expect(await read("F")).toMatchObject({ waits: "0,0,0,1,3,1,1,0,0,1" });
        expect(await deferred(store)).toEqual(["F", "F.c"]);
      },
    ],
    [
      "a join of any is freed once, by the first, and later ends pass it over",
      async ({ store, claim, read, events }) => {
        const jobs = [
          aFlow(4),
          ...["a", "b", "c"].map((name) => aMember(name, { to: [edgeTo("j")] })),
          aMember("j", { need: 1, slack: 2, defers: 1 }),
        ];
        await store.submit([{ jobs }]);
        const [a, b, c] = await claim();
        await store.settleIfLeased([aSettle(a!, finish("failed"))]);
        expect(await read("F.j")).toMatchObject({ state: "blocked", waits: "1,1,0,1" });
        await store.settleIfLeased([aSettle(b!, finish()), aSettle(c!, finish())]);
        expect(await read("F.j")).toMatchObject({ state: "ready", rev: 2, waits: "0,1,0,1" });
        expect(await deferred(store)).toEqual(["F.j"]);
        expect((await events("F.j")).map(({ kind }) => kind)).toEqual(["submitted", "freed"]);
      },
    ],
    [
      "edges are met by success, by failure or by any end, and a tolerated miss is waited for",
      async ({ store, read }) => {
        const jobs = [
          aFlow(5),
          aMember("a", { to: [edgeTo("good"), edgeTo("bad", onFailure), edgeTo("any", always)] }),
          aMember("good", { need: 1 }),
          aMember("bad", { need: 1 }),
          aMember("any", { need: 1, to: [edgeTo("all", tolerated)] }),
          aMember("all", { need: 2, slack: 1 }),
        ];
        await store.submit([{ jobs }]);
        await runReady(store, { a: "failed" });
        expect(await read("F.good")).toMatchObject({ state: "blocked", waits: "1,-1,0,0" });
        expect(await read("F.bad")).toMatchObject({ state: "ready" });
        expect(await read("F.any")).toMatchObject({ state: "ready" });
        await runReady(store, { any: "failed" });
        expect(await read("F.all")).toMatchObject({ state: "blocked", waits: "1,0,0,0" });
        expect(await deferred(store)).toEqual(["F.good"]);
      },
    ],
    [
      "a flow that fails fast defers work at the first failure, and again once all have ended",
      async ({ store, read }) => {
        const jobs = [
          aFlow(2),
          aMember("a", { failsFast: true }),
          aMember("b", { failsFast: true, due: { inMs: 50 } }),
        ];
        await store.submit([{ jobs }]);
        await runReady(store, { a: "failed" });
        expect(await deferred(store)).toEqual(["F"]);
        expect(await read("F")).toMatchObject({ waits: "1,-1,0,1,2,0,1,0,0,0" });
        await forgive(store);
        await store.changeIf([aChange("F.b", ["scheduled"], finish("cancelled"))]);
        expect(await read("F")).toMatchObject({ waits: "0,-1,0,1,2,0,1,1,0,0" });
        // Lost before, and decided now that nobody is left.
        expect(await deferred(store)).toEqual(["F"]);
      },
    ],
    [
      "every way into a terminal state goes along the edges: cancel, expiry, no handler, a skip",
      async ({ store, platform, read }) => {
        const ends = [
          ["a", finish("cancelled")],
          ["b", finish("expired")],
          ["c", finish("failed")],
        ] as const;
        const jobs = [
          aFlow(6),
          ...ends.map(([name]) => aMember(name, { to: [edgeTo("j", always)], deadline: { inMs: 10 } })),
          aMember("d", { need: 1, to: [edgeTo("j", always)] }),
          aMember("j", { need: 4 }),
          aMember("k", { need: 1 }),
        ];
        await store.submit([{ jobs }]);
        platform.advance(10);
        await store.changeIf([
          ...ends.map(([name, next]) => aChange(`F.${name}`, ["ready"], next)),
          aChange("F.d", ["blocked"], finish("skipped")),
        ]);
        expect(await read("F.j")).toMatchObject({ state: "ready" });
        expect(await read("F")).toMatchObject({ waits: "2,0,0,1,6,0,1,1,1,1" });
      },
    ],
    [
      "a retry, a hand-back and a reclaim of a member pass nothing on",
      async ({ store, platform, claim, read }) => {
        await store.submit([{ jobs: chain }]);
        const [a] = await claim();
        await store.settleIfLeased([aSettle(a!, schedule(10))]);
        platform.advance(10);
        await store.promoteDue({ max: 5 });
        const [again] = await claim();
        await store.changeIf([aChange("F.a", ["running"], schedule(0, { event: "reclaimed" }))]);
        expect(await store.settleIfLeased([aSettle(again!, finish())])).toEqual([{ kind: "stale" }]);
        expect(await read("F.b")).toMatchObject({ state: "blocked", waits: "1,0,0,0" });
        expect(await read("F")).toMatchObject({ waits: "3,0,0,1,3,0,0,0,0,0" });
        expect(await runReady(store)).toEqual(["a"]);
        expect(await read("F.b")).toMatchObject({ state: "ready" });
      },
    ],
    [
      "a settle that is repeated passes nothing on twice",
      async ({ store, claim, read }) => {
        const jobs = [aFlow(2), aMember("a", { to: [edgeTo("b")] }), aMember("b", { need: 2 })];
        await store.submit([{ jobs }]);
        const [a] = await claim();
        await store.settleIfLeased([aSettle(a!, finish())]);
        expect(await store.settleIfLeased([aSettle(a!, finish())])).toEqual([{ kind: "already" }]);
        expect(await read("F.b")).toMatchObject({ waits: "1,0,0,0" });
        expect(await read("F")).toMatchObject({ waits: "1,0,0,1,2,1,0,0,0,0" });
      },
    ],
    [
      "settles of one call arrive one after the other, those of members and of other jobs",
      async ({ store, claim, read, submit }) => {
        const jobs = [
          aFlow(4),
          ...["a", "b", "c"].map((name) => aMember(name, { to: [edgeTo("j")] })),
          aMember("j", { need: 3 }),
        ];
        await store.submit([{ jobs }]);
        await submit(aJob({ id: "x" }), aJob({ id: "y" }));
        const claimed = await claim();
        await store.settleIfLeased(
          claimed.map((job) => aSettle(job, finish("completed", { result: `"${job.id}"` }))),
        );
        expect(await read("F.j")).toMatchObject({ state: "ready", waits: "0,0,0,0" });
        expect(await read("F.b")).toMatchObject({ state: "completed", result: '"F.b"', waits: "0,0,2,0" });
        expect(await read("x")).toMatchObject({ state: "completed", waits: null, flow: null, edges: null });
      },
    ],
    [
      "a member is kept with its result until its flow goes, and a flow that goes leaves that to a duty",
      async ({ store, platform, claim, read }) => {
        await store.submit([{ jobs: [aFlow(1), aMember("a", { tags: ["of F"] })] }]);
        const [a] = await claim();
        await store.settleIfLeased([
          aSettle(a!, finish("completed", { keepMs: 0, result: "1", keepResultMs: 5 })),
        ]);
        expect(await read("F.a")).toMatchObject({ state: "completed", result: "1", keepUntil: foreverMs });
        await store.putDocs([{ kind: "deferred", id: "F", body: null, guard: "any" }]);
        await store.changeIf([aChange("F", ["blocked"], finish("completed", { keepMs: 10 }))]);
        platform.advance(100);
        expect(await pruneAll(store, { what: "kept", max: 10 })).toBe(1);
        for (const outcome of ["completed", "failed"] as const) {
          const history = {
            what: "history",
            outcome,
            queue: null,
            exceptQueues: [],
            olderThanMs: 0,
          } as const;
          expect(await pruneAll(store, { ...history, max: 10, cursor: null })).toBe(0);
        }
        expect(await store.readJobs(["F"])).toEqual([null]);
        expect((await findAll(store, { tag: "of F" })).map(({ id }) => id)).toEqual(["F.a"]);
        expect(await deferred(store)).toEqual(["F"]);
        expect(await store.changeIf([aChange("F.a", ["completed"], remove)])).toMatchObject([{ kind: "ok" }]);
        expect(await store.readJobs(["F.a"])).toEqual([null]);
      },
    ],
    [
      "a flow that is removed, or ends without being kept, leaves deferred work",
      async ({ store }) => {
        await store.submit([{ jobs: [aFlow(1), aMember("a")] }]);
        await store.changeIf([aChange("F", ["blocked"], finish("cancelled", { keepMs: 0 }))]);
        expect(await deferred(store)).toEqual(["F"]);
        await store.putDocs([{ kind: "deferred", id: "F", body: null, guard: "any" }]);
        // Its members find nobody to arrive at.
        expect(await runReady(store)).toEqual(["a"]);
        await store.submit([{ jobs: [aFlow(1, { id: "G" })] }]);
        await store.changeIf([aChange("G", ["blocked"], remove)]);
        expect(await deferred(store)).toEqual(["G"]);
      },
    ],
    [
      "a member whose unique key is held refuses its whole flow, and one that takes a key holds it while blocked",
      async ({ store, submit, read }) => {
        await submit(aJob({ id: "x", unique: { key: "k", hold: "end", onHeld: "keep" } }));
        const keyed = aMember("b", { need: 1, unique: { key: "k", hold: "end", onHeld: "replace" } });
        const jobs = [aFlow(2), aMember("a", { to: [edgeTo("b")] }), keyed];
        expect(await store.submit([{ jobs }])).toEqual([{ kind: "refused", reason: "key-held", id: "F.b" }]);
        expect(await store.readJobs(["F", "F.a", "F.b"])).toEqual([null, null, null]);
        await store.changeIf([aChange("x", ["ready"], finish("cancelled"))]);
        expect(await store.submit([{ jobs }])).toMatchObject([{ kind: "ok" }]);
        expect(await read("F.b")).toMatchObject({ state: "blocked", uniqueKey: "k" });
        const other = aJob({ id: "y", unique: { key: "k", hold: "end", onHeld: "keep" } });
        expect(await submit(other)).toEqual([{ kind: "ok", ids: ["F.b"], hows: ["existing"] }]);
      },
    ],
    [
      "a member that holds a unique key is never replaced, blocked or freed: its tags, meta and place are its flow's",
      async ({ store, submit, read }) => {
        const unique = { key: "k", hold: "end", onHeld: "replace" } as const;
        const keyed = aMember("b", { need: 1, due: { inMs: 50 }, tags: ["of F"], meta: "{}", unique });
        await store.submit([{ jobs: [aFlow(2), aMember("a", { to: [edgeTo("b")] }), keyed] }]);
        const stranger = aJob({ id: "x", due: { inMs: 9000 }, ttlMs: 9, tags: ["mine"], unique });
        for (const state of ["blocked", "scheduled"]) {
          const before = await read("F.b");
          expect(before).toMatchObject({ state, tags: ["of F"], input: '"F.b"' });
          expect(await submit(stranger)).toEqual([{ kind: "ok", ids: ["F.b"], hows: ["existing"] }]);
          expect(await read("F.b")).toEqual(before);
          await runReady(store);
        }
      },
    ],
    [
      "a submit of a flow that is repeated is answered as existing and changes nothing",
      async ({ store, read }) => {
        await store.submit([{ jobs: chain }]);
        await runReady(store);
        const again = await store.submit([{ jobs: chain, isRepeat: true }]);
        expect(again).toMatchObject([{ kind: "ok", hows: ["existing", "existing", "existing", "existing"] }]);
        expect(await read("F")).toMatchObject({ waits: "2,0,0,1,3,1,0,0,0,0" });
        expect(await read("F.b")).toMatchObject({ state: "ready" });
      },
    ],
    [
      "a blocked member expires by its deadline, is edited and cancelled, and is no work for a claim or a promotion",
      async ({ store, platform, claim, read }) => {
        const jobs = [aFlow(2), aMember("a", { need: 1, deadline: { inMs: 20 } }), aMember("b", { need: 1 })];
        await store.submit([{ jobs }]);
        platform.advance(20);
        expect(await claim()).toEqual([]);
        expect(await store.promoteDue({ max: 10 })).toMatchObject({ count: 0 });
        const { jobs: due } = await store.readDue({ clock: "deadline", max: 5, cursor: null });
        expect(due).toMatchObject([{ id: "F.a", state: "blocked" }]);
        const edit = { to: "same", event: "edited", edit: { input: "2" } } as const;
        await store.changeIf([aChange("F.b", ["blocked"], edit)]);
        expect(await read("F.b")).toMatchObject({ state: "blocked", input: "2", rev: 2 });
      },
    ],
    [
      "members with lanes, gates and tags are what such jobs are once they are freed",
      async ({ store, claim, read }) => {
        await store.putGates([aGate("l:one", { cap: 1 })]);
        const gated = { gates: [{ key: "l:one", weight: 1 }], tags: ["t"] };
        const jobs = [
          aFlow(3),
          aMember("a", { to: [edgeTo("b"), edgeTo("c")] }),
          aMember("b", { need: 1, ...gated }),
          aMember("c", { need: 1, ...gated }),
        ];
        await store.submit([{ jobs }]);
        await runReady(store);
        const route = { ...gated, queue: "mail", name: "send" };
        const offers = [{ routes: [aRoute(route)], max: 5 }];
        const [b, ...others] = await claim({ offers });
        expect([b!.id, others]).toEqual(["F.b", []]);
        await store.settleIfLeased([aSettle(b!, finish())]);
        expect((await claim({ offers })).map(nameOf)).toEqual(["c"]);
        expect(await read("F.c")).toMatchObject({ state: "running", tags: ["t"] });
      },
    ],
    [
      "effects of the same settle come before its arrivals, and one that is refused takes them back",
      async ({ store, claim, read }) => {
        await store.submit([{ jobs: chain }]);
        const [a] = await claim();
        await store.putDocs([aDoc("taken", "1")]);
        const effects = { docs: [aDoc("taken", "2", { guard: "absent" })] };
        expect(await store.settleIfLeased([aSettle(a!, finish(), { effects })])).toMatchObject([
          { kind: "doc-changed" },
        ]);
        expect(await read("F.b")).toMatchObject({ state: "blocked", waits: "1,0,0,0" });
        expect(await read("F.a")).toMatchObject({ state: "running", waits: "0,0,0,0" });
        expect(await read("F")).toMatchObject({ waits: "3,0,0,1,3,0,0,0,0,0" });
        const good = { docs: [aDoc("new", "2")], jobs: [aJob({ id: "x" })] };
        await store.settleIfLeased([aSettle(a!, finish(), { effects: good })]);
        expect(await read("F.b")).toMatchObject({ state: "ready" });
        await store.changeIf([aChange("F", ["blocked"], askCancel)]);
      },
    ],
  ],
};
