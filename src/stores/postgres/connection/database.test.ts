/** What connections of the pool can do to the process that holds them. */
import { createServer } from "node:net";
import type { AddressInfo } from "node:net";
import pg from "pg";
import { expect, onTestFinished, test } from "vitest";
import { nodePlatform } from "../../../platform/node-platform.ts";
import { createTestDatabase, postgresSources } from "../../../../test/support/servers/postgres-shared.ts";
import { openDatabase } from "./database.ts";
import type { PgDriver } from "./driver.ts";
import { openPostgresStore } from "../postgres-store.ts";

function message(type: string, body: Buffer): Buffer {
  const head = Buffer.alloc(5);
  head.write(type, 0, "latin1");
  head.writeInt32BE(body.length + 4, 1);
  return Buffer.concat([head, body]);
}

const fields = ["SFATAL", "C57P02", "Mterminating connection because of crash", ""];
const greetingAndDeath = Buffer.concat([
  message("R", Buffer.alloc(4)),
  message("Z", Buffer.from("I")),
  message("E", Buffer.from(fields.map((field) => `${field}\0`).join(""))),
]);

/** Lets everybody in and dies in the same bytes, as a crash under load looks to a process that reads late. */
async function startDying(): Promise<string> {
  const server = createServer((socket) => {
    socket.on("error", () => undefined);
    socket.once("data", () => socket.end(greetingAndDeath));
  });
  await new Promise<void>((resolve) => void server.listen(0, "127.0.0.1", resolve));
  onTestFinished(() => void server.close());
  return `postgres://dying@127.0.0.1:${(server.address() as AddressInfo).port}/dying`;
}

test("a server that dies with its greeting ends the call and not the process", async () => {
  const url = await startDying();
  const refused = { code: "store-unavailable", outcome: "did-not-happen" };
  await expect(openPostgresStore({ url, platform: nodePlatform })).rejects.toMatchObject(refused);
  const pool = new pg.Pool({ connectionString: url });
  pool.on("error", () => undefined);
  await expect(openPostgresStore({ pool, platform: nodePlatform })).rejects.toMatchObject(refused);
  expect(pool.listenerCount("connect")).toBe(0);
  await pool.end();
});

test("a statement goes over an idle connection that has run it", async () => {
  const place = await createTestDatabase(postgresSources()[0]!);
  const open = { pool: undefined, poolMax: 4, name: "test", platform: nodePlatform, callTimeoutMs: 10_000 };
  const database = openDatabase({ driver: pg as unknown as PgDriver, url: place.url, ...open });
  onTestFinished(async () => {
    await database.close();
    await place.drop();
  });
  const texts = ["first", "second", "third"].map((word) => `SELECT pg_backend_pid(), '${word}'`);
  const pidOf = async (text: string) => (await database.read(text))[0]?.[0];
  const pids = await Promise.all(texts.map(pidOf));
  expect(new Set(pids).size).toBe(3);
  // One behind the other; the pool itself would give all of them the same.
  for (let round = 0; round < 3; round++)
    for (const [at, text] of texts.entries()) expect(await pidOf(text)).toBe(pids[at]);
});
