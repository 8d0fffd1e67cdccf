// Queues and limits from the command line, on a real file.
import { describe, expect, test } from "vitest";
import { budget, handler, job, limit, Millrace } from "../../src/index.ts";
import { until } from "../support/until.ts";
import { aStoreUrl, say, sayJson } from "./run-millrace.ts";

const args = (text: string, store: string): string[] => [...text.split(" "), "--store", store];

describe("millrace queues", () => {
  test("pauses and resumes a queue, and its jobs are shown as held", async () => {
    const store = aStoreUrl();
    await sayJson(args("enqueue send 1 --queue mail --id a", store));
    expect(await sayJson(args("queues pause mail", store))).toMatchObject({ queue: "mail", paused: true });
    expect((await say(args("queues", store))).out.split("\n")[1]).toMatch(/^mail +paused +open +any +any$/);
    expect((await say(args("list", store))).out).toContain("held: the queue mail is paused");
    expect((await say(args("show a", store))).out).toMatch(/^held +the queue mail is paused$/m);
    expect((await say(args("explain a", store))).out).toContain("is paused until somebody resumes it");
    expect((await say(args("counts", store))).out).toBe("QUEUE  ready  held\nmail       1     1\n");
    const doctor = await say(args("doctor", store));
    expect(doctor.out).toContain(
      'FINDING   queues: The queue "mail" is paused, and 1 ready job waits in it.',
    );
    expect((await say(args("queues resume mail", store))).out).toMatch(/^mail +open +open/m);
    expect(await sayJson(args("show a", store))).toMatchObject({ job: { state: "ready", held: null } });
    const timed = await sayJson(args("queues pause mail --for 10m", store));
    expect(Date.parse(timed["pausedUntil"] as string)).toBeGreaterThan(Date.now());
  });

  test("closes the intake of a queue: an enqueue is then refused by its code", async () => {
    const store = aStoreUrl();
    await sayJson(args("enqueue send 1 --queue mail", store));
    await say(args("queues close-intake mail", store));
    const refused = await say(args("enqueue send 2 --queue mail", store));
    expect([refused.code, refused.err]).toEqual([1, expect.stringMatching(/^millrace: intake-closed: /)]);
    await say(args("queues open-intake mail", store));
    expect((await say(args("enqueue send 2 --queue mail", store))).code).toBe(0);
  });

  test("sets how much of it runs", async () => {
    const store = aStoreUrl();
    await sayJson(args("enqueue send 1 --queue mail", store));
    const set = await sayJson(args("queues set mail --rate 100/1m --burst 5 --concurrency 3", store));
    expect(set).toMatchObject({ concurrency: 3, rate: { max: 100, perMs: 60_000, burst: 5 } });
    expect((await say(args("queues", store))).out).toMatch(/^mail +open +open +3 +100\/1m burst 5$/m);
    expect(await sayJson(args("queues set mail --rate none", store))).toMatchObject({
      concurrency: 3,
      rate: null,
    });
  });

  test("sets the defaults of its jobs, and takes them away", async () => {
    const store = aStoreUrl();
    await sayJson(args("enqueue send 1 --queue mail", store));
    const options = "--local 4 --attempts 5 --backoff 1s-5m --keep completed=1d,failed=30d+1000,other=50";
    expect(await sayJson(args(`queues set mail ${options}`, store))).toMatchObject({
      ...{ localConcurrency: 4, attempts: 5, concurrency: null },
      backoff: { kind: "exponential", fromMs: 1000, toMs: 300_000 },
      retention: { completedMs: 86_400_000, failedMs: 30 * 86_400_000, failedCount: 1000, otherCount: 50 },
    });
    expect((await say(args("queues", store))).out).toMatch(
      /^mail +open +open +any +any +4 +5 +1s-5m +completed=1d,failed=30d\+1000,other=50$/m,
    );
    const none = "--local none --attempts none --backoff none --keep none";
    expect(await sayJson(args(`queues set mail ${none}`, store))).toMatchObject({
      ...{ localConcurrency: null, attempts: null, backoff: null, retention: null },
    });
    const wrong = await say(args("queues set mail --keep lost=1d", store));
    expect([wrong.code, wrong.err]).toEqual([2, expect.stringContaining("--keep must be ages and counts")]);
  });
});

describe("millrace limits", () => {
  test("lists limits, edits one, lets it cool down and resets it", async () => {
    const store = aStoreUrl();
    await using mill = await Millrace.open(store, { log: false });
    const slack = limit("slack", { concurrency: 5 });
    await mill.enqueue(job<number>("send", { limits: [slack] }), 1);
    expect((await say(args("limits", store))).out).toBe(
      "LIMIT  HELD  AT ONCE  RATE  EACH KEY\nslack     0        5  any   any\n",
    );
    expect((await say(args("limits edit slack --concurrency 2", store))).out).toMatch(
      /slack +0 +2 +any +any +edited\n/,
    );
    expect((await say(args("limits throttle slack --for 1h", store))).out).toMatch(
      /cools down until .*, edited\n/,
    );
    expect((await say(args("list", store))).out).toContain("held: the limit slack (0 of 2)");
    expect(await sayJson(args("limits reset slack", store))).toMatchObject({
      concurrency: 5,
      coolingUntil: null,
    });
    const unknown = await say(args("limits edit nobody --rate 1/1s", store));
    expect([unknown.code, unknown.err]).toEqual([1, expect.stringMatching(/^millrace: unknown-limit: /)]);
  });

  test("shows, edits and lets cool down one key of a limit, and says of each key how much of it runs", async () => {
    const store = aStoreUrl();
    await using mill = await Millrace.open(store, { log: false });
    const api = limit("api", { perKey: { concurrency: 5 } });
    await mill.enqueue(job<string>("send", { limits: [api.use({ key: (tenant) => tenant })] }), "acme", {
      id: "a",
    });
    expect((await say(args("limits", store))).out).toMatch(/api +0 +any +any +5\n/);
    expect(await sayJson(args("limits edit api --key-rate 10/1s --key-concurrency 3", store))).toMatchObject({
      perKey: { concurrency: 3, rate: { max: 10 } },
    });
    expect((await say(args("limits edit api --key acme --concurrency 1", store))).out).toMatch(
      /api for acme +0 +1 +10\/1s +edited\n/,
    );
    await say(args("limits throttle api --key acme --for 1h", store));
    expect((await say(args("list", store))).out).toContain("held: the limit api for acme (0 of 1)");
    expect(await sayJson(args("limits reset api --key acme", store))).toMatchObject({
      ...{ key: "acme", concurrency: 3, edited: null, coolingUntil: null },
    });
    expect(await sayJson(args("limits show api --key other", store))).toMatchObject({
      concurrency: 3,
      held: 0,
    });
    const global = await say(args("limits edit api --concurrency 9", store));
    expect([global.code, global.err]).toEqual([
      2,
      expect.stringMatching(/invalid-option.*bounds keys only/s),
    ]);
  });

  test("shows the group of a job that was enqueued with one", async () => {
    const store = aStoreUrl();
    await sayJson(args("enqueue send 1 --id a --group acme", store));
    expect((await say(args("show a", store))).out).toMatch(/^group +acme$/m);
    expect(await sayJson(args("show a", store))).toMatchObject({ job: { group: "acme" } });
  });
});

describe("millrace budgets", () => {
  test("lists budgets, edits one or a key of it, refunds an amount and resets it", async () => {
    const store = aStoreUrl();
    await using mill = await Millrace.open(store, { log: false });
    const tokens = budget("tokens", { hard: 100, perKey: { hard: 50 }, reset: { every: "30d" } });
    const ask = job<string>("ask", { budgets: [tokens.use({ key: (tenant: string) => tenant })] });
    await mill.work([handler(ask, async ({ usage }) => usage.report(tokens, 60))]);
    await (await mill.enqueue(ask, "acme", { id: "a" })).result();
    expect((await say(args("budgets", store))).out).toMatch(/^tokens +60 +0 +100 +any +\S+/m);
    await until(
      "the key is held",
      async () => (await mill.budgets.get("tokens", { key: "acme" })).heldUntil !== null,
    );
    await mill.enqueue(ask, "acme", { id: "b" });
    expect((await say(args("list", store))).out).toContain("held: the budget tokens for acme");
    expect((await say(args("explain b", store))).out).toContain(
      'The budget "tokens" for the key "acme" is spent',
    );
    expect(await sayJson(args("budgets show tokens", store))).toMatchObject({
      ...{ spent: 60, keys: [{ key: "acme", spent: 60 }], periods: [{ spent: 60 }] },
    });
    expect((await say(args("budgets refund tokens --amount 15 --key acme", store))).out).toMatch(
      /tokens for acme +45 +0 +50/,
    );
    expect(await sayJson(args("budgets edit tokens --hard 300 --key-hard 200", store))).toMatchObject({
      ...{ hard: 300, perKey: { hard: 200 }, edited: { hard: 300, perKey: { hard: 200 } } },
    });
    await until("it runs", async () => (await mill.jobs.get("b"))?.state === "completed");
    expect((await say(args("budgets edit tokens --hard code", store))).out).toMatch(/tokens +105 +0 +100/);
    expect(await sayJson(args("budgets reset tokens", store))).toMatchObject({ spent: 0, heldUntil: null });
    const unknown = await say(args("budgets show nobody", store));
    expect([unknown.code, unknown.err]).toEqual([1, expect.stringMatching(/^millrace: unknown-budget: /)]);
  });
});
