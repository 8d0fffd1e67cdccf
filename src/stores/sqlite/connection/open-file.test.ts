import { mkdirSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { DatabaseSync } from "node:sqlite";
import { afterEach, beforeEach, describe, expect, it } from "vitest";
import { isMillraceError } from "../../../model/error.ts";
import { nodePlatform } from "../../../platform/node-platform.ts";
import { openSqliteStore } from "../sqlite-store.ts";
import type { SqliteOptions } from "../sqlite-store.ts";

let folder = "";
let path = "";
beforeEach(() => {
  folder = mkdtempSync(join(tmpdir(), "millrace-open-"));
  path = join(folder, "jobs.db");
});
afterEach(() => rmSync(folder, { recursive: true, force: true }));

const open = (given: Partial<SqliteOptions> = {}) =>
  openSqliteStore({ path, platform: nodePlatform, ...given });

async function refusal(given: Partial<SqliteOptions> = {}): Promise<string> {
  try {
    await (await open(given)).close();
  } catch (error) {
    if (isMillraceError(error)) return error.code;
    throw error;
  }
  return "opened";
}

describe("opening a file", () => {
  it("refuses a folder that does not exist, without making it", async () => {
    expect(await refusal({ path: join(folder, "none", "jobs.db") })).toBe("store-unavailable");
  });

  it("waits for a process that is just making the file, of which nothing can be read", async () => {
    const maker = new DatabaseSync(path);
    maker.exec("CREATE TABLE users (name TEXT); BEGIN EXCLUSIVE");
    const opening = open();
    await new Promise<void>((resolve) => void nodePlatform.setTimer(30, resolve));
    maker.exec("COMMIT");
    maker.close();
    const store = await opening;
    expect(await store.countJobs()).toEqual([]);
    await store.close();
  });

  it("refuses a folder in the place of the file", async () => {
    mkdirSync(path);
    expect(await refusal()).toBe("store-unavailable");
  });

  it("refuses a file that is no database and leaves every byte of it", async () => {
    for (const text of ["hello", "SQLite format 2\0".padEnd(4096, "x")]) {
      writeFileSync(path, text);
      expect(await refusal()).toBe("not-a-store");
      expect(readFileSync(path, "latin1")).toBe(text);
    }
  });

  it("refuses a database that is damaged behind its header", async () => {
    writeFileSync(path, "SQLite format 3\0".padEnd(8192, "\xff"), "latin1");
    expect(["not-a-store", "store-corrupt"]).toContain(await refusal());
  });

  it("opens an empty file, and one with tables of the user's own", async () => {
    writeFileSync(path, "");
    expect(await refusal()).toBe("opened");
    const own = new DatabaseSync(join(folder, "own.db"));
    own.exec("CREATE TABLE job (id); INSERT INTO job VALUES (1)");
    own.close();
    expect(await refusal({ path: join(folder, "own.db") })).toBe("opened");
  });

  it("refuses the tables of a newer version and writes nothing", async () => {
    const newer = new DatabaseSync(path);
    newer.exec(
      "CREATE TABLE millrace_meta (name TEXT PRIMARY KEY, value); INSERT INTO millrace_meta VALUES ('schema_version', 99)",
    );
    newer.close();
    const before = readFileSync(path);
    expect(await refusal()).toBe("schema-newer");
    expect(readFileSync(path).equals(before)).toBe(true);
  });

  it("lets several open one new file at once, and migrates it once", async () => {
    const stores = await Promise.all([
      open(),
      open({ executor: "thread" }),
      open(),
      open({ durability: "relaxed" }),
    ]);
    const descriptions = await Promise.all(stores.map((store) => store.describe()));
    expect(new Set(descriptions.map(({ schemaVersion, epoch }) => `${schemaVersion} ${epoch}`))).toEqual(
      new Set(["1 1"]),
    );
    await Promise.all(stores.map((store) => store.close()));
  });

  it("gives up on a new file that another process keeps locked", async () => {
    const other = new DatabaseSync(path);
    other.exec("PRAGMA journal_mode = WAL; BEGIN IMMEDIATE");
    expect(await refusal({ busyTimeoutMs: 60 })).toBe("migration-running");
    other.exec("ROLLBACK");
    other.close();
    expect(await refusal()).toBe("opened");
  });

  it("gives strict durability unless the options say otherwise, and says what it gives", async () => {
    const strict = await open();
    expect(await strict.describe()).toMatchObject({
      durability: "strict",
      warnings: [],
      capabilities: { transactions: true, processes: "many" },
    });
    await strict.close();
    const relaxed = await open({ durability: "relaxed" });
    const { durability, warnings } = await relaxed.describe();
    expect([durability, warnings.length]).toEqual(["relaxed", 1]);
    await relaxed.close();
    const memory = await open({ path: ":memory:" });
    expect(await memory.describe()).toMatchObject({
      durability: "memory",
      capabilities: { transactions: false, processes: "one" },
    });
    await memory.close();
  });
});

describe("the epoch", () => {
  const boot = (id: string | null) => ({
    platform: { ...nodePlatform, bootId: () => id },
    durability: "relaxed" as const,
  });
  async function epochOf(given: Partial<SqliteOptions>, isClosed: boolean): Promise<number> {
    const store = await open(given);
    const { epoch } = await store.describe();
    if (isClosed) await store.close();
    return epoch;
  }

  it("stays while relaxed openers close cleanly or the machine goes on running", async () => {
    expect(await epochOf(boot("a"), true)).toBe(1);
    expect(await epochOf(boot("b"), false)).toBe(1);
    expect(await epochOf(boot("b"), true)).toBe(1);
  });

  it("grows once after a relaxed opener was cut off by the end of the machine", async () => {
    expect(await epochOf(boot("a"), false)).toBe(1);
    expect(await epochOf(boot("b"), true)).toBe(2);
    expect(await epochOf(boot("c"), true)).toBe(2);
  });

  it("grows after an unclean end where it is not known whether the machine stopped", async () => {
    expect(await epochOf(boot(null), false)).toBe(1);
    expect(await epochOf(boot(null), true)).toBe(2);
  });

  it("is not touched by strict openers that were killed", async () => {
    expect(await epochOf({ ...boot("a"), durability: "strict" }, false)).toBe(1);
    expect(await epochOf({ ...boot("b"), durability: "strict" }, true)).toBe(1);
  });
});
