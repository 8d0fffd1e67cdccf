// Durable runs on the command line, on real files: those that wait, what they did, and those that cannot go on.
import { expect, test } from "vitest";
import { z } from "zod";
import { handler, job, Millrace } from "../../src/index.ts";
import type { EventName, Handler } from "../../src/index.ts";
import { aStoreUrl, say, sayJson } from "./run-millrace.ts";

const signals = { go: z.string() };
const order = job("order", { signals, durable: { version: 1 } });
const waits = handler(order, async ({ step }) => {
  await step.run("reserve", () => 1);
  return (await step.waitFor("go")).value;
});

/** Works on the store until the run emits this event. */
async function workUntil(
  store: string,
  kind: EventName,
  handlers: readonly Handler[],
  start: (mill: Millrace) => Promise<string>,
): Promise<string> {
  await using mill = await Millrace.open(store, { log: false });
  const events = mill.events({ from: "now", kinds: kind });
  const id = await start(mill);
  await mill.work(handlers);
  for await (const { jobId } of events) if (jobId === id) break;
  return id;
}

const enqueue = async (mill: Millrace): Promise<string> => (await mill.enqueue(order, null)).id;
const signal =
  (id: string) =>
  async (mill: Millrace): Promise<string> => {
    await mill.signal(order, id, "go", "now");
    return id;
  };

test("a suspended run is listed as such, and tail shows how it came and went on", async () => {
  const store = aStoreUrl();
  const id = await workUntil(store, "suspended", [waits], enqueue);
  const { jobs } = await sayJson(["list", "--state", "suspended", "--store", store]);
  expect(jobs).toMatchObject([{ id, state: "suspended" }]);
  expect((await say(["list", "--state", "completed", "--store", store])).out).not.toContain(id);
  expect(await sayJson(["list", "--awaits", "go", "--store", store])).toMatchObject({ runs: [{ id }] });
  expect((await say(["list", "--awaits", "go", "--name", "order", "--store", store])).out).toContain(id);
  expect((await say(["list", "--awaits", "stop", "--store", store])).out).toContain("no run waits for stop");
  const mixed = await say(["list", "--awaits", "go", "--state", "failed", "--store", store]);
  expect(mixed).toMatchObject({ code: 2, err: expect.stringContaining("not with --state") as string });
  await workUntil(store, "completed", [waits], signal(id));
  const kinds = ["tail", "--from", "start", "--kinds", "suspended,resumed", "--limit", "2", "--store", store];
  const { out } = await say(kinds);
  expect(out).toMatch(
    new RegExp(`  suspended  order ${id} in default.*\n.*  resumed  order ${id} in default`),
  );
  const metrics = await say(["metrics", "--store", store]);
  expect(metrics.out).toMatch(/TOTAL p95 +STEPS +FAILED +STEP p95\n/);
});

test("show prints the first difference of a run that diverged", async () => {
  const store = aStoreUrl();
  const id = await workUntil(store, "suspended", [waits], enqueue);
  const changed = handler(order, async ({ step }) => step.sleep("reserve", "1d"));
  await workUntil(store, "failed", [changed], signal(id));
  const { out } = await say(["show", id, "--store", store]);
  expect(out).toContain("failed (diverged)");
  expect(out).toMatch(
    /RunDiverged: .* entry 2 is step.run "reserve#1", and the handler asks for step.sleep "reserve#1"/,
  );
});

test("doctor and explain name the version that no worker of a run has", async () => {
  const store = aStoreUrl();
  const id = await workUntil(store, "suspended", [waits], enqueue);
  const later = job("order", { signals, durable: { version: 2 } });
  await workUntil(store, "snoozed", [handler(later, async () => "two")], signal(id));
  const doctor = await say(["doctor", "--store", store]);
  expect(doctor.code).toBe(1);
  expect(doctor.out).toMatch(
    /One run of "order" in the queue "default" was handed back, last by .*: The run began with version 1 of/,
  );
  expect((await say(["explain", id, "--store", store])).out).toMatch(
    /version-missing.* version 1 of the handler/,
  );
});
