/**
 * Trouble that a real server makes: connections refused, deadlocks, serialisation failures, read-only mode. Each ends
 * as an error that says what happened, or is repeated and ends well; nothing of a refused call is written. The server
 * is this file's own.
 */
import { readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import pg from "pg";
import { afterAll, afterEach, beforeAll, beforeEach, expect, onTestFinished, test } from "vitest";
import type { Millrace } from "../../src/client/millrace.ts";
import { job } from "../../src/engine/submit/job-definition.ts";
import { nodePlatform } from "../../src/platform/node-platform.ts";
import type { Store } from "../../src/store/store.ts";
import { openPostgresStore } from "../../src/stores/postgres/postgres-store.ts";
import { handler } from "../../src/worker/handler.ts";
import { say } from "../cli/run-millrace.ts";
import { aDoc, aJob } from "../support/builders.ts";
import { startPostgres } from "../support/servers/postgres-server.ts";
import type { PostgresServer } from "../support/servers/postgres-server.ts";
import { answers, until } from "../support/until.ts";
import { millOn } from "../support/mill-on.ts";
import { hangMs } from "../support/hang-ms.ts";

let server: PostgresServer;
let admin: pg.Client;
let store: Store;
let schemas = 0;
let schema: string;
beforeAll(async () => {
  server = await startPostgres({ settings: ["deadlock_timeout=300ms", "shared_buffers=16MB"] });
  admin = new pg.Client({ connectionString: server.url });
  await admin.connect();
  await admin.query("CREATE ROLE app LOGIN; GRANT CREATE ON DATABASE postgres TO app");
});
afterAll(async () => {
  await admin.end();
  await server.stop();
});
const appUrl = (): string => server.url.replace("postgres@", "app@");
beforeEach(async () => {
  schema = `case_${++schemas}`;
  store = await openPostgresStore({ url: appUrl(), schema, platform: nodePlatform, poolMax: 5 });
});
afterEach(() => store.close());

const count = async (): Promise<number> =>
  (await admin.query(`SELECT 1 FROM ${schema}.waiting`)).rowCount ?? 0;

function openMill(): Millrace {
  return millOn(store, { giveUp: hangMs });
}

test("when the server takes no more connections, a call says so and did not happen, and an enqueue waits for one", async () => {
  onTestFinished(async () => void (await admin.query("ALTER ROLE app CONNECTION LIMIT -1")));
  await admin.query("ALTER ROLE app CONNECTION LIMIT 2");
  const other = new pg.Client({ connectionString: appUrl() });
  await other.connect();
  const calls = Array.from({ length: 4 }, (_, index) =>
    store.submit([{ jobs: [aJob({ id: `job-${index}` })] }]),
  );
  const ends = await Promise.allSettled(calls);
  const refused = ends.filter((end) => end.status === "rejected");
  expect(refused.length).toBeGreaterThan(0);
  for (const { reason } of refused)
    expect(reason).toMatchObject({
      code: "too-many-connections",
      retryable: true,
      outcome: "did-not-happen",
    });
  const made = calls.length - refused.length;
  expect(await count()).toBe(made);

  const mill = openMill();
  const waiting = mill.enqueueMany([job<number>("plain").with(1), job<number>("plain").with(2)]);
  await other.end();
  await waiting;
  expect(await count()).toBe(made + 2);
});

test("a call that loses a deadlock is repeated and ends well", async () => {
  await store.putDocs([aDoc("a", "1"), aDoc("b", "1")]);
  const lock = (id: string): Promise<unknown> =>
    admin.query(`SELECT 1 FROM ${schema}.doc WHERE id = '${id}' FOR UPDATE`);
  // Between its two documents the call waits for this gate, so that the circle is closed by the call and by nobody
  // else: whoever looks for a deadlock looks once, some time after its own wait began.
  const gate = new pg.Client({ connectionString: server.url });
  await gate.connect();
  onTestFinished(() => gate.end());
  await gate.query(`SELECT pg_advisory_lock(1);
    CREATE FUNCTION ${schema}.wait() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN PERFORM pg_advisory_xact_lock(1); RETURN NEW; END $$;
    CREATE TRIGGER wait BEFORE UPDATE ON ${schema}.doc FOR EACH ROW WHEN (OLD.id = 'a') EXECUTE FUNCTION ${schema}.wait()`);
  const waits = (user: string): Promise<void> =>
    until(`${user} waits for a lock`, async () => {
      const text = "SELECT 1 FROM pg_stat_activity WHERE wait_event_type = 'Lock' AND usename = $1";
      return (await gate.query(text, [user])).rowCount === 1;
    });
  // The patient one: the call finds the deadlock first and is the one that is ended.
  await admin.query("BEGIN; SET LOCAL deadlock_timeout = '60s'");
  await lock("b");
  const put = store.putDocs([aDoc("a", "2"), aDoc("b", "2")]);
  await waits("app");
  const locked = lock("a");
  await waits("postgres");
  await gate.query("SELECT pg_advisory_unlock(1)");
  // Only the end of the call's transaction lets this come back before its commit.
  await locked;
  await admin.query("COMMIT");
  expect(await put).toEqual([
    { kind: "ok", version: 2 },
    { kind: "ok", version: 2 },
  ]);
});

test("a serialisation failure is repeated; one that does not end is reported as busy, and nothing was written", async () => {
  const failTimes = (times: number): Promise<unknown> =>
    admin.query(`CREATE SEQUENCE ${schema}.fails; GRANT USAGE ON ${schema}.fails TO app;
      CREATE FUNCTION ${schema}.fail() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN
        IF nextval('${schema}.fails') <= ${times} THEN RAISE EXCEPTION USING ERRCODE = '40001'; END IF; RETURN NEW; END $$;
      CREATE TRIGGER fail BEFORE INSERT ON ${schema}.waiting FOR EACH ROW EXECUTE FUNCTION ${schema}.fail()`);
  await failTimes(3);
  expect(await store.submit([{ jobs: [aJob({ id: "a" })] }])).toEqual([
    { kind: "ok", ids: ["a"], hows: ["created"] },
  ]);
  await admin.query(`DROP FUNCTION ${schema}.fail CASCADE; DROP SEQUENCE ${schema}.fails`);
  await failTimes(1000);
  await expect(store.submit([{ jobs: [aJob({ id: "b" })] }])).rejects.toMatchObject({
    code: "store-busy",
    retryable: true,
    outcome: "did-not-happen",
  });
  await admin.query(`DROP FUNCTION ${schema}.fail CASCADE`);
  expect(await count()).toBe(1);
});

test("in read-only mode an enqueue is refused by name, and workers go on when it is over", async () => {
  const mill = openMill();
  const plain = job<number, number>("plain", { retry: { backoff: 0 } });
  const gate = Promise.withResolvers<void>();
  const began = Promise.withResolvers<void>();
  const run = handler(plain, async ({ input }) => {
    began.resolve();
    await gate.promise;
    return input;
  });
  await mill.work([run], { lease: "2s" });
  const early = await mill.enqueue(plain, 1);
  await began.promise;
  const setReadOnly = async (word: "on" | "off"): Promise<void> => {
    await admin.query(`ALTER SYSTEM SET default_transaction_read_only = ${word}`);
    await admin.query("SELECT pg_reload_conf()");
    const asked = async (): Promise<boolean> => {
      const { rows } = await admin.query("SHOW default_transaction_read_only");
      return (rows[0] as Record<string, string>)["default_transaction_read_only"] === word;
    };
    await until(`read-only is ${word}`, asked);
  };
  await setReadOnly("on");
  await until("the store's connections know", async () => {
    const end = await mill.enqueue(plain, 2).then(
      () => null,
      (error: unknown) => error,
    );
    if (end !== null) expect(end).toMatchObject({ code: "store-read-only", outcome: "did-not-happen" });
    return end !== null;
  });
  await expect(openPostgresStore({ url: appUrl(), platform: nodePlatform })).rejects.toMatchObject({
    code: "store-read-only",
  });
  gate.resolve();
  await setReadOnly("off");
  expect(await early.result({ timeout: hangMs })).toBe(1);
  expect(await (await mill.enqueue(plain, 3)).result({ timeout: hangMs })).toBe(3);
  await mill.close();
});

test("a wrong password and a missing one are refused by name, and no error shows it", async () => {
  const file = join(server.folder, "data", "pg_hba.conf");
  writeFileSync(file, `host all guarded 127.0.0.1/32 scram-sha-256\n${readFileSync(file, "utf8")}`);
  await admin.query(
    "CREATE ROLE guarded LOGIN PASSWORD 'right'; GRANT CREATE ON DATABASE postgres TO guarded",
  );
  await admin.query("SELECT pg_reload_conf()");
  const urlWith = (password: string): string => server.url.replace("postgres@", `guarded:${password}@`);
  await until("the server asks for a password", async () => {
    const client = new pg.Client({ connectionString: urlWith("any") });
    return client.connect().then(
      () => client.end().then(() => false),
      () => true,
    );
  });
  for (const command of [["list"], ["migrate"], ["doctor"]]) {
    const { code, err } = await say([...command, "--store", `${urlWith("wrong-secret")}?schema=guarded`]);
    expect(err).toMatch(/^millrace: store-denied: .*password/);
    expect(err).not.toContain("wrong-secret");
    expect(code).toBe(1);
  }
  const without = server.url.replace("postgres@", "guarded@");
  await expect(openPostgresStore({ url: without, platform: nodePlatform })).rejects.toMatchObject({
    code: "store-denied",
    message: expect.stringContaining("the URL has none") as string,
  });
  expect((await say(["migrate", "--store", `${urlWith("right")}?schema=guarded`])).code).toBe(0);
});

test("doctor looks at a server without fsync, and says what that costs", async () => {
  const set = async (word: "on" | "off"): Promise<void> => {
    for (const name of ["fsync", "synchronous_commit"])
      await admin.query(`ALTER SYSTEM SET ${name} = ${word}`);
    await admin.query("SELECT pg_reload_conf()");
    await until(`fsync is ${word}`, async () => (await admin.query("SHOW fsync")).rows[0]?.fsync === word);
  };
  await set("off");
  onTestFinished(() => set("on"));
  const url = `${appUrl()}?schema=${schema}`;
  const { code, out } = await say(["doctor", "--store", url]);
  expect(out).toMatch(/opened as relaxed\n/);
  expect(out).toMatch(/FINDING +settings: fsync is off/);
  expect(out).toMatch(/FINDING +settings: synchronous_commit is off/);
  expect(code).toBe(1);
  expect((await say(["enqueue", "a", "--store", url])).err).toMatch(
    /^millrace: durability-refused: .*fsync off/,
  );
});

test("the caller's own transaction is taken before and after a restart of the server", async () => {
  const other = await startPostgres({ settings: ["shared_buffers=16MB"] });
  onTestFinished(() => other.stop());
  const own = await openPostgresStore({ url: other.url, platform: nodePlatform });
  onTestFinished(() => own.close());
  for (const id of ["before", "after"]) {
    const client = new pg.Client({ connectionString: other.url });
    client.on("error", () => undefined);
    await client.connect();
    await client.query("BEGIN");
    await own.inTransaction(client).submit([{ jobs: [aJob({ id })] }]);
    await client.query("COMMIT");
    await client.end();
    if (id === "before") await other.restart();
    await until("the store answers", () => answers(own));
  }
  expect((await own.readJobs(["before", "after"])).map((each) => each?.state)).toEqual(["ready", "ready"]);
});
