/**
 * Workers that report and reserve are killed -9 in the middle of it. What was acknowledged is counted, and of each
 * attempt at most the report that was on its way besides; what was reserved comes back by the duty of another process.
 */
import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { afterAll, describe, expect, test } from "vitest";
import { Millrace } from "../../src/index.ts";
import { closeAfterEach } from "../support/close-after-each.ts";
import { hangMs } from "../support/hang-ms.ts";
import { useTestDatabase } from "../support/servers/use-postgres.ts";
import { useSharedRedis } from "../support/servers/use-redis.ts";
import { killAfterEach, startScript } from "../support/start-script.ts";
import { until } from "../support/until.ts";
import { ask, reservedAmount, tokens } from "./budget-process.ts";

const script = fileURLToPath(new URL("budget-process.ts", import.meta.url));
const folder = mkdtempSync(join(tmpdir(), "millrace-budgets-"));
afterAll(() => rmSync(folder, { recursive: true, force: true }));
const database = useTestDatabase();
const redis = useSharedRedis();
const amount = 7;
const attempts = 4;

let files = 0;
const urls: [store: string, url: () => string][] = [
  ["SQLite", () => `sqlite:${join(folder, `jobs-${++files}.db`)}`],
  ["Postgres", () => `${database.url}?schema=budgets_${++files}`],
  ["Redis", () => `${redis.prefixes.url}?prefix=${redis.prefixes.next()}`],
];

function startProcess(url: string) {
  const seen = { begun: 0, acknowledged: 0 };
  const started = startScript(script, [url], (text) => {
    const line = JSON.parse(text) as string | { readonly amount: number };
    if (line === "begun") seen.begun += 1;
    else if (typeof line === "object") seen.acknowledged += line.amount;
  });
  return { said: started.spoke, seen, kill: () => started.kill() };
}

describe.each(urls)("budgets of a killed process, on %s", (_store, place) => {
  const closeLater = closeAfterEach();
  const start = killAfterEach(startProcess);

  test("count what was acknowledged, and get back what was reserved", { timeout: 2 * hangMs }, async () => {
    const url = place();
    const mill = closeLater(await Millrace.open(url, { log: false }));
    await mill.budgets.define(tokens);
    for (let at = 0; at < attempts; at++) await mill.enqueue(ask, { tenant: `t${at % 2}`, amount });
    const worker = start(url);
    await worker.said;
    await until(
      "all have reported",
      () => worker.seen.begun === attempts && worker.seen.acknowledged > 50 * amount,
    );
    expect((await mill.budgets.get("tokens")).reserved).toBe(attempts * reservedAmount);
    await worker.kill();
    const { acknowledged } = worker.seen;
    // The process said nothing more, but the store may still do its last call.
    mill.duties.start();
    await until(
      "the leases are gone",
      async () => (await mill.jobs.counts())["default"]?.running === undefined,
    );
    await mill.duties.run("budget-reset");
    const { spent, reserved, keys } = await mill.budgets.get("tokens");
    expect(reserved).toBe(0);
    expect(spent).toBeGreaterThanOrEqual(acknowledged);
    expect(spent).toBeLessThanOrEqual(acknowledged + attempts * amount);
    expect(keys.reduce((sum, each) => sum + each.spent, 0)).toBe(spent);
  });
});
