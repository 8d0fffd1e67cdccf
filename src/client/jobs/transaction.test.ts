import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { DatabaseSync } from "node:sqlite";
import { afterEach, beforeEach, describe, expect, test } from "vitest";
import { z } from "zod";
import { job } from "../../engine/submit/job-definition.ts";
import { limit } from "../../engine/limits/limit-definition.ts";
import { topic } from "../../engine/topics/topic-definition.ts";
import { openMillrace } from "../../open.ts";
import { handler } from "../../worker/handler.ts";
import type { Millrace } from "../millrace.ts";
import { hangMs } from "../../../test/support/hang-ms.ts";

const plain = job<{ n: number }, string>("plain", { retry: { backoff: 0 } });
const coded = (code: string) => expect.objectContaining({ code });

describe.each(["inline", "thread"] as const)("the caller's own transaction (%s)", (executor) => {
  let folder: string;
  let mill: Millrace;
  let db: DatabaseSync;
  beforeEach(async () => {
    folder = mkdtempSync(join(tmpdir(), "millrace-"));
    mill = await openMillrace(`sqlite:${join(folder, "app.db")}`, { sqlite: { executor }, log: false });
    db = new DatabaseSync(join(folder, "app.db"), { timeout: 5000 });
    db.exec("CREATE TABLE users (id INTEGER PRIMARY KEY, name TEXT)");
  });
  afterEach(async () => {
    db.close();
    await mill.close();
    rmSync(folder, { recursive: true });
  });
  const users = (): number =>
    (db.prepare("SELECT count(*) AS count FROM users").get() as { count: number }).count;

  test("a commit leaves exactly one job, which runs; a rollback leaves none", async () => {
    const ran = Promise.withResolvers<number>();
    await mill.work([handler(plain, async ({ input }) => (ran.resolve(input.n), "ok"))]);
    db.exec("BEGIN");
    db.exec("INSERT INTO users (name) VALUES ('lost')");
    await mill.in(db).enqueue(plain, { n: 1 });
    db.exec("ROLLBACK");
    db.exec("BEGIN");
    db.exec("INSERT INTO users (name) VALUES ('kept')");
    const handle = await mill.in(db).enqueue(plain, { n: 2 });
    db.exec("COMMIT");
    expect(await ran.promise).toBe(2);
    expect(await handle.result({ timeout: hangMs })).toBe("ok");
    expect(users()).toBe(1);
    expect(await mill.jobs.counts()).toEqual({ default: { completed: 1 } });
  });

  test("a publish makes its jobs with the commit, and none with a rollback", async () => {
    const signedUp = topic<{ n: number }>("signed-up");
    for (const name of ["a", "b", "c"]) await mill.topics.subscribe(signedUp, plain, { name });
    await mill.topics.pause(signedUp, "c");
    for (const end of ["ROLLBACK", "COMMIT"]) {
      db.exec("BEGIN");
      const made = await mill.in(db).publish(signedUp, { n: 1 });
      expect(made.map(({ subscription }) => subscription)).toEqual(["a", "b"]);
      db.exec(end);
      expect(await mill.jobs.counts()).toEqual(end === "COMMIT" ? { default: { ready: 2 } } : {});
    }
    db.exec("BEGIN");
    const unknown = mill.in(db).publish(topic("nobody"), 1);
    await expect(unknown).rejects.toEqual(coded("unknown-topic"));
    db.exec("ROLLBACK");
  });

  test("a job that requires a capability waits for it after the commit", async () => {
    const serve = (who: string, capabilities: readonly string[]) =>
      mill.work([handler(plain, async () => who)], { capabilities });
    await serve("none", []);
    await serve("gpu", ["gpu"]);
    db.exec("BEGIN IMMEDIATE");
    const [able, any] = await mill
      .in(db)
      .enqueueMany([plain.with({ n: 1 }, { requires: ["gpu"] }), plain.with({ n: 2 })]);
    db.exec("COMMIT");
    expect(await able.result({ timeout: hangMs })).toBe("gpu");
    expect(["gpu", "none"]).toContain(await any.result({ timeout: hangMs }));
    expect(await mill.jobs.get(able.id)).toMatchObject({ requires: ["gpu"] });
  });

  test("a wait for a result before the commit is refused with that reason, and works after it", async () => {
    db.exec("BEGIN");
    const handle = await mill.in(db).enqueue(plain, { n: 1 });
    await expect(handle.result()).rejects.toMatchObject({ code: "not-committed", retryable: true });
    db.exec("COMMIT");
    await mill.work([handler(plain, async () => "ok")]);
    expect(await handle.result({ timeout: hangMs })).toBe("ok");
  });

  test("enqueueMany is all or nothing there too, and other calls wait without a deadlock", async () => {
    db.exec("BEGIN IMMEDIATE");
    const outside = mill.enqueue(plain, { n: 9 });
    await mill.in(db).enqueueMany([plain.with({ n: 1 }), plain.with({ n: 2 })]);
    db.exec("COMMIT");
    await outside;
    expect(await mill.jobs.counts()).toEqual({ default: { ready: 3 } });
  });

  test("a limit must be known to the store before the transaction, because it cannot be made inside", async () => {
    const slack = limit("slack", { concurrency: 1 });
    const limited = job<{ n: number }>("limited", { limits: [slack] });
    db.exec("BEGIN IMMEDIATE");
    await expect(mill.in(db).enqueue(limited, { n: 1 })).rejects.toThrow(coded("unknown-limit"));
    db.exec("ROLLBACK");
    await mill.limits.define(slack);
    db.exec("BEGIN IMMEDIATE");
    await mill.in(db).enqueue(limited, { n: 1 });
    db.exec("COMMIT");
    expect(await mill.jobs.counts()).toEqual({ default: { ready: 1 } });
  });

  test("a handler completes its job in the same transaction as its rows", async () => {
    let runs = 0;
    await mill.work([
      handler(plain, async ({ completeIn, attempt }) => {
        runs += 1;
        db.exec("BEGIN");
        db.exec("INSERT INTO users (name) VALUES ('once')");
        await completeIn(db, `attempt ${attempt}`);
        if (attempt === 1) {
          db.exec("ROLLBACK");
          throw new Error("rolled back");
        }
        db.exec("COMMIT");
        return `attempt ${attempt}`;
      }),
    ]);
    const handle = await mill.enqueue(plain, { n: 1 });
    expect(await handle.result({ timeout: hangMs })).toBe("attempt 2");
    expect([runs, users()]).toEqual([2, 1]);
  });

  test("a result that its schema refuses is an error in the handler, and the job is not completed", async () => {
    const typed = job("typed", { result: z.number() });
    const refusal = Promise.withResolvers<unknown>();
    await mill.work([
      handler(typed, async ({ completeIn }) => {
        db.exec("BEGIN");
        await completeIn(db, "seven").catch(refusal.resolve);
        db.exec("ROLLBACK");
        return 7;
      }),
    ]);
    const handle = await mill.enqueue(typed, {});
    expect(await refusal.promise).toEqual(coded("invalid-result"));
    expect(await handle.result({ timeout: hangMs })).toBe(7);
  });

  test("a connection without a transaction, to another file or of another kind is refused", async () => {
    expect(() => mill.in(db)).toThrow(coded("not-in-transaction"));
    const other = new DatabaseSync(":memory:");
    other.exec("BEGIN");
    expect(() => mill.in(other)).toThrow(coded("not-in-transaction"));
    other.close();
    expect(() => mill.in({} as never)).toThrow(coded("not-in-transaction"));
    expect(() => mill.in(null as never)).toThrow(coded("not-in-transaction"));
    expect(await mill.jobs.counts()).toEqual({});
  });
});
