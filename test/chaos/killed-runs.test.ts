/**
 * Processes that work on durable runs are killed -9 again and again while steps run. Every run completes, no step whose
 * end was recorded runs again, and a step that runs again has the same idempotency key.
 */
import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { afterAll, expect, test } from "vitest";
import { Millrace } from "../../src/index.ts";
import { createTestDatabase, postgresSources } from "../support/servers/postgres-shared.ts";
import type { PostgresSource } from "../support/servers/postgres-shared.ts";
import { killAfterEach, startScript } from "../support/start-script.ts";
import { until } from "../support/until.ts";
import { order } from "./run-jobs.ts";

const script = fileURLToPath(new URL("run-process.ts", import.meta.url));
const folder = mkdtempSync(join(tmpdir(), "millrace-runs-"));
afterAll(() => rmSync(folder, { recursive: true, force: true }));
const start = killAfterEach(startScript);
const kills = Number(process.env["MILLRACE_KILLS"] ?? 3);
const runs = 10;

const onSqlite = { url: `sqlite:${join(folder, "jobs.db")}`, drop: () => Promise.resolve() };
const onPostgres = (): Promise<{ readonly url: string; drop(): Promise<void> }> =>
  createTestDatabase(postgresSources()[0] as PostgresSource);

test.each([
  ["SQLite", () => Promise.resolve(onSqlite)],
  ["Postgres", onPostgres],
])("on %s every run completes, and no step that was recorded runs again", async (_, open) => {
  const opened = await open();
  const { url } = opened;
  const mill = await Millrace.open(url, { log: false });
  try {
    const ids: string[] = [];
    for (let n = 0; n < runs; n++) ids.push((await mill.enqueue(order, { n })).id);
    for (const id of ids)
      expect(await mill.signal(order, id, "go", "now", { key: "once" })).toEqual({ kind: "buffered" });
    for (const id of ids) {
      const token = await mill.approvals.token(id, "manager", { source: "ann", expires: "1h" });
      expect(await mill.approvals.answer(token, { ok: true })).toEqual({ kind: "accepted" });
    }
    /** The steps that had been recorded when the last process was killed. */
    let recorded = new Set<string>();
    const repeated: string[] = [];
    const keys = new Map<string, number>();
    const stepsOf = async (): Promise<Set<string>> => {
      const views = await Promise.all(ids.map((id) => mill.runs.get(id)));
      return new Set(
        views.flatMap((view) =>
          (view?.steps ?? []).flatMap(({ step, state, kind }) =>
            state === "completed" && kind === "run" ? [`${view?.id}:0:${step}`] : [],
          ),
        ),
      );
    };
    for (let kill = 0; kill <= kills; kill++) {
      let begun = 0;
      const worker = start(script, [url], (line) => {
        const [what, , key = ""] = line.split(" ");
        if (what !== "begins") return;
        begun += 1;
        keys.set(key, (keys.get(key) ?? 0) + 1);
        if (recorded.has(key)) repeated.push(key);
      });
      if (kill === kills) break;
      await until("steps run", () => begun > 3);
      await worker.kill();
      recorded = await stepsOf();
    }
    const results = await Promise.all(ids.map((id) => mill.handle(order, id).result()));
    expect(results).toEqual(ids.map((_, n) => [n, "one", "a", "b", "now", true, "last"]));
    expect(repeated).toEqual([]);
    expect([...keys.keys()].toSorted()).toEqual(
      ids.flatMap((id) => ["one#1", "a#1", "b#1", "last#1"].map((step) => `${id}:0:${step}`)).toSorted(),
    );
  } finally {
    await mill.close();
    await opened.drop();
  }
});
