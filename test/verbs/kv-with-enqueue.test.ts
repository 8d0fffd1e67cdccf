// KV writes in the step that makes a job: both happen or neither does.
import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { DatabaseSync } from "node:sqlite";
import pg from "pg";
import { beforeEach, describe, expect, onTestFinished, test } from "vitest";
import { handler, job, Millrace } from "../../src/index.ts";
import type { Store } from "../../src/store/store.ts";
import { closeAfterEach } from "../support/close-after-each.ts";
import { millOn } from "../support/mill-on.ts";
import { usePlaces } from "../support/servers/use-places.ts";
import { useTestDatabase } from "../support/servers/use-postgres.ts";

const plain = job<number, number>("plain", { retry: { backoff: 0 } });
const coded = (code: string) => expect.objectContaining({ code });
const closeLater = closeAfterEach();

describe.each(usePlaces())("KV writes with an enqueue, on %s", (_title, place) => {
  let store: Store;
  let mill: Millrace;
  beforeEach(async () => {
    store = await place()();
    mill = closeLater(millOn(store));
  });
  const counts = () => mill.jobs.counts();

  test("happen with the job, whichever partition the entries lie in", async () => {
    for (let n = 0; n < 8; n++) {
      const key = `seen-${n}`;
      const handle = await mill.enqueue(plain, n, { kv: [{ key, value: { job: n } }] });
      expect(await mill.kv.getEntry(key)).toMatchObject({
        key,
        value: { job: n },
        version: expect.any(Number),
      });
      expect(await mill.jobs.get(handle.id)).toMatchObject({ input: n, state: "ready" });
    }
    await mill.enqueue(plain, 8, { kv: [{ key: "seen-0", delete: true }] });
    expect(await mill.kv.get("seen-0")).toBeUndefined();
  });

  test("that do not find their version refuse the job with them", async () => {
    const version = await mill.kv.put("total-{7}", 1);
    const kv = [
      { key: "total-{7}", value: 2, version: version + 1 },
      { key: "other-{7}", value: true },
    ];
    await expect(mill.enqueue(plain, 1, { kv })).rejects.toEqual(coded("version-conflict"));
    expect(await mill.kv.get("total-{7}")).toBe(1);
    expect(await mill.kv.get("other-{7}")).toBeUndefined();
    expect(await counts()).toEqual({});
    const claims = await Promise.allSettled(
      [1, 2].map((n) => mill.enqueue(plain, n, { kv: [{ key: "claim", value: n, version: 0 }] })),
    );
    expect(claims.filter(({ status }) => status === "fulfilled")).toHaveLength(1);
    expect(await counts()).toEqual({ default: { ready: 1 } });
  });

  test("of several jobs happen together, or none of them", async () => {
    const submissions = [
      plain.with(1, { kv: [{ key: "a-{1}", value: 1 }] }),
      plain.with(2, { kv: [{ key: "b-{1}", value: 2, version: 0 }] }),
    ];
    await mill.enqueueMany(submissions);
    expect([await mill.kv.get("a-{1}"), await mill.kv.get("b-{1}")]).toEqual([1, 2]);
    await expect(mill.enqueueMany(submissions)).rejects.toEqual(coded("version-conflict"));
    expect(await counts()).toEqual({ default: { ready: 2 } });
  });

  test("are not made again by the repeat of an enqueue that has happened", async () => {
    const { id } = await mill.enqueue(plain, 1, { kv: [{ key: "left", value: 1 }] });
    await mill.kv.put("left", 2);
    const kv = [{ key: "left", value: 1 }];
    expect(await mill.enqueue(plain, 1, { repeatOf: id, kv })).toMatchObject({ id, how: "existing" });
    expect(await mill.kv.get("left")).toBe(2);
  });

  test("of a follow-up happen with the end of the job that asks for it", async () => {
    const first = job<null>("first");
    const ended = Promise.withResolvers<unknown>();
    await mill.work([
      handler(first, async ({ id, enqueue }) => {
        enqueue(plain, 3, { kv: [{ key: "follow-{1}", value: id }] });
        expect(await mill.kv.get("follow-{1}")).toBeUndefined();
      }),
      handler(plain, async ({ input }) => {
        ended.resolve([input, await mill.kv.get("follow-{1}")]);
        return input;
      }),
    ]);
    const { id } = await mill.enqueue(first, null, { id: "first-{1}" });
    expect(await ended.promise).toEqual([3, id]);
  });
});

describe("KV writes with an enqueue", () => {
  test.each<[string, unknown]>([
    ["no list", { key: "a", value: 1 }],
    ["no key", [{ value: 1 }]],
    ["no value", [{ key: "a" }]],
    ["a value and a delete", [{ key: "a", value: 1, delete: true }]],
    ["an unknown field", [{ key: "a", valeu: 1 }]],
    ["a bad version", [{ key: "a", value: 1, version: -1 }]],
    [
      "a key twice",
      [
        { key: "a", value: 1 },
        { key: "a", delete: true },
      ],
    ],
  ])("are refused before any write if there is %s", async (_what, kv) => {
    const mill = closeLater(await Millrace.open("sqlite::memory:", { log: false }));
    const refused = mill.enqueue(plain, 1, { kv: kv as never });
    await expect(refused).rejects.toEqual(expect.objectContaining({ outcome: "did-not-happen" }));
    await expect(refused).rejects.toThrow(/kv/);
    expect(await mill.jobs.counts()).toEqual({});
  });

  test("are no matter of an enqueue middleware", async () => {
    const mill = closeLater(
      await Millrace.open("sqlite::memory:", {
        log: false,
        middleware: [(given, next) => next({ ...given, options: { kv: [{ key: "a", value: 1 }] } })],
      }),
    );
    await expect(mill.enqueue(plain, 1)).rejects.toEqual(coded("invalid-option"));
  });
});

const key = "orders";
const kv = [{ key, value: 1 }];

test("on SQLite, KV writes with an enqueue commit and roll back with the caller's rows", async () => {
  const folder = mkdtempSync(join(tmpdir(), "millrace-kv-"));
  onTestFinished(() => rmSync(folder, { recursive: true }));
  const mill = closeLater(await Millrace.open(`sqlite:${join(folder, "app.db")}`, { log: false }));
  const db = new DatabaseSync(join(folder, "app.db"), { timeout: 5000 });
  onTestFinished(() => db.close());
  for (const end of ["ROLLBACK", "COMMIT"]) {
    db.exec("BEGIN");
    await mill.in(db).enqueue(plain, 1, { kv });
    db.exec(end);
    expect(await mill.kv.get(key)).toBe(end === "COMMIT" ? 1 : undefined);
    expect(await mill.jobs.counts()).toEqual(end === "COMMIT" ? { default: { ready: 1 } } : {});
  }
  db.exec("BEGIN");
  const refused = mill.in(db).enqueue(plain, 1, { kv: [{ key, value: 2, version: 0 }] });
  await expect(refused).rejects.toEqual(coded("version-conflict"));
  db.exec("ROLLBACK");
});

describe("on Postgres", () => {
  const database = useTestDatabase();

  test("KV writes with an enqueue commit and roll back with the caller's rows", async () => {
    const mill = closeLater(await Millrace.open(database.url, { log: false }));
    const client = new pg.Client(database.url);
    await client.connect();
    onTestFinished(() => client.end());
    for (const end of ["ROLLBACK", "COMMIT"]) {
      await client.query("BEGIN");
      await mill.in(client).enqueue(plain, 1, { kv });
      await client.query(end);
      expect(await mill.kv.get(key)).toBe(end === "COMMIT" ? 1 : undefined);
      expect(await mill.jobs.counts()).toEqual(end === "COMMIT" ? { default: { ready: 1 } } : {});
    }
    await client.query("BEGIN");
    const refused = mill.in(client).enqueue(plain, 1, { kv: [{ key, value: 2, version: 0 }] });
    await expect(refused).rejects.toEqual(coded("version-conflict"));
    await client.query("ROLLBACK");
  });
});
