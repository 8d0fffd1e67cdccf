/**
 * Claims do not wait for the disk (docs/decisions/0012), so a server that is killed forgets the last of them. Here it
 * forgets for certain: nothing but a commit that waits writes this server's log out. What must hold: the job runs
 * again, under a fence that was never given, and the old one is void.
 */
import pg from "pg";
import { afterAll, beforeAll, expect, test } from "vitest";
import { nodePlatform } from "../../src/platform/node-platform.ts";
import type { Store } from "../../src/store/store.ts";
import { openPostgresStore } from "../../src/stores/postgres/postgres-store.ts";
import { aClaim, aJob, aSettle, finish } from "../support/builders.ts";
import { startPostgres } from "../support/servers/postgres-server.ts";
import type { PostgresServer } from "../support/servers/postgres-server.ts";
import { answers, until } from "../support/until.ts";

let server: PostgresServer;
let store: Store;
beforeAll(async () => {
  server = await startPostgres({ settings: ["fsync=on", "shared_buffers=32MB", "autovacuum=off"] });
  store = await openPostgresStore({ url: server.url, platform: nodePlatform, listenUrl: null });
});
afterAll(async () => {
  await store.close();
  await server.stop();
});

/**
 * The process that writes the log out now and then is stopped in its tracks. Answers its id: it must be ended with its
 * server, of which it hears nothing.
 */
async function freezeLogWriter(): Promise<number> {
  const client = new pg.Client({ connectionString: server.url });
  await client.connect();
  const { rows } = await client.query("SELECT pid FROM pg_stat_activity WHERE backend_type = 'walwriter'");
  await client.end();
  const { pid } = rows[0] as { pid: number };
  process.kill(pid, "SIGSTOP");
  return pid;
}

const restarted = (): Promise<unknown> =>
  until("the server is back", () =>
    server.restart().then(
      () => true,
      () => false,
    ),
  );

const answering = (): Promise<unknown> => until("the store answers", () => answers(store));

const epochOf = (fence: number): number => Math.floor(fence / 2 ** 32);

test("a claim that the server forgot is made again under a new fence, and the old one is void", async () => {
  await store.submit([{ jobs: [aJob({ id: "a" })] }]);
  const logWriter = await freezeLogWriter();
  const [lost] = (await store.claim(aClaim({ leaseMs: 600_000 }))).jobs;
  if (lost === undefined) throw new Error("nothing was claimed");
  await store.extendIfLeased({ owner: "w1", leaseMs: 600_000, leases: [lost], wantsOthers: false });
  await server.kill();
  process.kill(logWriter, "SIGKILL");
  await restarted();
  await answering();

  expect((await store.readJobs(["a"]))[0]).toMatchObject({ state: "ready", attempt: 0 });
  const [again] = (await store.claim(aClaim({ owner: "w2" }))).jobs;
  expect(again).toMatchObject({ id: "a", attempt: 1 });
  expect(epochOf(again?.fence ?? 0)).toBe(epochOf(lost.fence) + 1);
  expect(await store.settleIfLeased([aSettle(lost, finish())])).toEqual([{ kind: "stale" }]);
  expect(await store.settleIfLeased([aSettle(again ?? lost, finish())])).toEqual([{ kind: "ok" }]);
});

test("an end that was acknowledged keeps its claim: a commit that waits takes all before it along", async () => {
  await store.submit([{ jobs: [aJob({ id: "b" }), aJob({ id: "c" })] }]);
  const { jobs } = await store.claim(aClaim({ leaseMs: 600_000 }));
  const [ended, held] = jobs;
  if (ended === undefined || held === undefined) throw new Error("two jobs were expected");
  expect(await store.settleIfLeased([aSettle(ended, finish())])).toEqual([{ kind: "ok" }]);
  await server.kill();
  await restarted();
  await answering();

  expect((await store.readJobs(["b", "c"])).map((job) => job?.state)).toEqual(["completed", "running"]);
  expect(await store.settleIfLeased([aSettle(ended, finish())])).toEqual([{ kind: "already" }]);
  expect(await store.settleIfLeased([aSettle(held, finish())])).toEqual([{ kind: "ok" }]);
});

test("a server that was shut down in order goes on in the same epoch", async () => {
  await store.submit([{ jobs: [aJob({ id: "d" })] }]);
  const [held] = (await store.claim(aClaim({ leaseMs: 600_000 }))).jobs;
  if (held === undefined) throw new Error("nothing was claimed");
  const { epoch } = await store.describe();
  const gone = new Promise((resolve) => server.process.once("exit", resolve));
  server.process.kill("SIGINT");
  await gone;
  await restarted();
  await answering();
  expect(await store.settleIfLeased([aSettle(held, finish())])).toEqual([{ kind: "ok" }]);
  await store.claim(aClaim());
  expect((await store.describe()).epoch).toBe(epoch);
});
