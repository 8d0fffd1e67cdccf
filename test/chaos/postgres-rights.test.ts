/**
 * A user with no more than the documented rights does everything that workers, clients and duties do; one with less is
 * told so.
 */
import { randomBytes } from "node:crypto";
import { readFileSync } from "node:fs";
import { join } from "node:path";
import { afterAll, beforeAll, expect, test } from "vitest";
import { job } from "../../src/engine/submit/job-definition.ts";
import { openMillrace } from "../../src/open.ts";
import { handler } from "../../src/worker/handler.ts";
import { useTestDatabase } from "../support/servers/use-postgres.ts";
import { hangMs } from "../support/hang-ms.ts";

const role = `app_${randomBytes(4).toString("hex")}`;
/** The rights are read from the page that tells people to grant them. */
const page = readFileSync(join(import.meta.dirname, "../../docs/operating/postgres.md"), "utf8");
const [, grants = ""] = /```sql\n(GRANT USAGE[^`]*)```/.exec(page) ?? [];
const rights = grants.replaceAll(/\bTO worker\b/g, `TO ${role}`);

const database = useTestDatabase();
let appUrl: string;
beforeAll(async () => {
  await database.query(`CREATE ROLE ${role} LOGIN`);
  const url = new URL(database.url);
  url.username = role;
  appUrl = url.href;
});
afterAll(() => database.query(`DROP OWNED BY ${role}; DROP ROLE ${role}`));

const hostile = {
  text: "NUL \0, lone \ud800\udfff\udc00, \u001e\u0001",
  big: -(2n ** 70n),
  deep: [null, new Date(0)],
};
const denied = expect.objectContaining({ code: "store-denied", outcome: "did-not-happen" });

test("without rights the store is not opened and nothing is made; with the documented ones everything works", async () => {
  await expect(openMillrace(appUrl)).rejects.toThrow(denied);
  expect(await database.query("SELECT 1 FROM pg_namespace WHERE nspname = 'millrace'")).toEqual([]);
  const owner = await openMillrace(database.url);
  await owner.close();
  await expect(openMillrace(appUrl)).rejects.toThrow(denied);
  expect(rights).toContain(`TO ${role};`);
  await database.query(rights);

  const mill = await openMillrace(appUrl, { log: false });
  const plain = job<typeof hostile, typeof hostile>("plain", { retry: { backoff: 0 } });
  const run = handler(plain, async ({ input, attempt, progress, log, kv }) => {
    progress(0.5, "half");
    log.info("a line");
    kv.put("key", attempt);
    if (attempt === 1) throw new Error("once more");
    return input;
  });
  await mill.work([run]);
  const options = { tags: ["tag"], unique: "key", delay: 10 };
  const handle = await mill.enqueue(plain, hostile, options);
  expect(await handle.result({ timeout: hangMs })).toEqual(hostile);
  const waiting = await mill.enqueue(plain, hostile, { delay: "1h" });
  await mill.jobs.cancel(waiting.id);
  await mill.close();

  const forgetful = await openMillrace(appUrl, { retention: { completed: 1 }, log: false });
  for (const name of forgetful.duties.names) expect((await forgetful.duties.run(name)).errors, name).toBe(0);
  expect(await forgetful.jobs.counts()).toEqual({ default: { cancelled: 1 } });
  await forgetful.close();
});
