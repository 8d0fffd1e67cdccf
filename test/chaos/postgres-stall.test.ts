/**
 * Stalls of Postgres: locks of strangers on what leases need, commits that wait, and a server or workers that stand
 * still. The server is this file's own.
 */
import { readFileSync } from "node:fs";
import { setTimeout as sleep } from "node:timers/promises";
import pg from "pg";
import { beforeAll, expect } from "vitest";
import { nodePlatform } from "../../src/platform/node-platform.ts";
import { openPostgresStore } from "../../src/stores/postgres/postgres-store.ts";
import { startPostgres } from "../support/servers/postgres-server.ts";
import type { PostgresServer } from "../support/servers/postgres-server.ts";
import { runStallSuite, stallMs, stopWorkers } from "./stall-suite.ts";
import type { StallSubject } from "./stall-suite.ts";

let server: PostgresServer;
let schemas = 0;

beforeAll(async () => {
  // Commits can wait for a standby only where there might be one.
  const standby = ["wal_level=replica", "max_wal_senders=1", "synchronous_commit=on"];
  server = await startPostgres({ settings: ["shared_buffers=32MB", ...standby] });
  return () => server.stop();
});

const stalledBy = (stall: (schema: string) => Promise<void>) => async (): Promise<StallSubject> => {
  const schema = `stall_${++schemas}`;
  const store = await openPostgresStore({ url: server.url, schema, platform: nodePlatform, poolMax: 8 });
  return { store, stall: () => stall(schema) };
};

const locking = (text: string) => async (schema: string) => {
  const stranger = new pg.Client({ connectionString: server.url });
  await stranger.connect();
  await stranger.query(`BEGIN; ${text.replaceAll("@", `${schema}.`)}`);
  await sleep(stallMs);
  await stranger.query("COMMIT");
  await stranger.end();
};

async function stopServer(): Promise<void> {
  const { pid } = server.process;
  const children = readFileSync(`/proc/${pid}/task/${pid}/children`, "utf8").trim().split(" ").map(Number);
  const all = [pid as number, ...children];
  for (const each of all) process.kill(each, "SIGSTOP");
  await sleep(stallMs);
  for (const each of all) process.kill(each, "SIGCONT");
}

/** Every commit waits for a standby that does not exist, until nobody asks for it any more. */
async function delayCommits(): Promise<void> {
  const admin = new pg.Client({ connectionString: server.url });
  await admin.connect();
  const waitFor = async (standby: string): Promise<void> => {
    await admin.query(`ALTER SYSTEM SET synchronous_standby_names = '${standby}'`);
    await admin.query("SELECT pg_reload_conf()");
  };
  await waitFor("nobody");
  await sleep(stallMs);
  const { rowCount } = await admin.query("SELECT 1 FROM pg_stat_activity WHERE wait_event = 'SyncRep'");
  expect(rowCount).toBeGreaterThan(0);
  await waitFor("");
  await admin.end();
}

/** Strangers who take the leased rows in either order: again and again some call of ours loses a deadlock. */
async function deadlock(schema: string): Promise<void> {
  const endUs = nodePlatform.monotonicUs() + stallMs * 1000;
  const stranger = async (order: "ASC" | "DESC"): Promise<void> => {
    const client = new pg.Client({ connectionString: server.url });
    await client.connect();
    while (nodePlatform.monotonicUs() < endUs) {
      const take = (direction: string): string =>
        `SELECT 1 FROM (SELECT seq FROM ${schema}.leased ORDER BY seq ${direction} LIMIT 5) s
          JOIN ${schema}.leased USING (seq) FOR UPDATE OF leased`;
      await client
        .query(
          `BEGIN; ${take(order)}; SELECT pg_sleep(0.2); ${take(order === "ASC" ? "DESC" : "ASC")}; COMMIT`,
        )
        .catch(() => client.query("ROLLBACK"));
    }
    await client.end();
  };
  await Promise.all([stranger("ASC"), stranger("DESC")]);
}

runStallSuite(
  {
    "a lock on the table of leases": stalledBy(locking("LOCK TABLE @leased IN ACCESS EXCLUSIVE MODE")),
    "locks on all leased rows": stalledBy(locking("SELECT 1 FROM @leased FOR UPDATE")),
    "deadlocks over leased rows": stalledBy(deadlock),
    "commits that wait": stalledBy(delayCommits),
    "a server that stood still": stalledBy(stopServer),
    "a process with workers that stood still": stalledBy(stopWorkers),
  },
  process.platform === "linux" ? null : "the children of a process are found in /proc",
);
