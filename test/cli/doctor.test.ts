// Doctor and duties on real files: healthy ones, edited ones, and files that are no store.
import { writeFileSync } from "node:fs";
import { join } from "node:path";
import { DatabaseSync } from "node:sqlite";
import { describe, expect, test } from "vitest";
import { aRegistration } from "../support/builders.ts";
import { registrationPut } from "../../src/engine/fleet/registration.ts";
import { handler, job, Millrace } from "../../src/index.ts";
import { openStore } from "../../src/open.ts";
import { nodePlatform } from "../../src/platform/node-platform.ts";
import { aFolder, millraceJson, say, sayJson } from "./run-millrace.ts";

async function aFile(): Promise<{ path: string; store: string }> {
  const path = join(aFolder(), "jobs.db");
  const mill = await Millrace.open(`sqlite:${path}`);
  await mill.enqueueMany([job("a").with(1, { tags: ["t"], unique: "k" }), job("b").with(2, { delay: "1h" })]);
  await mill.close();
  return { path, store: `sqlite:${path}` };
}

function edit(path: string, sql: string): void {
  const database = new DatabaseSync(path);
  database.exec(sql);
  database.close();
}

describe("doctor", () => {
  test("finds nothing in a healthy store, and says what it looked at", async () => {
    const { store } = await aFile();
    expect(await millraceJson(["doctor", "--store", store])).toEqual({
      ok: true,
      millrace: expect.any(String),
      node: process.versions.node,
      store: {
        kind: "sqlite",
        durability: "strict",
        schemaVersion: expect.any(Number),
        epoch: expect.any(Number),
        transactions: true,
        processes: "many",
        clockAheadMs: expect.any(Number),
      },
      jobs: { ready: 1, scheduled: 1 },
      audit: { checked: expect.any(Number), repaired: {} },
      findings: [],
    });
    const { code, out } = await say(["doctor", "--store", store]);
    expect(out).toMatch(/opened as strict\nclock +agrees with this process\n/);
    expect(out).toMatch(/no findings\n$/);
    expect(code).toBe(0);
  });

  test("finds and repairs wrong state counts and orphans, with exit 1, and nothing the second time", async () => {
    const { path, store } = await aFile();
    edit(
      path,
      "UPDATE millrace_state_count SET count = count + 7; INSERT INTO millrace_tag (tag, seq) VALUES ('lost', 999)",
    );
    const { code, out } = await say(["doctor", "--store", store, "--json"]);
    const report = JSON.parse(out) as { ok: boolean; findings: Record<string, string>[] };
    expect(report.ok).toBe(false);
    expect(report.findings.map(({ check }) => check)).toEqual(["indexes", "indexes"]);
    for (const { problem, advice } of report.findings) {
      expect(problem).toMatch(/disagreed with the jobs/);
      expect(advice).toMatch(/^Repaired just now/);
    }
    expect(code).toBe(1);
    expect(await sayJson(["doctor", "--store", store])).toMatchObject({
      ok: true,
      jobs: { ready: 1, scheduled: 1 },
    });
  });

  test("finds work of flows that nobody does", async () => {
    const { store } = await aFile();
    const left = await openStore(nodePlatform, store);
    const due = { at: (await left.describe()).now - 120_000 };
    await left.putDocs([{ kind: "flow-cancel", id: "gone", body: "{}", due, guard: "absent" }]);
    await left.close();
    expect((await say(["doctor", "--store", store])).out).toMatch(
      /FINDING +duties: 1 job whose work for its flow was left more than a minute ago was not handled/,
    );
    await sayJson(["duties", "run", "due-documents", "--store", store]);
    expect((await say(["doctor", "--store", store])).code).toBe(0);
  });

  test("finds jobs that nobody promotes, and says what to start", async () => {
    const { path, store } = await aFile();
    edit(
      path,
      "UPDATE millrace_job SET due_at = due_at - 7200000, timer_at = timer_at - 7200000 WHERE state = 1",
    );
    const { code, out } = await say(["doctor", "--store", store]);
    expect(out).toMatch(
      /FINDING +duties: 1 job whose due time has come more than a minute ago was not handled/,
    );
    expect(out).toMatch(/start millrace work/);
    expect(code).toBe(1);
    expect(await sayJson(["duties", "run", "promote", "--store", store])).toEqual({
      duty: "promote",
      processed: 1,
      errors: 0,
      outcomes: { promoted: 1 },
    });
    expect((await say(["doctor", "--store", store])).code).toBe(0);
  });

  test("finds ready jobs that nobody works on, once they have waited for a minute", async () => {
    const { path, store } = await aFile();
    expect((await say(["doctor", "--store", store])).code).toBe(0);
    edit(
      path,
      "UPDATE millrace_spec SET created_at = created_at - 70000; UPDATE millrace_job SET due_at = due_at - 70000",
    );
    const unserved = await say(["doctor", "--store", store]);
    expect(unserved.out).toMatch(
      /FINDING +workers: 1 ready job "a" in the queue "default", for more than a minute: no live worker serves the queue/,
    );
    expect(unserved.code).toBe(1);
    await using mill = await Millrace.open(store, { log: false });
    const worker = await mill.work([handler(job("other"), () => 1)]);
    expect((await say(["doctor", "--store", store])).out).toMatch(
      /no worker of the queue has a handler for it/,
    );
    await worker.stop();
    const served = await mill.work([handler(job("a"), () => new Promise<never>(() => undefined))], {
      queues: ["default"],
      shutdownGrace: 0,
      abortGrace: 0,
    });
    expect((await say(["doctor", "--store", store])).out).toMatch(/no findings/);
    await served.stop();
  });

  test("finds ready jobs that require what no worker offers", async () => {
    const { path, store } = await aFile();
    const { id } = await sayJson(["enqueue", "a", "--requires", "gpu,eu", "--store", store]);
    edit(
      path,
      "UPDATE millrace_spec SET created_at = created_at - 70000; UPDATE millrace_job SET due_at = due_at - 70000",
    );
    await using mill = await Millrace.open(store, { log: false });
    const endless = handler(job("a"), () => new Promise<never>(() => undefined));
    const options = { shutdownGrace: 0, abortGrace: 0 };
    await mill.work([endless], { ...options, capabilities: ["eu"] });
    const { code, out } = await say(["doctor", "--store", store]);
    expect(out).toMatch(
      /FINDING +workers: 1 ready job "a" requiring "eu" and "gpu" in the queue "default", for more than a minute: no worker of the queue with a handler for it offers "gpu"\./,
    );
    expect(code).toBe(1);
    expect((await say(["show", String(id), "--store", store])).out).toMatch(
      /requires +eu, gpu\nheld +no worker offers gpu/,
    );
    expect((await say(["list", "--state", "ready", "--store", store])).out).toMatch(
      /held: no worker offers gpu/,
    );
    expect((await say(["counts", "--store", store])).out).toMatch(/held/);
    expect(await sayJson(["explain", String(id), "--store", store])).toMatchObject({
      held: { by: "capability", missing: ["gpu"] },
    });
    await mill.work([endless], { ...options, capabilities: ["eu", "gpu"] });
    expect((await say(["doctor", "--store", store])).out).toMatch(/no findings/);
  });

  test("finds handlers that ignore their abort, and workers whose clock differs", async () => {
    const { store } = await aFile();
    await using mill = await Millrace.open(store, { log: false });
    const gate = Promise.withResolvers<void>();
    const stubborn = job<null>("stubborn", { timeout: 1, retry: { attempts: 1 } });
    await mill.work([handler(stubborn, () => gate.promise)], { abortGrace: 1, label: "w" });
    const handle = await mill.enqueue(stubborn, null);
    await handle.result().catch(() => undefined);
    const direct = await openStore(nodePlatform, store);
    await direct.putDocs([registrationPut("p", aRegistration("late", { writtenAt: Date.now() - 60_000 }))]);
    await direct.close();
    const { code, out } = await say(["doctor", "--store", store]);
    gate.resolve();
    expect(out).toMatch(
      /FINDING +workers: The worker w-\w+ has 1 handler running that ignored the abort and holds its slot/,
    );
    expect(out).toMatch(
      /FINDING +clock: The clock of the worker late is (1m|59\.\d+s|1m 0s) behind the store's time/,
    );
    expect(code).toBe(1);
  });

  test("finds that no live process may do the duties that run once per store", async () => {
    const { store } = await aFile();
    await using mill = await Millrace.open(store, { log: false, duties: { retention: false } });
    await mill.work([handler(job("any"), () => undefined)]);
    await expect.poll(async () => (await mill.workers.list()).length).toBe(1);
    const { code, out } = await say(["doctor", "--store", store]);
    expect(out).toMatch(/FINDING +duties: No live process may lead: each has one of the duties promote, /);
    expect(code).toBe(1);
    await using other = await Millrace.open(store, { log: false });
    other.duties.start();
    await expect.poll(async () => (await other.duties.list())[0]?.processes).toBe(2);
    expect((await say(["doctor", "--store", store])).out).toMatch(/no findings/);
  });

  test("finds a clock that is ahead", async () => {
    const { path, store } = await aFile();
    edit(path, "UPDATE millrace_feed SET at = at + 600000");
    const { code, out } = await say(["doctor", "--store", store]);
    expect(out).toMatch(/FINDING +clock: The store's time is 9m 5\ds ahead of this machine's clock/);
    expect(code).toBe(1);
  });
});

describe("a file that is no store", () => {
  const broken: [title: string, make: (path: string) => void, sentence: RegExp][] = [
    ["a text", (path) => writeFileSync(path, "hello\n".repeat(500)), /^millrace: not-a-store: /],
    [
      "tables of a newer version",
      (path) => edit(path, "UPDATE millrace_meta SET value = 999 WHERE name = 'schema_version'"),
      /^millrace: schema-newer: .*Upgrade/,
    ],
  ];

  test.each(broken)("is refused in one line: %s", async (_title, breakIt, sentence) => {
    const { path, store } = await aFile();
    breakIt(path);
    for (const args of [["doctor"], ["list"], ["enqueue", "a"]]) {
      const { code, err } = await say([...args, "--store", store]);
      expect(err).toMatch(sentence);
      expect(err.trimEnd().split("\n")).toHaveLength(1);
      expect(code).toBe(1);
    }
  });
});

describe("duties", () => {
  test("are listed by name, and an unknown one is refused", async () => {
    const { store } = await aFile();
    const { duties } = (await sayJson(["duties", "--store", store])) as { duties: { duty: string }[] };
    expect(duties.map(({ duty }) => duty)).toContain("reclaim");
    const { code, err } = await say(["duties", "run", "nap", "--store", store]);
    expect(err).toMatch(/^millrace: invalid-option: There is no duty "nap"; known are promote, /);
    expect(code).toBe(2);
  });

  test("show records that cannot be read, which are deleted by id or by ref", async () => {
    const { path, store } = await aFile();
    edit(path, "UPDATE millrace_spec SET tags = '{{'");
    const { out: found } = await say(["doctor", "--store", store]);
    expect(found).toMatch(/2 records are unreadable: .*\n.*millrace delete REF --unreadable/);
    const { out } = await say(["duties", "--store", store]);
    const lines = out.match(/^unreadable: record .*$/gm) ?? [];
    expect(lines).toHaveLength(2);
    const [, id] =
      /^unreadable: record (\S+) \(ref job:\d+\) cannot be read: .*tags/.exec(lines[0] ?? "") ?? [];
    const [, ref] = /\(ref (job:\d+)\)/.exec(lines[1] ?? "") ?? [];
    expect(await say(["delete", id!, "--store", store])).toMatchObject({ code: 0 });
    expect(await say(["delete", ref!, "--unreadable", "--store", store])).toMatchObject({ code: 0 });
    const again = await say(["delete", ref!, "--unreadable", "--store", store]);
    expect([again.code, again.err]).toEqual([1, expect.stringMatching(/^millrace: job-not-found: /)]);
    expect(await sayJson(["duties", "--store", store])).toMatchObject({ unreadable: [] });
  });
});
