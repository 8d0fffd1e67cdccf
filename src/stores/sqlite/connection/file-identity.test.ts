import { copyFileSync, mkdtempSync, renameSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { DatabaseSync } from "node:sqlite";
import { afterAll, describe, expect, it } from "vitest";
import { aClaim, aJob } from "../../../../test/support/builders.ts";
import { createHeldPlatform } from "../../../../test/support/virtual/held-platform.ts";
import { openSqliteStore } from "../sqlite-store.ts";

const folder = mkdtempSync(join(tmpdir(), "millrace-identity-"));
afterAll(() => rmSync(folder, { recursive: true, force: true }));
let files = 0;

const harms: Readonly<Record<string, (path: string) => void>> = {
  deleted: (path) => rmSync(path),
  "moved away": (path) => renameSync(path, `${path}.away`),
  "replaced by a copy": (path) => {
    copyFileSync(path, `${path}.copy`);
    renameSync(`${path}.copy`, path);
  },
};

describe.each(["inline", "thread"] as const)("a file under a running process (%s)", (executor) => {
  it.each(Object.entries(harms))("that is %s stops all acknowledging within a second", async (_how, harm) => {
    const path = join(folder, `${files++}.db`);
    const platform = createHeldPlatform();
    const store = await openSqliteStore({ path, platform, executor, durability: "relaxed" });
    const submit = (id: string) => store.submit([{ jobs: [aJob({ id })] }]);
    await submit("a");
    platform.advance(5000);
    await submit("b");
    harm(path);
    platform.advance(1000);
    const refusal = { code: "store-replaced", retryable: false, outcome: "did-not-happen" };
    await expect(submit("c")).rejects.toMatchObject(refusal);
    await expect(store.claim(aClaim())).rejects.toMatchObject(refusal);
    await expect(store.readJobs(["a"])).rejects.toMatchObject(refusal);
    // It stays so, even where the file comes back: what was written meanwhile went elsewhere.
    await expect(submit("d")).rejects.toMatchObject(refusal);
    await store.close();
  });

  it("is looked at only once a second", async () => {
    const path = join(folder, `${files++}.db`);
    const platform = createHeldPlatform();
    const store = await openSqliteStore({ path, platform, executor });
    rmSync(path);
    platform.advance(999);
    await store.submit([{ jobs: [aJob({ id: "a" })] }]);
    platform.advance(1);
    await expect(store.describe()).rejects.toMatchObject({ code: "store-replaced" });
    await store.close();
  });
});

it("a caller's own transaction is refused as well once the file was replaced", async () => {
  const path = join(folder, `${files++}.db`);
  const platform = createHeldPlatform();
  const store = await openSqliteStore({ path, platform });
  harms["replaced by a copy"]!(path);
  platform.advance(1000);
  const own = new DatabaseSync(path);
  own.exec("BEGIN IMMEDIATE");
  await expect(store.inTransaction(own).submit([{ jobs: [aJob({ id: "a" })] }])).rejects.toMatchObject({
    code: "store-replaced",
  });
  own.exec("ROLLBACK");
  own.close();
  await store.close();
});
