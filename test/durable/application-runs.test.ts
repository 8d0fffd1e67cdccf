// Durable jobs as an application has them: with its own transactions, in its own tests, and many at once.
import { mkdtempSync, rmSync } from "node:fs";
import { DatabaseSync } from "node:sqlite";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { setFlagsFromString } from "node:v8";
import { runInNewContext } from "node:vm";
import { afterAll, expect, test } from "vitest";
import { z } from "zod";
import { handler, job, Millrace } from "../../src/index.ts";
import { testMillrace } from "../../src/testing/index.ts";
import { settleTurn } from "../../src/testing/virtual-time.ts";
import { hangMs } from "../support/hang-ms.ts";
import { useVirtualMill } from "../support/virtual/use-virtual-mill.ts";

const v = useVirtualMill();
const folder = mkdtempSync(join(tmpdir(), "millrace-runs-"));
afterAll(() => rmSync(folder, { recursive: true, force: true }));

setFlagsFromString("--expose-gc");
const collectGarbage = runInNewContext("gc") as () => void;

const order = job("order", {
  input: z.object({ id: z.string() }),
  signals: { go: z.string() },
  durable: { version: 1 },
});

test("a step's record and the application's rows commit together, also if its reply was lost", async () => {
  const file = join(folder, "app.db");
  const mill = await Millrace.open(`sqlite:${file}`, { log: false });
  const db = new DatabaseSync(file, { timeout: hangMs });
  try {
    db.exec("CREATE TABLE booking (id TEXT)");
    let isLost = true;
    const begin = async (use: (connection: DatabaseSync) => Promise<string>): Promise<string> => {
      db.exec("BEGIN IMMEDIATE");
      try {
        const result = await use(db);
        db.exec("COMMIT");
        if (isLost) throw new Error("the reply of the commit was lost");
        return result;
      } catch (error) {
        if (db.isTransaction) db.exec("ROLLBACK");
        throw error;
      } finally {
        isLost = false;
      }
    };
    await mill.work([
      handler(order, async ({ input, step }) =>
        step.runIn("book", begin, async (connection) => {
          connection.prepare("INSERT INTO booking VALUES (?)").run(input.id);
          return `booked ${input.id}`;
        }),
      ),
    ]);
    const handle = await mill.enqueue(order, { id: "x" });
    expect(await handle.result({ timeout: hangMs })).toBe("booked x");
    expect(db.prepare("SELECT id FROM booking").all()).toEqual([{ id: "x" }]);
  } finally {
    db.close();
    await mill.close();
  }
});

test("testMillrace drains runs to their rest, moves their clock and sends them signals", async () => {
  const ran: string[] = [];
  await using t = await testMillrace({
    handlers: [
      handler(order, async ({ step }) => {
        await step.run("a", () => ran.push("a"));
        await step.sleep("nap", "7d");
        const arrived = await step.waitFor("go", { timeout: "30d", onTimeout: "return" });
        return arrived.kind === "arrived" ? arrived.value : "late";
      }),
    ],
  });
  const [first, second] = await t.enqueueMany([order.with({ id: "x" }), order.with({ id: "y" })]);
  await t.drain();
  expect(ran).toEqual(["a", "a"]);
  await t.clock.advance("7d");
  await t.drain();
  expect((await t.mill.jobs.get(first.id))?.state).toBe("suspended");
  expect(await t.mill.signal(order, first.id, "go", "now")).toEqual({ kind: "delivered" });
  await t.drain();
  expect(await first.result()).toBe("now");
  await t.clock.advance("31d");
  await t.drain();
  expect(await second.result()).toBe("late");
  expect(ran).toEqual(["a", "a"]);
});

test("many suspended runs leave nothing in their worker: neither leases nor frames", async () => {
  const runs = 300;
  let collected = 0;
  const registry = new FinalizationRegistry(() => (collected += 1));
  const worker = await v.run(
    v.mill.work(
      [
        handler(order, async ({ step }) => {
          const held = { frame: new Uint8Array(1000) };
          registry.register(held, null);
          await step.run("first", () => 1);
          await step.waitFor("go", { timeout: "2d" });
          return held.frame.length;
        }),
      ],
      { concurrency: 50 },
    ),
  );
  const many = Array.from({ length: runs }, (_, at) => order.with({ id: String(at) }));
  const handles = await v.run(v.mill.enqueueMany(many));
  await v.advance(10_000);
  expect((await v.run(v.mill.jobs.counts()))["default"]).toEqual({ suspended: runs });
  expect([worker.held, worker.running]).toEqual([0, 0]);
  for (let turn = 0; turn < 100 && collected < runs; turn++) {
    collectGarbage();
    await settleTurn();
  }
  expect(collected).toBe(runs);
  await v.run(Promise.all(handles.map(({ id }) => v.mill.signal(id, "go", "now"))));
  await v.advance(10_000);
  expect((await v.run(v.mill.jobs.counts()))["default"]).toEqual({ completed: runs });
});
