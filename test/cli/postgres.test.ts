/**
 * The command line on Postgres: migrate, doctor, and what it says when the server, the user or the database is not the
 * right one.
 */
import { readFileSync } from "node:fs";
import { join } from "node:path";
import pg from "pg";
import { describe, expect, onTestFinished, test } from "vitest";
import { postgresFindings } from "../../src/cli/doctor/postgres-findings.ts";
import { nodePlatform } from "../../src/platform/node-platform.ts";
import { examinePostgres } from "../../src/stores/postgres/connection/examine.ts";
import { startOldPostgres } from "../support/servers/old-postgres.ts";
import { useTestDatabase } from "../support/servers/use-postgres.ts";
import { aStoreUrl, lookingCommands, millraceJson, root, say, sayJson } from "./run-millrace.ts";
import { until } from "../support/until.ts";

const database = useTestDatabase();
const storeIn = (schema: string): string => `${database.url}?schema=${schema}`;
const schemaNames = async (): Promise<unknown[]> =>
  (await database.query("SELECT nspname FROM pg_namespace")).map(({ nspname }) => nspname);

describe("migrate", () => {
  test("says what it would do, does it, and then has nothing to do", async () => {
    const store = storeIn("fresh");
    expect(await sayJson(["migrate", "--dry-run", "--store", store])).toEqual({
      from: 0,
      to: 1,
      steps: [1],
      dryRun: true,
    });
    expect(await schemaNames()).not.toContain("fresh");
    expect((await say(["migrate", "--store", store])).out).toBe(
      "there were no tables; migrated to version 1\n",
    );
    expect(await schemaNames()).toContain("fresh");
    expect((await say(["migrate", "--dry-run", "--store", store])).out).toBe(
      "the tables are of version 1: nothing to do\n",
    );
  });

  test("works on a file in the same way", async () => {
    const store = aStoreUrl();
    expect((await say(["migrate", "--dry-run", "--store", store])).out).toMatch(
      /^there are no tables yet; would migrate to version \d+; nothing was written\n$/,
    );
    await sayJson(["migrate", "--store", store]);
    expect((await say(["migrate", "--store", store])).out).toMatch(/nothing to do/);
  });

  test("refuses tables of a newer version and stores that have no migrations", async () => {
    await sayJson(["migrate", "--store", storeIn("newer")]);
    await database.query("UPDATE newer.meta SET value = '999' WHERE name = 'schema_version'");
    for (const command of [["migrate"], ["migrate", "--dry-run"], ["doctor"]]) {
      const { code, err } = await say([...command, "--store", storeIn("newer")]);
      expect(err).toMatch(/^millrace: schema-newer: .*Upgrade this process/);
      expect(code).toBe(1);
    }
    expect((await say(["migrate", "--store", "https://millrace.example"])).err).toMatch(
      /^millrace: not-yet-supported: /,
    );
  });
});

describe("a database without a store", () => {
  test.each(lookingCommands)("is refused by %j, which makes nothing there", async (...args) => {
    const before = await schemaNames();
    const { code, err } = await say([...args, "--store", storeIn("nowhere")]);
    expect(err).toMatch(
      /^millrace: store-missing: There is no store of Millrace at postgres:\/\/127\.0\.0\.1:\d+\/\w+ in the schema nowhere\. .*\n$/,
    );
    expect(code).toBe(1);
    expect(await schemaNames()).toEqual(before);
  });

  test("gets none from an enqueue whose options are refused", async () => {
    const { code, err } = await say(["enqueue", "a", "--delay", "soon", "--store", storeIn("refused")]);
    expect(err).toMatch(/^millrace: invalid-duration: /);
    expect(code).toBe(2);
    expect(await schemaNames()).not.toContain("refused");
  });
});

describe("a user who may only read", () => {
  test("lists, shows and explains, and is denied everything else", async () => {
    const { id } = (await sayJson(["enqueue", "a", "--store", storeIn("seen")])) as { id: string };
    const role = `reader_${Buffer.from(nodePlatform.randomBytes(4)).toString("hex")}`;
    // The rights are read from the page that tells people to grant them.
    const page = readFileSync(join(root, "docs/operating/postgres.md"), "utf8");
    const [grants = ""] = /GRANT USAGE ON SCHEMA millrace TO reader;[^`]*/.exec(page) ?? [];
    const rights = grants.replaceAll("TO reader", `TO ${role}`).replaceAll("SCHEMA millrace", "SCHEMA seen");
    await database.query(`CREATE ROLE ${role} LOGIN; ${rights}`);
    onTestFinished(async () => void (await database.query(`DROP OWNED BY ${role}; DROP ROLE ${role}`)));
    const url = new URL(storeIn("seen"));
    url.username = role;
    for (const command of [["list"], ["show", id], ["explain", id]]) {
      const { code, out, err } = await say([...command, "--store", url.href]);
      expect([code, err]).toEqual([0, ""]);
      expect(out).not.toBe("");
    }
    for (const command of [
      ["cancel", id],
      ["enqueue", "a"],
    ]) {
      const { code, err } = await say([...command, "--store", url.href]);
      expect(err).toMatch(/^millrace: store-denied: /);
      expect(code).toBe(1);
    }
  });
});

describe("doctor on Postgres", () => {
  test("finds nothing in a healthy store, and says what it looked at", async () => {
    const store = storeIn("healthy");
    await millraceJson(["enqueue", "send", "1", "--store", store]);
    const report = await sayJson(["doctor", "--store", store]);
    expect(report).toMatchObject({
      ok: true,
      store: { kind: "postgres", durability: "strict" },
      postgres: {
        schema: "healthy",
        schemaVersion: 1,
        knownVersion: 1,
        missing: [],
        hears: true,
        settings: { fsync: "on" },
      },
      findings: [],
    });
    expect((await say(["doctor", "--store", store])).out).toMatch(
      /server +Postgres \d+.*, \d+ of \d+ connections in use\n/,
    );
  });

  test("names missing indexes, functions and triggers, and tables full of dead rows", async () => {
    const store = storeIn("ill");
    await sayJson(["migrate", "--store", store]);
    await database.query(`DROP INDEX ill.waiting_ready; DROP FUNCTION ill.prune_kept_v1; DROP TRIGGER slip_fence ON ill.slip;
      ALTER TABLE ill.payload SET (autovacuum_enabled = off);
      INSERT INTO ill.payload SELECT number, 'x' FROM generate_series(1, 60000) number; DELETE FROM ill.payload`);
    let out = "";
    // The server counts dead rows a moment after the transaction that made them.
    await until("the server has counted them", async () => {
      ({ out } = await say(["doctor", "--store", store]));
      return out.includes("bloat");
    });
    expect(out).toMatch(/FINDING +schema: The index waiting_ready is missing/);
    expect(out).toMatch(/FINDING +schema: The function prune_kept_v1 is missing/);
    expect(out).toMatch(/FINDING +schema: The trigger slip_fence is missing/);
    expect(out).toMatch(/FINDING +bloat: The table payload holds about 60000 dead rows/);
    expect(out).toMatch(/VACUUM ill\.payload/);
    expect(out).toMatch(/4 findings\n$/);
  });

  test("names the transaction that has been open for long, and who holds it", async () => {
    const holder = new pg.Client({ connectionString: database.url, application_name: "nightly report" });
    await holder.connect();
    await holder.query("BEGIN");
    await holder.query("SELECT 'reading \u001b[2J for hours'");
    const condition = await examinePostgres({ url: database.url, platform: nodePlatform, olderThanMs: 0 });
    await holder.end();
    expect(postgresFindings(condition)).toMatchObject([
      {
        check: "transactions",
        problem: expect.stringMatching(
          /^A transaction of postgres \(process \d+, nightly report, idle in transaction\) has been open for .*reading/,
        ) as unknown,
        advice: expect.stringContaining("pg_terminate_backend(") as unknown,
      },
    ]);
  });

  test("warns of settings that cost promises, and of connections that run out", async () => {
    const healthy = await examinePostgres({ url: database.url, platform: nodePlatform, olderThanMs: 60_000 });
    const settings = { ...healthy.settings, synchronous_commit: "off", autovacuum: "off" };
    const found = postgresFindings({ ...healthy, settings, connections: { open: 95, max: 100 } });
    expect(found.map(({ check, problem }) => `${check}: ${problem.split(" ")[0]}`)).toEqual([
      "settings: synchronous_commit",
      "settings: autovacuum",
      "connections: 95",
    ]);
  });
});

describe("a place that is no store is refused in one line", () => {
  const urlWith = (change: (url: URL) => void): string => {
    const url = new URL(database.url);
    change(url);
    return url.href;
  };
  const places: [title: string, url: () => string, sentence: RegExp][] = [
    [
      "no server there",
      () => urlWith((url) => void (url.port = "1")),
      /^millrace: store-unavailable: .*127\.0\.0\.1:1 /,
    ],
    [
      "no such database",
      () => urlWith((url) => void (url.pathname = "/nowhere")),
      /^millrace: store-missing: .*nowhere/,
    ],
    ["no such user", () => urlWith((url) => void (url.username = "nobody")), /^millrace: store-denied: /],
    [
      "a URL that is none",
      () => "postgres://",
      /^millrace: (store-unavailable|unknown-store|store-denied): /,
    ],
    ["a port that is none", () => "postgres://a@b:99999/c", /^millrace: unknown-store: /],
    [
      "a schema that is no name",
      () => `${database.url}?schema=a%22b`,
      /^millrace: invalid-option: schema must be/,
    ],
  ];

  test.each(places)("%s", async (_title, url, sentence) => {
    for (const command of [["list"], ["enqueue", "a"], ["migrate"], ["migrate", "--dry-run"], ["doctor"]]) {
      const { code, err, out } = await say([...command, "--store", url()]);
      expect(err).toMatch(sentence);
      expect([
        out,
        err
          .trimEnd()
          .split("\n")
          .filter((line) => !line.startsWith("Try: ")),
      ]).toEqual(["", [expect.any(String)]]);
      expect(code).toBeGreaterThan(0);
    }
  });

  test("a server older than 14", async () => {
    const old = await startOldPostgres();
    const { code, err } = await say(["enqueue", "a", "--store", old.url]);
    await old.close();
    expect(err).toMatch(/^millrace: store-too-old: .* is Postgres 13; Millrace needs 14 or newer\.\n$/);
    expect(code).toBe(1);
    expect(old.asked.every((text) => text.startsWith("SELECT"))).toBe(true);
  });
});
