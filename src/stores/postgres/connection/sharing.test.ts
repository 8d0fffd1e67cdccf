import pg from "pg";
import { afterEach, beforeEach, describe, expect, test } from "vitest";
import { useTestDatabase } from "../../../../test/support/servers/use-postgres.ts";
import {
  aChange,
  aClaim,
  aDoc,
  aJob,
  aRoute,
  aSettle,
  askCancel,
  finish,
  schedule,
} from "../../../../test/support/builders.ts";
import { until } from "../../../../test/support/until.ts";
import { recount, sortStateCounts, findAll, readWholeFeed } from "../../../../test/support/walk.ts";
import { createHeldPlatform } from "../../../../test/support/virtual/held-platform.ts";
import { nodePlatform } from "../../../platform/node-platform.ts";
import { isLocked } from "../../../store/operations.ts";
import type { Settle, SettleAnswer, SubmitAnswer, SubmitUnit } from "../../../store/operations.ts";
import type { Hint, Store } from "../../../store/store.ts";
import { openPostgresStore } from "../postgres-store.ts";

const database = useTestDatabase();
let one: Store;
let other: Store;
let schemas = 0;

beforeEach(async () => {
  const schema = `shared_${++schemas}`;
  one = await openPostgresStore({ url: database.url, platform: nodePlatform, schema });
  other = await openPostgresStore({ url: database.url, platform: nodePlatform, schema, poolMax: 6 });
});
afterEach(async () => {
  await one.close();
  await other.close();
});

/** As the engine does it: a unit that was locked is asked for again. */
async function submitted(store: Store, unit: SubmitUnit): Promise<readonly SubmitAnswer[]> {
  for (;;) {
    const answers = await store.submit([unit]);
    if (!answers.some(isLocked)) return answers as readonly SubmitAnswer[];
  }
}

/** The same of settles. */
async function settled(store: Store, settles: readonly Settle[]): Promise<readonly SettleAnswer[]> {
  const answers = [...(await store.settleIfLeased(settles))];
  for (const [at, settle] of settles.entries())
    while (isLocked(answers[at]!)) answers[at] = (await store.settleIfLeased([settle]))[0]!;
  return answers as readonly SettleAnswer[];
}

const fill = (count: number) =>
  one.submit([
    { jobs: Array.from({ length: count }, (_, at) => aJob({ id: `j${String(at).padStart(4, "0")}` })) },
  ]);

async function heardFrom(
  store: Store,
  isWanted: (hint: Hint) => boolean,
  act: () => Promise<unknown>,
): Promise<Hint> {
  const heard = Promise.withResolvers<Hint>();
  const unwatch = store.watch((hint) => {
    if (isWanted(hint)) heard.resolve(hint);
  });
  // The watch has found the end of the feed before anything happens; what its listener misses it then looks up.
  await store.readFeed({ after: 0, max: 1 });
  await act();
  const hint = await heard.promise;
  unwatch();
  return hint;
}

describe("two stores on one schema", () => {
  test("never hand out a job twice, and together hand out all", async () => {
    await fill(600);
    const taken: string[] = [];
    const work = async (store: Store, owner: string): Promise<void> => {
      for (;;) {
        const { jobs } = await store.claim(aClaim({ owner, max: 17, leaseMs: 60_000 }));
        if (jobs.length === 0) return;
        taken.push(...jobs.map(({ id }) => id));
        const answers = await store.settleIfLeased(jobs.map((job) => aSettle(job, finish())));
        expect(answers.every(({ kind }) => kind === "ok")).toBe(true);
      }
    };
    await Promise.all([work(one, "a"), work(one, "b"), work(other, "c"), work(other, "d"), work(other, "e")]);
    // A claim that met only rows held by another ends early; nothing is left once all have ended.
    await work(one, "f");
    expect(taken.length).toBe(600);
    expect(new Set(taken).size).toBe(600);
    expect(sortStateCounts(await one.countJobs())).toEqual(recount(await findAll(one)));
  });

  test("one unique key and one given id, submitted many times at once, make one job each", async () => {
    const unique = { key: "k", hold: "end", onHeld: "keep" } as const;
    const keyed = Array.from({ length: 12 }, (_, at) =>
      submitted(at % 2 ? one : other, { jobs: [aJob({ id: `k${at}`, unique })] }),
    );
    const given = Array.from({ length: 12 }, (_, at) =>
      submitted(at % 2 ? one : other, { jobs: [aJob({ id: "given", digest: "d" })] }),
    );
    const answers = (await Promise.all([...keyed, ...given])).flat();
    expect(answers.filter((answer) => answer.kind === "ok" && answer.hows[0] === "created").length).toBe(2);
    expect(
      new Set(answers.slice(0, 12).map((answer) => (answer.kind === "ok" ? answer.ids[0] : null))).size,
    ).toBe(1);
    expect((await findAll(one)).length).toBe(2);
  });

  test("a call that was given up is cancelled at the server, where it would wait on for its lock", async () => {
    await one.putDocs([aDoc("a", "1")]);
    const options = { schema: `shared_${schemas}`, callTimeoutMs: 300, poolMax: 2 };
    const hasty = await openPostgresStore({ url: database.url, platform: nodePlatform, ...options });
    const client = new pg.Client({ connectionString: database.url });
    await client.connect();
    await client.query(`BEGIN; SELECT 1 FROM shared_${schemas}.doc FOR UPDATE`);
    await expect(hasty.putDocs([aDoc("a", "2")])).rejects.toMatchObject({ code: "outcome-unknown" });
    const waiting = "SELECT 1 FROM pg_stat_activity WHERE wait_event_type = 'Lock' AND query LIKE $1";
    const isGone = async () => (await client.query(waiting, [`%shared_${schemas}%`])).rowCount === 0;
    await until("nobody waits for the lock", isGone);
    await client.query("COMMIT");
    expect((await one.readDocs({ kind: "kv", ids: ["a"] })).docs).toMatchObject([{ body: "1" }]);
    await client.end();
    await hasty.close();
  });

  test("units that take the same keys in opposite orders do not stop each other", async () => {
    const job = (id: string, key: string) =>
      aJob({ id, unique: { key, hold: "end", onHeld: "replace" } as const });
    const rounds = Array.from({ length: 10 }, (_, at) => [
      submitted(one, { jobs: [job(`a${at}`, "x"), job(`b${at}`, "y")] }),
      submitted(other, { jobs: [job(`c${at}`, "y"), job(`d${at}`, "x")] }),
    ]).flat();
    const answers = (await Promise.all(rounds)).flat();
    expect(answers.every(({ kind }) => kind === "ok")).toBe(true);
    expect((await findAll(one)).length).toBe(2);
  });

  test("a settle is applied once, however often and from wherever it is repeated at once", async () => {
    await fill(50);
    const { jobs } = await one.claim(aClaim({ max: 50 }));
    const settles = jobs.map((job) => aSettle(job, finish()));
    const calls = [one, other, one, other].map((store) => settled(store, settles));
    const renewals = [1, 2, 3].map(() =>
      other.extendIfLeased({ owner: "w1", leaseMs: 5000, leases: jobs, wantsOthers: false }),
    );
    const answers = await Promise.all(calls);
    await Promise.all(renewals);
    for (const at of jobs.keys()) {
      const kinds = answers.map((answer) => String(answer[at]?.kind));
      expect(kinds.filter((kind) => kind === "ok").length).toBe(1);
      expect(kinds.filter((kind) => kind === "already").length).toBe(3);
    }
    expect(sortStateCounts(await one.countJobs())).toEqual(recount(await findAll(one)));
  });

  test("changes, claims and settles of the same jobs at once keep every event and every count", async () => {
    await fill(60);
    const ids = (await findAll(one)).map(({ id }) => id);
    const cancels = ids.map((id) => ({
      id,
      cases: [
        ...aChange(id, ["ready", "scheduled"], finish("cancelled")).cases,
        ...aChange(id, ["running"], askCancel).cases,
      ],
    }));
    const run = async (store: Store): Promise<void> => {
      for (let round = 0; round < 4; round++) {
        const { jobs } = await store.claim(aClaim({ max: 9 }));
        await store.settleIfLeased(jobs.map((job, at) => aSettle(job, at % 3 ? finish() : schedule(0))));
      }
    };
    await Promise.all([
      run(one),
      run(other),
      one.changeIf(cancels.slice(0, 40)),
      other.changeIf(cancels.slice(20)),
    ]);
    const jobs = await findAll(one);
    expect(jobs.length).toBe(60);
    expect(sortStateCounts(await one.countJobs())).toEqual(recount(jobs));
    const emitted = (await readWholeFeed(one)).flatMap(({ events }) => events);
    for (const { id, rev } of jobs)
      expect(emitted.filter((event) => event.id === id).map((event) => event.rev)).toEqual(
        Array.from({ length: rev }, (_, at) => at + 1),
      );
  });

  test("a document has one winner per version", async () => {
    const puts = Array.from({ length: 10 }, (_, at) =>
      (at % 2 ? one : other).putDocs([aDoc("lease", `${at}`, { guard: "absent" })]),
    );
    const answers = (await Promise.all(puts)).flat();
    expect(answers.filter(({ kind }) => kind === "ok").length).toBe(1);
  });

  test("the feed is numbered without gaps and without losing a late commit", async () => {
    await Promise.all(
      Array.from({ length: 20 }, (_, at) =>
        Promise.all([
          (at % 2 ? one : other).submit([{ jobs: [aJob({ id: `f${at}` })] }]),
          (at % 2 ? other : one).readFeed({ after: 0, max: 5 }),
        ]),
      ),
    );
    const records = await readWholeFeed(one, 3);
    expect(records.map(({ number }) => number)).toEqual(Array.from({ length: 20 }, (_, at) => at + 1));
    expect(new Set(records.flatMap(({ events }) => events.map(({ id }) => id))).size).toBe(20);
  });

  test("the end of the feed is after all that was emitted, however much nobody has read", async () => {
    const records = "SELECT 1, '' FROM generate_series(1, 15000)";
    await database.query(`INSERT INTO shared_${schemas}.feed (at, body) ${records}`);
    expect((await one.readFeed({ after: -1, max: 0 })).cursor).toBe(15_000);
  });
});

describe("hints between two stores", () => {
  test("work that one submits is heard by the other", async () => {
    const hint = await heardFrom(
      other,
      ({ kind }) => kind === "ready",
      () => fill(1),
    );
    expect(hint).toEqual({ kind: "ready", routes: [aRoute()] });
  });

  test("ends and cancels are heard too", async () => {
    await fill(2);
    const [a, b] = (await one.claim(aClaim({ owner: "w9" }))).jobs;
    const finished = await heardFrom(
      other,
      ({ kind }) => kind === "finished",
      () => one.settleIfLeased([aSettle(a!, finish())]),
    );
    expect(finished).toEqual({ kind: "finished", ids: [a!.id] });
    const cancel = await heardFrom(
      other,
      ({ kind }) => kind === "cancel",
      () => one.changeIf([aChange(b!.id, ["running"], askCancel)]),
    );
    expect(cancel).toEqual({ kind: "cancel", ids: [b!.id], owner: "w9" });
  });

  test("without a listening connection the slow look finds them", async () => {
    const unheard = await openPostgresStore({
      url: database.url,
      platform: nodePlatform,
      schema: `shared_${schemas}`,
      listenUrl: null,
    });
    const isReady = (route: number) => (hint: Hint) => hint.kind === "ready" && hint.routes.includes(route);
    const hint = await heardFrom(unheard, isReady(aRoute({ name: "other" })), async () => {
      // Whichever look finds this one, what comes behind it is left to a slow one.
      await heardFrom(unheard, isReady(aRoute()), () => fill(1));
      await one.submit([{ jobs: [aJob({ id: "later", name: "other" })] }]);
    });
    expect(hint).toEqual({ kind: "ready", routes: [aRoute({ name: "other" })] });
    await unheard.close();
  });

  test("a listening connection that is cut comes back", async () => {
    const first = heardFrom(
      other,
      ({ kind }) => kind === "ready",
      () => fill(1),
    );
    await first;
    // Its own alone: other test files listen on the same server. The hint may have come before it listened.
    const cut = `SELECT pg_terminate_backend(pid) FROM pg_stat_activity
      WHERE datname = current_database() AND query LIKE 'LISTEN%' AND pid <> pg_backend_pid()`;
    await until("it is cut", async () => (await database.query(cut)).length > 0);
    const again = await heardFrom(
      other,
      ({ kind }) => kind === "finished",
      async () => {
        const { jobs } = await one.claim(aClaim());
        await one.settleIfLeased(jobs.map((job) => aSettle(job, finish())));
      },
    );
    expect(again.kind).toBe("finished");
  });
});

describe("retention by whole days", () => {
  test("does not walk over what is too young, however much there is", async () => {
    await fill(1100);
    for (let left = 1100; left > 0;) {
      const { jobs } = await one.claim(aClaim({ max: 500, leaseMs: 60_000 }));
      await one.settleIfLeased(jobs.map((job) => aSettle(job, finish())));
      left -= jobs.length;
    }
    const young = { what: "history", outcome: "completed", queue: null, exceptQueues: [], max: 10 } as const;
    const answer = await one.prune({ ...young, olderThanMs: 3 * 86_400_000, cursor: null });
    expect(answer).toEqual({ pruned: 0, more: false, cursor: null });
  });

  test("a day that may go nearly whole is dropped, what must stay stays, and the counts are right", async () => {
    const dayMs = 86_400_000;
    const platform = createHeldPlatform();
    platform.setNow(100 * dayMs + 1000);
    const store = await openPostgresStore({ url: database.url, platform, schema: "days", clock: "platform" });
    const history = {
      what: "history",
      outcome: "completed",
      queue: null,
      exceptQueues: [],
      cursor: null,
    } as const;
    // The first prune makes the days to come.
    await store.prune({ ...history, olderThanMs: dayMs, max: 500 });
    // A vacuum that is at it just then keeps the day from being dropped whole.
    await database.query("ALTER TABLE days.history_100 SET (autovacuum_enabled = off)");
    await store.submit([
      {
        jobs: Array.from({ length: 5200 }, (_, at) => aJob({ id: `d${at}`, tags: at === 7 ? ["t"] : null })),
      },
    ]);
    const { jobs } = await store.claim(aClaim({ max: 5200 }));
    await store.settleIfLeased(
      jobs.map((job, at) => aSettle(job, finish(at < 100 ? "failed" : "completed"))),
    );
    expect(await database.query("SELECT count(*)::int AS rows FROM days.history_100")).toEqual([
      { rows: 5200 },
    ]);
    platform.setNow(101 * dayMs + 5000);
    expect(await store.prune({ ...history, olderThanMs: dayMs, max: 500 })).toMatchObject({ pruned: 0 });
    platform.setNow(102 * dayMs + 1);
    expect(await store.prune({ ...history, olderThanMs: dayMs, max: 500 })).toMatchObject({
      pruned: 5100,
      more: true,
    });
    expect(await database.query("SELECT to_regclass('days.history_100') AS there")).toEqual([
      { there: null },
    ]);
    expect((await store.countJobs()).map(({ state, count }) => [state, count])).toEqual([["failed", 100]]);
    expect((await findAll(store)).length).toBe(100);
    expect((await findAll(store, { tag: "t" })).length).toBe(1);
    await store.close();
  });
});
