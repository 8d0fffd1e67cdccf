// Runs that no live worker could go on with are named before one of them is claimed.
import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, expect, test } from "vitest";
import { z } from "zod";
import { handler, job, Millrace } from "../../src/index.ts";
import type { Millrace as Mill } from "../../src/index.ts";
import { runFindings } from "../../src/cli/doctor/run-findings.ts";
import { openSqliteStore } from "../../src/stores/sqlite/sqlite-store.ts";
import { nodePlatform } from "../../src/platform/node-platform.ts";
import { until } from "../support/until.ts";

const folder = mkdtempSync(join(tmpdir(), "millrace-versions-"));
afterAll(() => rmSync(folder, { recursive: true, force: true }));

const of = (version: number) => job("order", { signals: { go: z.string() }, durable: { version } });
const code = async ({ step }: { step: { waitFor(name: "go"): Promise<unknown> } }): Promise<void> => {
  await step.waitFor("go");
};

test("doctor and explain name the version by the registrations, while a run only waits", async () => {
  const path = join(folder, "jobs.db");
  const mill: Mill = await Millrace.open(`sqlite:${path}`, { log: false });
  const store = await openSqliteStore({ path, platform: nodePlatform });
  const problems = async (): Promise<readonly string[]> =>
    (await runFindings(store)).map(({ problem }) => problem);
  const why = async (id: string): Promise<string> => (await mill.explain(id))?.why ?? "";
  const first = await mill.work([handler(of(1), code)]);
  const runs = await mill.enqueueMany([of(1).with(null), of(1).with(null)]);
  const { id } = runs[0];
  await until("both wait", async () => (await mill.jobs.counts())["default"]?.suspended === 2);
  expect(await problems()).toEqual([]);
  expect(await why(id)).toBe('It waits for the signal "go".');
  await first.stop();
  const second = await mill.work([handler(of(2), code)]);
  await until("the second worker is registered", async () => (await problems()).length > 0);
  expect(await problems()).toEqual([
    '2 runs of "order" in the queue "default" began with version 1 of the handler, which no live worker has.',
  ]);
  expect(await why(id)).toBe(
    'It waits for the signal "go". It began with version 1 of its handler, which no live worker has.',
  );
  await second.stop();
  await mill.work([handler(of(2), code, { older: { 1: code } })]);
  await until("the third worker is registered", async () => (await problems()).length === 0);
  await until("it is there for explain too", async () => (await why(id)) === 'It waits for the signal "go".');
  await mill.close();
  await store.close();
});
