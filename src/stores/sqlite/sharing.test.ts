import { spawn } from "node:child_process";
import { once } from "node:events";
import { text } from "node:stream/consumers";
import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { DatabaseSync } from "node:sqlite";
import { afterEach, beforeEach, describe, expect, it } from "vitest";
import { nodePlatform } from "../../platform/node-platform.ts";
import { aJob as buildJob, aRoute } from "../../../test/support/builders.ts";
import { closeAfterEach } from "../../../test/support/close-after-each.ts";
import type { NewJob } from "../../store/records.ts";
import type { Hint, Store } from "../../store/store.ts";
import { openSqliteStore } from "./sqlite-store.ts";

let folder = "";
let path = "";
beforeEach(() => {
  folder = mkdtempSync(join(tmpdir(), "millrace-shared-"));
  path = join(folder, "jobs.db");
});
// The last hook runs first: the stores are closed when the folder goes.
afterEach(() => rmSync(folder, { recursive: true, force: true }));
const closeLater = closeAfterEach();

async function open(executor: "inline" | "thread", busyTimeoutMs = 10_000): Promise<Store> {
  return closeLater(await openSqliteStore({ path, platform: nodePlatform, executor, busyTimeoutMs }));
}

const aJob = (id: string, given: Partial<NewJob> = {}): NewJob => buildJob({ id, ...given });

const hintFrom = (store: Store, kind: Hint["kind"]) =>
  new Promise<Hint>((resolve) => {
    store.watch((hint) => {
      if (hint.kind === kind) resolve(hint);
    });
  });

for (const executor of ["inline", "thread"] as const) {
  describe(`several on one file, ${executor}`, () => {
    it("wakes up by what another process did", async () => {
      const store = await open(executor);
      const ready = hintFrom(store, "ready");
      await store.describe();
      const from = new URL("./sqlite-store.ts", import.meta.url).href;
      const platform = new URL("../../platform/node-platform.ts", import.meta.url).href;
      const script = `import { openSqliteStore } from ${JSON.stringify(from)}; import { nodePlatform } from ${JSON.stringify(platform)};
        const store = await openSqliteStore({ path: ${JSON.stringify(path)}, platform: nodePlatform });
        await store.submit([{ jobs: [${JSON.stringify(aJob("from-afar"))}] }]); await store.close();`;
      const child = spawn(process.execPath, ["--input-type=module", "-e", script], {
        stdio: ["ignore", "inherit", "pipe"],
      });
      const said = text(child.stderr);
      const [code] = (await once(child, "exit")) as [code: number];
      expect([code, await said]).toEqual([0, ""]);
      expect(await ready).toEqual({ kind: "ready", routes: [aRoute()] });
    });

    it("brings cancels to the owner's side and finished jobs to those that wait", async () => {
      const [mine, theirs] = [await open(executor), await open("inline")];
      await mine.submit([{ jobs: [aJob("one"), aJob("two")] }]);
      const cancel = hintFrom(theirs, "cancel");
      const finished = hintFrom(theirs, "finished");
      await theirs.describe();
      await mine.claim({ owner: "w", leaseMs: 60_000, offers: [{ routes: [aRoute()], max: 1 }] });
      const ask = { to: "same", event: "cancel-asked", cancelAsked: true } as const;
      const end = {
        to: "cancelled",
        event: "cancelled",
        reason: "asked",
        result: null,
        keepMs: null,
      } as const;
      await mine.changeIf([
        { id: "one", cases: [{ guard: { states: ["running"] }, next: ask }] },
        { id: "two", cases: [{ guard: { states: ["ready"] }, next: end }] },
      ]);
      expect(await cancel).toEqual({ kind: "cancel", ids: ["one"], owner: "w" });
      expect(await finished).toEqual({ kind: "finished", ids: ["two"] });
    });

    it("refuses with store-busy when a lock is held for too long, and works again afterwards", async () => {
      const store = await open(executor, 80);
      const other = new DatabaseSync(path);
      other.exec("BEGIN IMMEDIATE");
      const refused = store.submit([{ jobs: [aJob("one")] }]);
      await expect(refused).rejects.toMatchObject({
        code: "store-busy",
        outcome: "did-not-happen",
        retryable: true,
      });
      expect(await store.readJobs(["one"])).toEqual([null]);
      other.exec("ROLLBACK");
      other.close();
      expect((await store.submit([{ jobs: [aJob("one")] }]))[0]?.kind).toBe("ok");
    });

    it("gives every job to one claimer only", async () => {
      const stores = [await open(executor), await open("inline"), await open("thread")];
      await stores[0]?.submit([{ jobs: Array.from({ length: 300 }, (_, index) => aJob(`job-${index}`)) }]);
      const claimed: string[] = [];
      const drain = async (store: Store, owner: string): Promise<void> => {
        for (;;) {
          const { jobs } = await store.claim({
            owner,
            leaseMs: 60_000,
            offers: [{ routes: [aRoute()], max: 7 }],
          });
          if (jobs.length === 0) return;
          claimed.push(...jobs.map((job) => job.id));
        }
      };
      await Promise.all(stores.map((store, index) => drain(store, `w${index}`)));
      expect(claimed).toHaveLength(300);
      expect(new Set(claimed).size).toBe(300);
    });

    it("answers after its close with closed", async () => {
      const store = await open(executor);
      await store.close();
      await expect(store.countJobs()).rejects.toMatchObject({ code: "closed" });
    });
  });
}
