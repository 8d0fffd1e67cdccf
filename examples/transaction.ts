// Jobs inside your own transaction: the order and its e-mail commit together or not at all, because both are in one
// SQLite file.
import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { DatabaseSync } from "node:sqlite";
import { handler, job, Millrace } from "millrace";

const folder = mkdtempSync(join(tmpdir(), "millrace-example-"));
const path = join(folder, "shop.db");
const sendReceipt = job<{ order: number }>("send-receipt");

const mill = await Millrace.open(`sqlite:${path}`);
const database = new DatabaseSync(path);
database.exec("CREATE TABLE orders (id INTEGER PRIMARY KEY, item TEXT NOT NULL, receipt TEXT)");

async function order(id: number, item: string): Promise<void> {
  database.exec("BEGIN IMMEDIATE");
  try {
    database.prepare("INSERT INTO orders (id, item) VALUES (?, ?)").run(id, item);
    await mill.in(database).enqueue(sendReceipt, { order: id });
    if (item === "unicorn") throw new Error("out of stock");
    database.exec("COMMIT");
  } catch (error) {
    database.exec("ROLLBACK");
    console.log(`order ${id} rolled back: ${(error as Error).message}`);
  }
}

await order(1, "hat");
await order(2, "unicorn");
console.log("jobs:", JSON.stringify(await mill.jobs.counts()));

// The other way round: the handler's rows and the completion of its job are one commit.
const worker = await mill.work([
  handler(sendReceipt, async (context) => {
    database.exec("BEGIN IMMEDIATE");
    database.prepare("UPDATE orders SET receipt = ? WHERE id = ?").run("sent", context.input.order);
    await context.completeIn(database);
    database.exec("COMMIT");
  }),
]);
const [receipt] = (await mill.jobs.list()).jobs;
await mill.handle(receipt?.id ?? "").result({ timeout: "5s" });
await worker.stop();
console.log("orders:", JSON.stringify(database.prepare("SELECT * FROM orders").all()));

database.close();
await mill.close();
rmSync(folder, { recursive: true });
