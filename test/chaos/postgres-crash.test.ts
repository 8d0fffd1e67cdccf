/**
 * A real server killed -9 under load, with producers and workers that go on, and workers killed with jobs in their hands. The server is this
 * file's own, with fsync on, so that what it acknowledged is what must be there afterwards.
 */
import { afterAll, afterEach, beforeAll, beforeEach, expect, test } from "vitest";
import { nodePlatform } from "../../src/platform/node-platform.ts";
import type { Store } from "../../src/store/store.ts";
import { openPostgresStore } from "../../src/stores/postgres/postgres-store.ts";
import { checkHistory } from "../history/check-history.ts";
import { startPostgres } from "../support/postgres-server.ts";
import type { PostgresServer } from "../support/postgres-server.ts";
import { ChaosRun, until } from "./chaos-run.ts";
import { isAboutOneOrder } from "./kill-suite.ts";

const leaseMs = 1500;

let server: PostgresServer;
let store: Store;
let run: ChaosRun;
let schemas = 0;
beforeAll(async () => {
  server = await startPostgres({ settings: ["fsync=on", "shared_buffers=32MB"] });
}, 120_000);
afterAll(() => server.stop());
beforeEach(async () => {
  const url = `${server.url}?schema=case_${++schemas}`;
  store = await openPostgresStore({ url, platform: nodePlatform, poolMax: 2 });
  run = new ChaosRun({ store, url }, leaseMs);
});
afterEach(async () => {
  await run.supervisor.killAll();
  await store.close();
});

const countCompleted = async (): Promise<number> => {
  const tallies = await store.tallyJobs().catch(() => []);
  return tallies.reduce((sum, { state, count }) => sum + (state === "completed" ? count : 0), 0);
};

test("the server is killed -9 twice under load: producers and workers go on, and nothing acknowledged is lost", async () => {
  const jobs = 500;
  const workers = ["worker-1", "worker-2"].map((name) => run.start({ role: "worker", name }));
  await Promise.all(workers.map(({ ready }) => ready));
  const [half, rest] = [
    run.start({ role: "producer", name: "producer-1", to: jobs / 2, everyMs: 3 }),
    run.start({ role: "producer", name: "producer-2", from: jobs / 2 + 1, to: jobs, everyMs: 3 }),
  ];
  const { epoch } = await store.describe();
  for (const least of [60, 200]) {
    await until(`${least} jobs are completed`, async () => (await countCompleted()) >= least);
    await server.kill();
    // Its orphans hold the shared memory until they notice.
    await until("the server is back", () =>
      server.restart().then(
        () => true,
        () => false,
      ),
    );
  }
  await Promise.all([half.exited, rest.exited]);
  await until("everything has ended", () => run.isDrained());
  const evidence = await run.finish(false);

  expect(checkHistory(evidence).filter((violation) => !isAboutOneOrder(violation))).toEqual([]);
  const enqueues = evidence.operations.filter(({ kind }) => kind === "enqueue");
  expect(enqueues).toHaveLength(jobs);
  const acknowledged = enqueues.filter(({ seen }) => seen === "ok");
  expect(acknowledged.length).toBeGreaterThan(jobs / 2);
  const ended = evidence.snapshot.jobs.filter(({ name }) => name === "work");
  expect(ended.length).toBeGreaterThanOrEqual(acknowledged.length);
  expect(ended.every(({ state }) => state === "completed")).toBe(true);
  expect(workers.map(({ stopped }) => stopped?.notStopped)).toEqual([0, 0]);
  // Whatever a worker held over the crash, no fence was given twice.
  expect((await store.describe()).epoch).toBeGreaterThan(epoch);
}, 120_000);

test("the jobs of a killed worker run again within two seconds of their leases' end", async () => {
  const jobs = 8;
  const input = { number: 0, ms: 60_000 };
  const victim = run.start({ role: "worker", name: "victim", concurrency: jobs });
  await victim.ready;
  const producer = run.start({ role: "producer", name: "producer", to: jobs, input });
  await producer.exited;
  const ids = Array.from({ length: jobs }, (_, index) => `job-${index + 1}`);
  const isHeldBy = async (name: string): Promise<boolean> => {
    const records = await store.readJobs(ids);
    return records.every((record) => record?.state === "running" && record.owner?.includes(name) === true);
  };
  await until("the victim holds every job", () => isHeldBy("victim"));
  victim.send("SIGKILL");
  const heir = run.start({ role: "worker", name: "heir", concurrency: jobs });
  await heir.ready;
  const held = await store.readJobs(ids);
  const ends = new Map(held.map((record) => [record?.id, record?.leaseEndsAt ?? Number.NaN]));
  await until("the heir holds every job", () => isHeldBy("heir"));
  const lateMs = (await store.readJobs(ids)).map(
    (record) => (record?.claimedAt ?? Number.NaN) - (ends.get(record?.id) ?? 0),
  );
  for (const late of lateMs) {
    expect(late).toBeGreaterThanOrEqual(0);
    expect(late).toBeLessThan(2000);
  }
}, 60_000);
