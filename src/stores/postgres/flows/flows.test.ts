/**
 * Rule R4 where several connections are at it: no arrival is lost or counted twice, every join is freed exactly once,
 * and nobody waits for the caller's open transaction.
 */
import pg from "pg";
import { afterEach, beforeEach, expect, test } from "vitest";
import {
  aFlow,
  aMember,
  always,
  block,
  chain,
  edgeTo,
  deferred,
  tolerated,
} from "../../../../test/contract/cases/flow-jobs.ts";
import { aChange, aClaim, aJob, aSettle, finish } from "../../../../test/support/builders.ts";
import { useTestDatabase } from "../../../../test/support/servers/use-postgres.ts";
import { findAll, readWholeFeed, recount, sortStateCounts } from "../../../../test/support/walk.ts";
import { nodePlatform } from "../../../platform/node-platform.ts";
import { isLocked } from "../../../store/operations.ts";
import type { Change, Settle } from "../../../store/operations.ts";
import type { Store } from "../../../store/store.ts";
import { openPostgresStore } from "../postgres-store.ts";

const database = useTestDatabase();
let stores: Store[];
let schemas = 0;

beforeEach(async () => {
  const schema = `flows_${++schemas}`;
  stores = [];
  for (let at = 0; at < 4; at++)
    stores.push(await openPostgresStore({ url: database.url, platform: nodePlatform, schema, poolMax: 3 }));
});
afterEach(async () => {
  for (const store of stores) await store.close();
});

/** As the engine does it: what was locked is asked for again. */
async function patiently<Item, Answer>(
  items: readonly Item[],
  call: (items: readonly Item[]) => Promise<readonly Answer[]>,
): Promise<Answer[]> {
  const done: Answer[] = [];
  for (let left = items; left.length > 0;) {
    const answers = await call(left);
    done.push(...answers.filter((answer) => !isLocked(answer)));
    left = left.filter((_, at) => isLocked(answers[at]));
  }
  return done;
}
const settle = (store: Store, settles: readonly Settle[]) =>
  patiently(settles, (some) => store.settleIfLeased(some));
const change = (store: Store, changes: readonly Change[]) =>
  patiently(changes, (some) => store.changeIf(some));

/** Repeats what somebody does until it says that nothing is left. */
async function repeat(act: () => Promise<boolean>): Promise<void> {
  while (await act());
}

test("parents that end at once on several connections free each join once and are all counted", async () => {
  const [store] = stores as [Store];
  const [joins, parents] = [20, 50];
  const names = Array.from({ length: joins * parents }, (_, at) => `p${at}`);
  // Two targets each, in both orders, so that locks in the order of the edges would meet.
  const targets = (at: number): string[] => [`j${at % joins}`, `j${(at * 7 + 3) % joins}`];
  const needs = new Map<string, number>();
  for (const target of names.flatMap((_, at) => targets(at))) needs.set(target, (needs.get(target) ?? 0) + 1);
  const jobs = [
    aFlow(names.length + joins),
    ...names.map((name, at) => aMember(name, { to: targets(at).map((target) => edgeTo(target, tolerated)) })),
    ...[...needs].map(([name, need]) => aMember(name, { need, slack: need })),
  ];
  expect(await store.submit([{ jobs }])).toMatchObject([{ kind: "ok" }]);

  const cancelled = new Set(names.filter((_, at) => at % 9 === 4).map((name) => `F.${name}`));
  let ended = 0;
  const work = (each: Store, at: number) =>
    repeat(async () => {
      const { jobs: claimed } = await each.claim(aClaim({ owner: `w${at}`, max: 7 + at, leaseMs: 60_000 }));
      const settles = claimed.map((job, place) =>
        aSettle(
          job,
          finish(place % 5 === 0 ? "failed" : "completed"),
          place % 4 === at ? { effects: {} } : {},
        ),
      );
      const answers = await settle(each, settles);
      expect(answers.every(({ kind }) => kind === "ok")).toBe(true);
      ended += answers.length;
      return claimed.length > 0;
    });
  const cancel = (each: Store, of: number) =>
    repeat(async () => {
      const some = [...cancelled].filter((_, at) => at % 2 === of).slice(0, 6);
      for (const id of some) cancelled.delete(id);
      const answers = await change(
        each,
        some.map((id) => aChange(id, ["ready"], finish("cancelled"))),
      );
      ended += answers.filter(({ kind }) => kind === "ok").length;
      return some.length > 0;
    });
  // A change of a blocked row writes it anew: whoever waits for the old one must find the new one.
  const edit = async (each: Store): Promise<void> => {
    for (let turn = 0; turn < 40; turn++)
      await change(
        each,
        [3, 2, 1].map((far) =>
          aChange(`F.j${(turn * far) % joins}`, ["blocked"], {
            to: "same",
            event: "edited",
            edit: { meta: "{}" },
          }),
        ),
      );
  };
  await Promise.all([
    ...stores.map(work),
    ...stores.slice(0, 2).map(cancel),
    edit(stores[2]!),
    edit(stores[3]!),
  ]);
  await work(store, 0);

  expect(ended).toBe(names.length + joins);
  const flow = (await store.readJobs(["F"]))[0]!;
  const [need, slack, passed, defers, total, ...ends] = flow.waits!.split(",").map(Number) as number[];
  expect([need, slack, passed, defers, total]).toEqual([0, 0, 0, 1, ended]);
  expect(ends.reduce((sum, count) => sum + count)).toBe(ended);
  const freed = (await readWholeFeed(store, 100)).flatMap(({ events }) =>
    events.filter(({ kind }) => kind === "freed").map(({ id }) => id),
  );
  expect(freed.toSorted()).toEqual([...needs.keys()].map((name) => `F.${name}`).toSorted());
  expect(await deferred(store)).toEqual(["F"]);
  expect(sortStateCounts(await store.countJobs())).toEqual(recount(await findAll(store)));
});

test("targets that are alike are freed together, each once, while others write them anew or cancel them", async () => {
  const [store] = stores as [Store];
  const [parents, fan] = [40, 24];
  const targetsOf = (at: number): string[] => Array.from({ length: fan }, (_, each) => `p${at}-${each}`);
  const jobs = Array.from({ length: parents }, (_, at) => [
    aMember(`p${at}`, { to: targetsOf(at).map((name) => edgeTo(name)) }),
    ...targetsOf(at).map((name) => aMember(name, { need: 1 })),
  ]).flat();
  await store.submit([{ jobs: [aFlow(jobs.length), ...jobs] }]);
  const { jobs: claimed } = await store.claim(aClaim({ max: parents, leaseMs: 60_000 }));
  const cancelled = new Set<string>();
  const meddle = async (each: Store, step: number): Promise<void> => {
    for (let round = 0; round < 60; round++) {
      const ids = [1, 2, 3].map((far) => `F.p${(round * step) % parents}-${(round * far + step) % fan}`);
      const edit = { to: "same", event: "edited", edit: { meta: "{}" } } as const;
      await change(
        each,
        [...new Set(ids)].map((id) => aChange(id, ["blocked"], edit)),
      );
      const [answer] = await change(each, [aChange(ids[0]!, ["blocked"], finish("cancelled"))]);
      if (answer?.kind === "ok") cancelled.add(ids[0]!);
    }
  };
  const end = async (each: Store, of: number): Promise<void> => {
    for (const job of claimed.filter((_, at) => at % 2 === of)) await settle(each, [aSettle(job, finish())]);
  };
  await Promise.all([end(stores[0]!, 0), end(stores[1]!, 1), meddle(stores[2]!, 7), meddle(stores[3]!, 11)]);

  const freed = (await readWholeFeed(store, 100)).flatMap(({ events }) =>
    events.filter(({ kind }) => kind === "freed").map(({ id }) => id),
  );
  const all = Array.from({ length: parents }, (_, at) => targetsOf(at).map((name) => `F.${name}`)).flat();
  expect(freed.toSorted()).toEqual(all.filter((id) => !cancelled.has(id)).toSorted());
  expect(cancelled.size).toBeGreaterThan(0);
  expect(sortStateCounts(await store.countJobs())).toEqual(recount(await findAll(store)));
});

test("a join that is blocked anew while its parents end misses none of them", async () => {
  const [one, other] = stores as [Store, Store];
  const names = Array.from({ length: 30 }, (_, at) => `p${at}`);
  const parents = names.map((name) => edgeTo(`F.${name}`, always));
  await one.submit([
    {
      jobs: [
        aFlow(names.length + 1),
        ...names.map((name) => aMember(name, { to: [edgeTo("j", always)] })),
        aMember("j", { need: names.length }),
      ],
    },
  ]);
  const { jobs } = await one.claim(aClaim({ max: 100, leaseMs: 60_000 }));
  const anew = block({ parents, waits: { need: names.length, slack: 0 } });
  const skip = aChange("F.j", ["blocked"], finish("skipped"));
  const comeBack = aChange("F.j", ["skipped", "blocked"], anew);
  let isOver = false;
  const end = async (): Promise<void> => {
    for (const job of jobs) await settle(one, [aSettle(job, finish())]);
    isOver = true;
  };
  await Promise.all([
    end(),
    repeat(async () => {
      await change(other, [skip]);
      await change(other, [comeBack]);
      return !isOver;
    }),
  ]);
  const [join, flow] = await one.readJobs(["F.j", "F"]);
  expect(join).toMatchObject({ state: "ready", waits: "0,0,0,0" });
  expect(flow).toMatchObject({ waits: `1,0,0,1,31,30,0,0,0,0` });
});

test("a settle whose flow somebody holds is answered locked, with nothing of it done, and the others of its call are done", async () => {
  const [store] = stores as [Store];
  const elsewhere = aFlow(1, { id: "G" });
  const other = { ...aMember("a"), id: "G.a", flow: "G" };
  await store.submit([{ jobs: [...chain, elsewhere, other, aJob({ id: "x" })] }]);
  const { jobs } = await store.claim(aClaim({ leaseMs: 60_000 }));
  expect(jobs.map(({ id }) => id)).toEqual(["F.a", "G.a", "x"]);
  const client = new pg.Client({ connectionString: database.url });
  await client.connect();
  await client.query("BEGIN");
  await client.query(`SELECT 1 FROM flows_${schemas}.waiting WHERE id = 'F' FOR UPDATE`);
  const settles = jobs.map((job) => aSettle(job, finish()));
  expect((await store.settleIfLeased(settles)).map(({ kind }) => kind)).toEqual(["locked", "ok", "ok"]);
  const cancel = aChange("F.b", ["blocked"], finish("cancelled"));
  expect(await store.changeIf([cancel])).toEqual([{ kind: "locked" }]);
  await client.query("COMMIT");
  await client.end();
  const states = async () => (await store.readJobs(["F.a", "F.b", "G.a", "x"])).map((job) => job?.state);
  expect(await states()).toEqual(["running", "blocked", "completed", "completed"]);
  expect((await store.readJobs(["F", "G"])).map((job) => job?.waits)).toEqual([
    "3,0,0,1,3,0,0,0,0,0",
    "0,0,0,1,1,1,0,0,0,0",
  ]);
  expect((await settle(store, settles)).map(({ kind }) => kind)).toEqual(["ok", "already", "already"]);
  expect(await states()).toEqual(["completed", "ready", "completed", "completed"]);
});

test("ends of one call arrive in its order, although those that end alike are written together", async () => {
  const [store] = stores as [Store];
  const parents = ["a", "b", "c"].map((name) => aMember(name, { to: [edgeTo("j")] }));
  await store.submit([{ jobs: [aFlow(4), ...parents, aMember("j", { need: 1, slack: 1 })] }]);
  const { jobs } = await store.claim(aClaim({ leaseMs: 60_000 }));
  const ends = ["failed", "completed", "failed"] as const;
  await store.settleIfLeased(jobs.map((job, at) => aSettle(job, finish(ends[at]))));
  const [join, flow] = await store.readJobs(["F.j", "F"]);
  expect([join?.state, join?.waits]).toEqual(["ready", "0,0,0,0"]);
  expect(flow?.waits).toBe("1,0,0,1,4,1,2,0,0,0");
});

test("the end of a member inside the caller's transaction is deferred, and holds up no other end", async () => {
  const [store] = stores as [Store];
  await store.submit([{ jobs: [...chain, aMember("d")] }]);
  const { jobs } = await store.claim(aClaim({ leaseMs: 60_000 }));
  const [a, d] = ["F.a", "F.d"].map((id) => jobs.find((job) => job.id === id)!);
  const client = new pg.Client({ connectionString: database.url });
  await client.connect();
  await client.query("BEGIN");
  expect(await store.inTransaction(client).settleIfLeased([aSettle(a!, finish())])).toEqual([{ kind: "ok" }]);
  expect(await store.settleIfLeased([aSettle(d!, finish())])).toEqual([{ kind: "ok" }]);
  await client.query("COMMIT");
  await client.end();
  expect(await deferred(store)).toEqual(["F.a"]);
  expect((await store.readJobs(["F.a", "F.b"])).map((job) => job?.waits)).toEqual(["0,0,0,0", "1,0,0,0"]);
  const step = aChange("F.a", ["completed"], { to: "same", event: "passed-on", passesOn: 500 });
  await store.changeIf([step]);
  const [first, second, flow] = await store.readJobs(["F.a", "F.b", "F"]);
  expect([first?.waits, second?.state, flow?.waits]).toEqual(["0,0,2,0", "ready", "1,0,0,1,3,2,0,0,0,0"]);
});
