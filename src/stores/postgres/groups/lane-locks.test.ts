/**
 * Lanes between processes: two stores on one schema, by the database's clock and on connections of their own. Claims
 * lock the queues of their lanes and the limits for whose keys these ask, and nothing else. What was held at each
 * instant is read from the feed afterwards.
 */
import pg from "pg";
import { afterEach, beforeEach, expect, test } from "vitest";
import {
  aClaim,
  aGate,
  aJob,
  aRoute,
  aSettle,
  finish,
  handBack,
  schedule,
} from "../../../../test/support/builders.ts";
import { until } from "../../../../test/support/until.ts";
import { useTestDatabase } from "../../../../test/support/servers/use-postgres.ts";
import { findAll, readWholeFeed } from "../../../../test/support/walk.ts";
import { limitGateKey } from "../../../model/limits/gate.ts";
import { groupGateKey, keyedGate, laneStepOf, writeKeyUse } from "../../../model/routing/lane.ts";
import { nodePlatform } from "../../../platform/node-platform.ts";
import { storeLimits } from "../../../store/contract-limits.ts";
import type { NewJob } from "../../../store/records.ts";
import type { Store } from "../../../store/store.ts";
import { openPostgresStore } from "../postgres-store.ts";

const database = useTestDatabase();
let one: Store;
let other: Store;
let schemas = 0;

beforeEach(async () => {
  const schema = `locks_${++schemas}`;
  one = await openPostgresStore({ url: database.url, platform: nodePlatform, schema });
  other = await openPostgresStore({ url: database.url, platform: nodePlatform, schema });
});
afterEach(async () => {
  await one.close();
  await other.close();
});

const queues = ["mail", "reports"];
const routeOf = (queue: string): number => aRoute({ queue, laneKey: "any" });
const claimOf = (routes: readonly number[], max: number) =>
  aClaim({ leaseMs: 60_000, offers: [{ routes, max }] });

/** A job of a lane of this queue, which asks for a key of the limit. The id begins with limit and key. */
function keyed(queue: string, limit: string, [key, number]: readonly [string, number]): NewJob {
  const use = writeKeyUse({ key: keyedGate(limitGateKey(limit), key), weight: 1, cap: null });
  // Each goes before all that came before it.
  const place = { rankBase: -number * 1e6, rankSlope: 0 };
  return aJob({
    ...{ id: `${limit}.${key} ${queue} ${number}`, queue, ...place },
    ...{ laneKey: `${queue} ${limit} ${key}`, laneGates: [use] },
  });
}

/** By limit and key how many ran at once at most, in the order of the feed. */
async function mostAtOnce(): Promise<Record<string, number>> {
  const running = new Map<string, Set<string>>();
  const most: Record<string, number> = {};
  for (const { events } of await readWholeFeed(one))
    for (const { id, state } of events) {
      const [key] = id.split(" ") as [string];
      const ids = running.get(key) ?? new Set();
      running.set(key, ids);
      if (state === "running") ids.add(id);
      else ids.delete(id);
      most[key] = Math.max(most[key] ?? 0, ids.size);
    }
  return most;
}

test("a key that two queues share is never exceeded by claimers at once, with arrivals ahead of the heads of its lanes", async () => {
  await one.putGates([aGate(limitGateKey("slack"), { perKey: { cap: 2, rate: null } })]);
  const total = 300;
  let submitted = 0;
  let settled = 0;
  const arrive = async (store: Store): Promise<void> => {
    while (submitted < total) {
      const at = ++submitted;
      await store.submit([{ jobs: [keyed(queues[at % 2] as string, "slack", [`k${at % 3}`, at])] }]);
    }
  };
  const work = async (store: Store, mine: readonly string[]): Promise<void> => {
    for (let turn = 0; settled < total; turn++) {
      const { jobs } = await store.claim(claimOf(mine.map(routeOf), 1 + (turn % 4)));
      const isBack = turn % 7 === 0;
      await store.settleIfLeased(jobs.map((job) => aSettle(job, isBack ? handBack : finish())));
      if (!isBack) settled += jobs.length;
    }
  };
  await Promise.all([
    ...[one, other].flatMap((store) => [arrive(store), arrive(store)]),
    ...queues.flatMap((queue) => [work(one, [queue]), work(other, [queue])]),
    work(one, queues),
    work(other, queues.toReversed()),
  ]);
  expect(await mostAtOnce()).toEqual({ "slack.k0": 2, "slack.k1": 2, "slack.k2": 2 });
  expect((await findAll(one)).every(({ state }) => state === "completed")).toBe(true);
});

test("nor by the first jobs that ask for a limit, although claims may have begun before it was known in their queue", async () => {
  for (let round = 0; round < 40; round++) {
    const limit = `n${round}`;
    await one.putGates([aGate(limitGateKey(limit), { perKey: { cap: 1, rate: null } })]);
    const claims = (): Promise<{ jobs: readonly { id: string; seq: number; fence: number }[] }>[] =>
      [one, other].flatMap((store) => queues.map((queue) => store.claim(claimOf([routeOf(queue)], 5))));
    const submits = queues.map((queue, at) =>
      (at ? one : other).submit([{ jobs: [keyed(queue, limit, ["k", round])] }]).then(() => ({ jobs: [] })),
    );
    const answers = await Promise.all([...claims(), ...submits, ...claims()]);
    const leased = answers.flatMap(({ jobs }) => jobs);
    await one.settleIfLeased(leased.map((job) => aSettle(job, finish())));
  }
  for (;;) {
    const { jobs } = await one.claim(claimOf(queues.map(routeOf), 50));
    if (jobs.length === 0) break;
    await one.settleIfLeased(jobs.map((job) => aSettle(job, finish())));
  }
  expect(new Set(Object.values(await mostAtOnce()))).toEqual(new Set([1]));
  expect((await findAll(one)).every(({ state }) => state === "completed")).toBe(true);
});

test("groups of a queue keep their caps, with arrivals ahead of the heads, whatever other queues do", async () => {
  const [groups, rounds, isDone] = [40, 25, new Set<string>()];
  const total = 2 * groups * rounds;
  const group = (queue: string, key: string, at: number): NewJob => {
    const use = writeKeyUse({ key: keyedGate(groupGateKey(queue), key), weight: 1, cap: 1 });
    const fields = queue === "mail" ? { laneStep: null } : { laneStep: laneStepOf(1) };
    const place = { rankBase: -at * 1e6, rankSlope: 0 };
    return aJob({
      ...{ id: `${queue}.${key} ${at}`, queue, ...place, ...fields },
      ...{ laneKey: `${queue} ${key}`, laneGates: [use] },
    });
  };
  const routes = {
    mail: routeOf("mail"),
    reports: aRoute({ queue: "reports", laneKey: "any", laneStep: 1 }),
  };
  const arrive = async (store: Store, queue: string): Promise<void> => {
    for (let at = 1; at <= rounds; at++) {
      const jobs = Array.from({ length: groups }, (_, key) => group(queue, `g${key}`, at));
      await Promise.all(jobs.map((job) => store.submit([{ jobs: [job] }])));
    }
  };
  const work = async (store: Store, route: number): Promise<void> => {
    while (isDone.size < total) {
      const { jobs } = await store.claim(claimOf([route], 30));
      await store.settleIfLeased(jobs.map((job) => aSettle(job, finish())));
      for (const { id } of jobs) {
        expect(isDone.has(id)).toBe(false);
        isDone.add(id);
      }
    }
  };
  const workers = [one, other, one, other].flatMap((store) =>
    Object.values(routes).map((route) => work(store, route)),
  );
  await Promise.all([arrive(one, "mail"), arrive(other, "reports"), ...workers]);
  const most = await mostAtOnce();
  expect(Object.keys(most)).toHaveLength(2 * groups);
  expect(new Set(Object.values(most))).toEqual(new Set([1]));
});

test("a claim goes on while another one holds a queue that it does not ask for, and is answered to come again for one that it does", async () => {
  const jobs = queues.map((queue) => keyed(queue, `of-${queue}`, ["k", 1]));
  await one.submit([{ jobs }]);
  const client = new pg.Client({ connectionString: database.url });
  await client.connect();
  const lock = `hashtextextended('"locks_${schemas}".lane' || '${groupGateKey("mail")}', 0)`;
  await client.query(`BEGIN; SELECT pg_advisory_xact_lock(${lock})`);
  const free = await other.claim(claimOf([routeOf("reports")], 5));
  expect(free.jobs).toHaveLength(1);
  expect(free.opensInMs).toBeUndefined();
  const held = await other.claim(claimOf(queues.map(routeOf), 5));
  expect(held.jobs).toEqual([]);
  expect(held.opensInMs).toBeLessThanOrEqual(storeLimits.lockWaitMs);
  await client.query("COMMIT");
  await client.end();
  expect((await other.claim(claimOf([routeOf("mail")], 5))).jobs).toHaveLength(1);
});

test("a job that comes back to its group while a claim looks is not overtaken by the next one", async () => {
  const use = writeKeyUse({ key: keyedGate(groupGateKey("mail"), "k"), weight: 1, cap: 1 });
  const fields = { queue: "mail", laneKey: "mail k", laneGates: [use] };
  await one.submit([{ jobs: [aJob({ id: "first", ...fields }), aJob({ id: "second", ...fields })] }]);
  const ask = async (store: Store) => (await store.claim(claimOf([routeOf("mail")], 1))).jobs;
  const [first] = await ask(one);
  await one.settleIfLeased([aSettle(first!, schedule(30_000, { keepsLane: true }))]);
  const client = new pg.Client({ connectionString: database.url });
  await client.connect();
  const schema = `locks_${schemas}`;
  // The claim has read the jobs of the lane when it comes to the permits, and waits there.
  await client.query(`BEGIN; LOCK TABLE ${schema}.permit IN ACCESS EXCLUSIVE MODE`);
  const during = ask(other);
  const waiting = `SELECT 1 FROM pg_locks WHERE relation = '${schema}.permit'::regclass AND NOT granted`;
  await until("the claim waits", async () => (await client.query(waiting)).rowCount === 1);
  const later = "floor(extract(epoch FROM clock_timestamp()) * 1000)::int8 + 60000";
  const { rows } = await client.query(`SELECT jobs FROM ${schema}.promote_v1(${later}, NULL, 10)`);
  expect(rows).toEqual([{ jobs: "1" }]);
  await client.query("COMMIT");
  await client.end();
  expect(await during).toEqual([]);
  expect(await ask(other)).toMatchObject([{ id: "first" }]);
});

test("a claim takes no job that somebody else holds, where it is all there is", async () => {
  const use = writeKeyUse({ key: keyedGate(groupGateKey("mail"), "k"), weight: 1, cap: 1 });
  await one.submit([{ jobs: [aJob({ id: "only", queue: "mail", laneKey: "mail k", laneGates: [use] })] }]);
  const client = new pg.Client({ connectionString: database.url });
  await client.connect();
  await client.query(`BEGIN; SELECT 1 FROM locks_${schemas}.waiting WHERE id = 'only' FOR UPDATE`);
  let hasAnswered = false;
  const during = other.claim(claimOf([routeOf("mail")], 1)).finally(() => {
    hasAnswered = true;
  });
  // One that took it would wait for its row.
  const waiting =
    "SELECT 1 FROM pg_locks WHERE NOT granted AND pg_backend_pid() = ANY (pg_blocking_pids(pid))";
  await until("the claim has answered or waits", async () => {
    return hasAnswered || (await client.query(waiting)).rowCount !== 0;
  });
  await client.query("COMMIT");
  await client.end();
  expect(await during).toMatchObject({ jobs: [], more: false });
  expect((await other.claim(claimOf([routeOf("mail")], 1))).jobs).toMatchObject([{ id: "only" }]);
});
