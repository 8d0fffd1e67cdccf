import { existsSync, mkdtempSync, rmSync, statSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { DatabaseSync } from "node:sqlite";
import { afterEach, beforeEach, expect, test } from "vitest";
import { aJob, aRoute } from "../../../../test/support/builders.ts";
import { closeAfterEach } from "../../../../test/support/close-after-each.ts";
import { until } from "../../../../test/support/until.ts";
import { nodePlatform } from "../../../platform/node-platform.ts";
import type { Hint, Store } from "../../../store/store.ts";
import { openSqliteStore } from "../sqlite-store.ts";

let folder = "";
let path = "";
beforeEach(() => {
  folder = mkdtempSync(join(tmpdir(), "millrace-wake-"));
  path = join(folder, "jobs.db");
});
afterEach(() => rmSync(folder, { recursive: true, force: true }));
const closeLater = closeAfterEach();

const open = async (): Promise<Store> =>
  closeLater(await openSqliteStore({ path, platform: nodePlatform, executor: "inline" }));

/** Changes with every wake. */
const touchedAt = (): bigint => statSync(`${path}-wake`, { bigint: true }).mtimeNs;

const hintsOf = (store: Store): Hint[] => {
  const hints: Hint[] = [];
  store.watch((hint) => hints.push(hint));
  return hints;
};

test("a document without an event wakes nobody, and a job does", async () => {
  const [mine, theirs] = [await open(), await open()];
  const hints = hintsOf(theirs);
  await theirs.describe();
  await mine.submit([{ jobs: [aJob({ id: "first" })] }]);
  await until("its hint is out", () => hints.length > 0);
  const before = touchedAt();
  for (let number = 0; number < 20; number++)
    await mine.putDocs([{ kind: "notice", id: "n", body: String(number), guard: "any" }]);
  expect(touchedAt()).toBe(before);
  await mine.submit([{ jobs: [aJob({ id: "second" })] }]);
  await until("it was touched again", () => touchedAt() !== before);
  await until("the second hint is out", () => hints.filter(({ kind }) => kind === "ready").length === 2);
});

test("the caller's own transaction wakes others once it is over, also from a process that watches nothing", async () => {
  const [mine, theirs] = [await open(), await open()];
  const hints = hintsOf(theirs);
  await theirs.describe();
  const own = new DatabaseSync(path);
  own.exec("BEGIN");
  await mine.inTransaction(own).submit([{ jobs: [aJob({ id: "inside" })] }]);
  own.exec("COMMIT");
  await until("the hint is out", () => hints.length > 0);
  expect(hints[0]).toEqual({ kind: "ready", routes: [aRoute()] });
  own.exec("BEGIN");
  await mine.inTransaction(own).submit([{ jobs: [aJob({ id: "closed-behind" })] }]);
  own.exec("COMMIT");
  own.close();
  await until("a connection that was closed counts as over", () => hints.length > 1);
});

test("the last process that leaves removes the wake file, and one that comes later is woken by the next", async () => {
  const first = await openSqliteStore({ path, platform: nodePlatform });
  await first.submit([{ jobs: [aJob({ id: "one" })] }]);
  expect(existsSync(`${path}-wake`)).toBe(true);
  const staying = await open();
  await first.close();
  expect(existsSync(`${path}-wake`)).toBe(true);
  const hints = hintsOf(staying);
  await staying.describe();
  rmSync(`${path}-wake`);
  const other = await open();
  await until("a wake file that was removed is there again", () => existsSync(`${path}-wake`));
  await other.submit([{ jobs: [aJob({ id: "two" })] }]);
  await until("it wakes", () => hints.some(({ kind }) => kind === "ready"));
  await Promise.all([staying.close(), other.close()]);
  expect(existsSync(`${path}-wake`)).toBe(false);
});
