/**
 * Gates between processes: two stores on one schema, by the database's clock and on connections of their own. What was
 * held at each instant is read from the feed afterwards.
 */
import pg from "pg";
import { afterEach, beforeEach, describe, expect, test } from "vitest";
import { aClaim, aGate, aJob, aRoute, aSettle, finish, handBack } from "../../../../test/support/builders.ts";
import { until } from "../../../../test/support/until.ts";
import { useTestDatabase } from "../../../../test/support/servers/use-postgres.ts";
import { findAll, readWholeFeed } from "../../../../test/support/walk.ts";
import { foreverMs, limitGateKey, queueGateKey } from "../../../model/limits/gate.ts";
import { nodePlatform } from "../../../platform/node-platform.ts";
import { storeLimits } from "../../../store/contract-limits.ts";
import type { LeasedJob, NewJob } from "../../../store/records.ts";
import type { Store } from "../../../store/store.ts";
import type { Calls } from "../functions/call.ts";
import { claim } from "../runs/claim.ts";
import { openDatabase } from "../connection/database.ts";
import { loadDriver } from "../connection/driver.ts";
import { noFloors } from "../runs/floors.ts";
import type { Floors, Looks } from "../runs/floors.ts";
import { quoted } from "../connection/migrate.ts";
import { openPostgresStore } from "../postgres-store.ts";

const database = useTestDatabase();
let one: Store;
let other: Store;
let schemas = 0;

beforeEach(async () => {
  const schema = `gates_${++schemas}`;
  one = await openPostgresStore({ url: database.url, platform: nodePlatform, schema });
  other = await openPostgresStore({ url: database.url, platform: nodePlatform, schema });
});
afterEach(async () => {
  await one.close();
  await other.close();
});

const slack = limitGateKey("slack");
const gates = [{ key: slack, weight: 1 }];
const limited = (id: string, given: Partial<NewJob> = {}): NewJob => aJob({ id, gates, ...given });
const send = aRoute({ gates });
const print = aRoute({ name: "print", gates });
const ids = (jobs: readonly { readonly id: string }[]): string[] => jobs.map(({ id }) => id);

/** How many ran at once at most, in the order of the feed. */
async function mostAtOnce(): Promise<number> {
  const running = new Set<string>();
  let most = 0;
  for (const { events } of await readWholeFeed(one))
    for (const { id, state } of events) {
      if (state === "running") running.add(id);
      else running.delete(id);
      most = Math.max(most, running.size);
    }
  return most;
}

describe("a cap is kept at every instant", () => {
  for (const cap of [1, 3])
    test(`by several claimers at once, with arrivals ahead of the head, at a cap of ${cap}`, async () => {
      await one.putGates([aGate(slack, { cap })]);
      const total = 400;
      let submitted = 0;
      let settled = 0;
      const arrive = async (store: Store): Promise<void> => {
        while (submitted < total) {
          const at = ++submitted;
          // Each goes before all that came before it.
          const name = at % 3 ? "send" : "print";
          await store.submit([{ jobs: [limited(`j${at}`, { name, rankBase: -at * 1e6 })] }]);
        }
      };
      const work = async (store: Store, owner: string): Promise<void> => {
        for (let turn = 0; settled < total; turn++) {
          const routes = turn % 3 ? [send, print] : turn % 2 ? [send] : [print];
          const { jobs } = await store.claim(
            aClaim({ owner, leaseMs: 60_000, offers: [{ routes, max: 1 + (turn % 4) }] }),
          );
          const isBack = turn % 7 === 0;
          await store.settleIfLeased(jobs.map((job) => aSettle(job, isBack ? handBack : finish())));
          if (!isBack) settled += jobs.length;
        }
      };
      await Promise.all([
        ...[one, other].flatMap((store) => [arrive(store), arrive(store)]),
        ...["a", "b", "c"].flatMap((owner) => [work(one, owner), work(other, `${owner}2`)]),
      ]);
      expect(await mostAtOnce()).toBe(cap);
      expect((await findAll(one)).every(({ state }) => state === "completed")).toBe(true);
      expect((await one.readGates({ keys: [slack] })).gates).toMatchObject([{ held: 0 }]);
    });
});

describe("a claim does not hang behind a gate that somebody holds", () => {
  test("it takes what has no such gate and is answered to come again, and a put answers too", async () => {
    await one.putGates([aGate(slack, { cap: 2 })]);
    await one.submit([{ jobs: [limited("a"), aJob({ id: "plain" })] }]);
    const client = new pg.Client({ connectionString: database.url });
    await client.connect();
    const lock = `hashtextextended('"gates_${schemas}".gate${slack}', 0)`;
    await client.query(`BEGIN; SELECT pg_advisory_xact_lock(${lock})`);
    const offers = [{ routes: [send, aRoute()], max: 5 }];
    const answer = await other.claim(aClaim({ offers }));
    expect([ids(answer.jobs), answer.more]).toEqual([["plain"], false]);
    expect(answer.opensInMs).toBeLessThanOrEqual(storeLimits.lockWaitMs);
    expect(await one.putGates([aGate(slack, { cap: 3 })])).toEqual([{ kind: "ok", version: 2 }]);
    await client.query("COMMIT");
    await client.end();
    expect(ids((await other.claim(aClaim({ offers }))).jobs)).toEqual(["a"]);
  });
});

describe("the first job of a route", () => {
  test("passes its gates, although a claim of the route may have begun before it was known", async () => {
    await one.putGates([aGate(slack, { cap: 1 })]);
    for (let round = 0; round < 60; round++) {
      const name = `n${round}`;
      const offers = [{ routes: [aRoute({ name, gates })], max: 5 }];
      const jobs = ["a", "b"].map((id) => limited(`${id}${round}`, { name }));
      const claimed = await Promise.all([
        ...[one, other, one, other].map((store) => store.claim(aClaim({ offers }))),
        ...jobs.map((job, at) => (at ? one : other).submit([{ jobs: [job] }]).then(() => ({ jobs: [] }))),
        ...[one, other, one, other].map((store) => store.claim(aClaim({ offers }))),
      ]);
      const leased = claimed.flatMap((answer) => answer.jobs);
      await one.settleIfLeased(leased.map((job) => aSettle(job, finish())));
    }
    expect(await mostAtOnce()).toBe(1);
  });
});

describe("a pause that has answered holds", () => {
  test("because it waits for claims that may not have seen it, though not for one that is stuck", async () => {
    await one.submit([{ jobs: [aJob({ id: "a" })] }]);
    const client = new pg.Client({ connectionString: database.url });
    await client.connect();
    // As every claim does, before it looks for gates.
    const lock = `hashtextextended('"gates_${schemas}".gate', 0)`;
    await client.query(`BEGIN; SELECT pg_advisory_xact_lock_shared(${lock})`);
    let hasWaited = false;
    nodePlatform.setTimer(storeLimits.lockWaitMs - 1, () => (hasWaited = true));
    await one.putGates([aGate(queueGateKey("mail"), { closed: { at: foreverMs } })]);
    expect(hasWaited).toBe(true);
    await client.query("COMMIT");
    await client.end();
    expect((await other.claim(aClaim())).jobs).toEqual([]);
  });
});

describe("what a gate holds back", () => {
  test("does not raise the floor of later claims above it", async () => {
    const driver = await loadDriver();
    const place = { driver, url: database.url, poolMax: 1, name: "millrace", callTimeoutMs: 30_000 };
    const connection = openDatabase({ ...place, platform: nodePlatform });
    const calls: Calls = {
      ...{ schema: quoted(`gates_${schemas}`), commit: "off", isInside: false },
      ...{ write: connection.write, read: connection.read },
      ...{ now: () => null, emit: () => undefined, ride: () => null },
    };
    const seen: Looks["lowest"][] = [];
    const floors: Floors = { ...noFloors, learn: (_offers, _plan, { lowest }) => void seen.push(lowest) };
    const asked = aClaim({ offers: [{ routes: [send, aRoute()], max: 5 }] });
    await one.putGates([aGate(slack, { closed: { at: foreverMs } })]);
    const ranked = { rankSlope: 0 } as const;
    await one.submit([
      { jobs: [limited("held", { ...ranked, rankBase: 7 }), aJob({ id: "plain", ...ranked, rankBase: 50 })] },
    ]);
    expect(ids((await claim(calls, floors, asked)).jobs)).toEqual(["plain"]);
    // Shut by the first offer: the second one has not looked.
    const twice = { ...asked, offers: [{ routes: [send], max: 5 }, ...asked.offers] };
    await claim(calls, floors, twice);
    expect(seen).toEqual([[7], [7, -Number.MAX_SAFE_INTEGER]]);
    await one.putGates([aGate(slack)]);
    expect(ids((await claim(calls, floors, asked)).jobs)).toEqual(["held"]);
    await connection.close();
  });

  test("is heard of in another process when a permit comes back, also by the caller's own transaction", async () => {
    await one.putGates([aGate(slack, { cap: 1 })]);
    await one.submit([{ jobs: [limited("a"), limited("b", { name: "print" }), limited("c")] }]);
    const heard = new Set<number>();
    let isListening = false;
    other.watch((hint) => {
      isListening = true;
      if (hint.kind === "ready") for (const route of hint.routes) heard.add(route);
    });
    // What is sent before it listens is lost.
    let calls = 0;
    await until("the other listens", async () => {
      calls += 1;
      await one.submit([{ jobs: [aJob({ id: `call-${calls}`, queue: "elsewhere" })] }]);
      return isListening;
    });
    const next = async (): Promise<LeasedJob> => {
      const { jobs } = await one.claim(aClaim({ offers: [{ routes: [send, print], max: 5 }] }));
      expect(jobs.length).toBe(1);
      heard.clear();
      return jobs[0]!;
    };
    const bothHeard = (): boolean => heard.has(send) && heard.has(print);
    await one.settleIfLeased([aSettle(await next(), finish())]);
    await until("the settle is heard", bothHeard);
    const client = new pg.Client({ connectionString: database.url });
    await client.connect();
    await client.query("BEGIN");
    await one.inTransaction(client).settleIfLeased([aSettle(await next(), finish())]);
    await client.query("COMMIT");
    await client.end();
    await until("the transaction is heard", bothHeard);
  });

  test("is refused inside the caller's transaction where the intake of its queue is closed, and the transaction goes on", async () => {
    await one.putGates([aGate(queueGateKey("mail"), { isIntakeClosed: true })]);
    const client = new pg.Client({ connectionString: database.url });
    await client.connect();
    await client.query("BEGIN");
    const inside = one.inTransaction(client);
    const units = [
      { jobs: [aJob({ id: "x", queue: "other" }), aJob({ id: "a" })] },
      { jobs: [aJob({ id: "y", queue: "other" })] },
    ];
    expect((await inside.submit(units)).map(({ kind }) => kind)).toEqual(["refused", "ok"]);
    await client.query("COMMIT");
    await client.end();
    expect(ids(await findAll(one))).toEqual(["y"]);
  });
});
