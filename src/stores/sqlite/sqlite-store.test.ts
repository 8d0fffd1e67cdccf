import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterEach, beforeEach, describe, expect, it } from "vitest";
import { nodePlatform } from "../../platform/node-platform.ts";
import { aJob as buildJob, aRoute } from "../../../test/support/builders.ts";
import type { NewJob } from "../../store/records.ts";
import type { Store } from "../../store/store.ts";
import { openSqliteStore } from "./sqlite-store.ts";

let folder = "";
beforeEach(() => void (folder = mkdtempSync(join(tmpdir(), "millrace-sqlite-"))));
afterEach(() => rmSync(folder, { recursive: true, force: true }));

const aJob = (id: string, given: Partial<NewJob> = {}): NewJob => buildJob({ id, ...given });

async function livesThrough(store: Store): Promise<void> {
  const jobs = Array.from({ length: 150 }, (_, index) =>
    aJob(`job-${String(index).padStart(4, "0")}`, { tags: ["t"] }),
  );
  const [submitted] = await store.submit([{ jobs }]);
  expect(submitted?.kind).toBe("ok");
  const { jobs: leased, more } = await store.claim({
    owner: "w",
    leaseMs: 1000,
    offers: [{ routes: [aRoute()], max: 100 }],
  });
  expect(leased.map((job) => job.id)).toEqual(jobs.slice(0, 100).map((job) => job.id));
  expect(more).toBe(true);
  const finish = { to: "completed", event: "completed", reason: null, result: "1", keepMs: null } as const;
  const settles = leased.map(({ id, seq, fence }) => ({ id, seq, fence, next: finish, attempts: null }));
  expect((await store.settleIfLeased(settles)).every((answer) => answer.kind === "ok")).toBe(true);
  expect((await store.settleIfLeased(settles)).every((answer) => answer.kind === "already")).toBe(true);
  expect(await store.countJobs()).toEqual([
    { queue: "mail", name: "send", state: "ready", count: 50 },
    { queue: "mail", name: "send", state: "completed", count: 100 },
  ]);
  const found = await store.findJobs({
    filter: { tag: "t", states: ["completed"] },
    max: 200,
    scanMax: 1000,
    cursor: null,
  });
  expect(found.jobs).toHaveLength(100);
  let cursor: string | null = null;
  do {
    const audit = await store.auditIndexes({ cursor, max: 20 });
    expect(audit.repaired).toEqual({});
    cursor = audit.cursor;
  } while (cursor !== null);
}

describe("the SQLite store", () => {
  for (const executor of ["inline", "thread"] as const) {
    it(`carries jobs through their life on a file, ${executor}`, async () => {
      const store = await openSqliteStore({
        path: join(folder, "jobs.db"),
        platform: nodePlatform,
        executor,
      });
      await livesThrough(store);
      expect(await store.readRoutes()).toEqual([
        { queue: "mail", name: "send", number: aRoute(), requires: [], gates: [] },
      ]);
      await store.close();
    });
  }

  it("carries jobs through their life in memory", async () => {
    const store = await openSqliteStore({ path: ":memory:", platform: nodePlatform });
    await livesThrough(store);
    expect(await store.readRoutes()).toEqual([
      { queue: "mail", name: "send", number: aRoute(), requires: [], gates: [] },
    ]);
    await store.close();
  });
});
