// Signals that come with something else: in the caller's transaction, with the start of their run, or to many runs.
import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { DatabaseSync } from "node:sqlite";
import { afterEach, beforeEach, expect, test } from "vitest";
import { z } from "zod";
import { handler, job, Millrace } from "../../src/index.ts";
import { MillraceError } from "../../src/model/error.ts";
import { nodePlatform } from "../../src/platform/node-platform.ts";
import { openSqliteStore } from "../../src/stores/sqlite/sqlite-store.ts";
import { millOn } from "../support/mill-on.ts";

const order = job("order", {
  input: z.object({ id: z.number() }),
  signals: { paid: z.object({ ref: z.string() }) },
  durable: { version: 1 },
});
const plain = job<null>("plain");

let folder: string;
let mill: Millrace;

beforeEach(async () => {
  folder = mkdtempSync(join(tmpdir(), "millrace-signals-"));
  mill = await Millrace.open(`sqlite:${join(folder, "jobs.db")}`, { log: false });
});
afterEach(async () => {
  await mill.close();
  rmSync(folder, { recursive: true, force: true });
});

const work = () =>
  mill.work([
    handler(plain, () => {}),
    handler(order, async ({ step }) => {
      const paid = await step.waitFor("paid");
      return paid.value.ref;
    }),
  ]);

test("a signal that starts its run tells the truth, whichever reply is lost", async () => {
  const store = await openSqliteStore({ path: ":memory:", platform: nodePlatform });
  const lost = new MillraceError("outcome-unknown", "The reply was lost.");
  const away = new MillraceError("store-unavailable", "The store is away.");
  let submits = 0;
  const unheard = millOn({
    ...store,
    submit: async (units) => {
      const answer = await store.submit(units);
      if (submits++ === 0) throw lost;
      return answer;
    },
    putDocs: () => Promise.reject(away),
  });
  const begun = (id: string) => order.with({ id: 1 }, { id });
  expect(await unheard.signal(begun("a"), "paid", { ref: "r" }, { key: "k" })).toEqual({ kind: "buffered" });
  expect(submits).toBe(2);

  const cutOff = millOn({ ...store, changeIf: () => Promise.reject(away) }, { giveUp: 100 });
  await expect(cutOff.signal(begun("b"), "paid", { ref: "r" }, { key: "k" })).rejects.toMatchObject({
    ...{ code: "outcome-unknown", outcome: "unknown", ids: ["b"] },
  });
  const told = millOn(store);
  expect((await told.runs.get("a"))?.unread).toHaveLength(1);
  expect((await told.jobs.get("b"))?.state).toBe("ready");
  await told.close();
});

test("a signal of the caller's transaction comes with its commit, and not after a rollback", async () => {
  const run = await mill.enqueue(order, { id: 1 });
  const database = new DatabaseSync(join(folder, "jobs.db"));
  await work();
  database.exec("BEGIN IMMEDIATE");
  await mill.in(database).signal(run.id, "paid", { ref: "rolled back" });
  database.exec("ROLLBACK");
  database.exec("BEGIN IMMEDIATE");
  await mill.in(database).signal(run.id, "paid", { ref: "committed" }, { key: "k" });
  database.exec("COMMIT");
  expect(await run.result()).toBe("committed");
  database.exec("BEGIN IMMEDIATE");
  const id = await mill.in(database).signal(order.with({ id: 2 }), "paid", { ref: "with its run" });
  database.exec("COMMIT");
  database.close();
  expect(await mill.handle(order, id).result()).toBe("with its run");
});

test("a signal to a business key comes with the commit too, once by its key", async () => {
  const run = await mill.enqueue(order, { id: 1 });
  const database = new DatabaseSync(join(folder, "jobs.db"));
  await mill.work([
    handler(order, async ({ step }) => {
      const [one, other] = await Promise.all([
        step.waitFor("paid", { key: "pay-1" }),
        step.waitFor("paid", { key: "pay-1" }),
      ]);
      return [one.value.ref, other.value.ref].toSorted().join(" ");
    }),
  ]);
  const send = (ref: string, key: string) =>
    mill.in(database).signal({ key: "pay-1" }, "paid", { ref }, { key });
  const transact = async (end: string, refs: readonly [ref: string, key: string][]): Promise<void> => {
    database.exec("BEGIN IMMEDIATE");
    for (const [ref, key] of refs) expect(await send(ref, key)).toBe("pay-1");
    database.exec(end);
  };
  await transact("ROLLBACK", [["rolled back", "e-1"]]);
  await transact("COMMIT", [
    ["first", "e-1"],
    ["first again", "e-1"],
  ]);
  await transact("COMMIT", [
    ["first again", "e-1"],
    ["second", "e-2"],
  ]);
  database.close();
  expect(await run.result()).toBe("first second");
});

test("a signal starts its run, and the same signal again starts no second one", async () => {
  const submission = order.with({ id: 1 }, { id: "order-1" });
  const first = await mill.signal(submission, "paid", { ref: "visa" }, { key: "event" });
  expect(first.kind).toBe("buffered");
  expect((await mill.signal(submission, "paid", { ref: "visa" }, { key: "event" })).kind).toBe("duplicate");
  expect(await mill.jobs.counts()).toEqual({ default: { ready: 1 } });
  await work();
  expect(await mill.handle(order, "order-1").result()).toBe("visa");
  expect(await mill.signal(submission, "paid", { ref: "late" }, { key: "other" })).toEqual({
    kind: "refused",
    reason: "finished",
  });
});

test("with a unique key the run that holds it gets the signal", async () => {
  const submit = (ref: string) => mill.signal(order.with({ id: 1 }, { unique: "o" }), "paid", { ref });
  expect((await submit("first")).kind).toBe("buffered");
  expect((await submit("second")).kind).toBe("buffered");
  const { jobs } = await mill.jobs.list({ name: "order" });
  expect(jobs).toHaveLength(1);
  expect((await mill.runs.get(jobs[0]?.id ?? ""))?.unread).toHaveLength(2);
});

test("a broadcast reaches every run of a tag that takes the signal, and says how many", async () => {
  const runs = await mill.enqueueMany(
    Array.from({ length: 30 }, (_, id) => order.with({ id }, { tags: ["tenant:1"] })),
  );
  const other = await mill.enqueue(order, { id: 99 }, { tags: ["tenant:2"] });
  await mill.enqueue(plain, null, { tags: ["tenant:1"], delay: "1h" });
  expect(await mill.broadcast({ tag: "tenant:1" }, "paid", { ref: "all" }, { key: "b" })).toEqual({
    runs: 30,
  });
  await work();
  expect(await Promise.all(runs.map((run) => run.result()))).toEqual(runs.map(() => "all"));
  expect((await mill.runs.get(other.id))?.unread ?? []).toEqual([]);
});

test("wrong calls are refused with a code before anything is written", async () => {
  const refused = (call: Promise<unknown>, code: string) => expect(call).rejects.toMatchObject({ code });
  await refused(mill.signal(plain.with(null), "paid", {}), "not-durable");
  await refused(mill.signal(order.with({ id: 1 }), "unpaid" as never, {}), "unknown-signal");
  await refused(mill.signal(order.with({ id: 1 }), "paid", { ref: 7 }), "invalid-input");
  await refused(
    mill.signal(order.with({ id: 1 }), "paid", { ref: "x".repeat(2 ** 21) }),
    "payload-too-large",
  );
  await refused(mill.broadcast({} as never, "paid", {}), "invalid-option");
  await refused(mill.broadcast({ tag: "a", flow: "b" } as never, "paid", {}), "invalid-option");
  expect(await mill.jobs.counts()).toEqual({});
});
