/** Jobs whose own record a store hands back whole, but whose policy, meta or attempt log cannot be read. */
import { describe, expect, test } from "vitest";
import { aClaim, aJob, aRoute, schedule } from "../../../test/support/builders.ts";
import { useVirtualMill } from "../../../test/support/virtual/use-virtual-mill.ts";
import { job } from "../../engine/submit/job-definition.ts";
import type { NewJob } from "../../store/records.ts";
import { handler } from "../handler.ts";

const v = useVirtualMill();
const send = job<string, string>("send", { queue: "mail" });

const damaged: readonly (readonly [what: string, part: string, fields: Partial<NewJob>])[] = [
  ["a policy that is cut off", "policy", { policy: '{"attempts":' }],
  ["a policy that is no object", "policy", { policy: "[1]" }],
  ["attempts that are no number", "policy", { policy: '{"attempts":"many"}' }],
  ["a backoff without a kind", "policy", { policy: '{"backoff":{"delaysMs":[1]}}' }],
  ["a list backoff without delays", "policy", { policy: '{"backoff":{"kind":"list"}}' }],
  ["a retention of null", "policy", { policy: '{"retention":null}' }],
  ["paths to redact that are no list", "policy", { policy: '{"redact":7}' }],
  ["a meta that is cut off", "meta", { meta: '{"headers"' }],
  ["headers that are no texts", "meta", { meta: '{"headers":{"a":{}}}' }],
];
const logs = [
  '{"entries":[',
  "7",
  '{"entries":[null]}',
  '{"entries":[{"attempt":1,"outcome":"failed","at":"x"}]}',
];

const submit = (...jobs: readonly NewJob[]): Promise<unknown> => v.run(v.store.submit([{ jobs }]));

/** A job of which an attempt has failed and left this log. */
async function withLog(id: string, attempts: string): Promise<void> {
  await submit(aJob({ id }));
  const { jobs } = await v.run(v.store.claim(aClaim({ offers: [{ routes: [aRoute()], max: 1 }] })));
  await v.run(v.store.settleIfLeased([{ ...jobs[0]!, next: schedule(0), attempts }]));
}

describe("a job of which a part cannot be read", () => {
  test.each(damaged)("%s: ends as record-unreadable and its neighbours run", async (_what, part, fields) => {
    await submit(aJob({ id: "before" }), aJob({ id: "bad", ...fields }), aJob({ id: "after" }));
    const ran: string[] = [];
    await v.run(v.mill.work([handler(send, async ({ id }) => (ran.push(id), id))]));
    await v.advance(1000);
    expect(ran).toEqual(["before", "after"]);
    const view = await v.run(v.mill.jobs.get("bad"));
    expect(view).toMatchObject({ state: "failed", reason: "record-unreadable", attempt: 1 });
    expect(view?.failures.at(-1)?.error?.message).toContain(part);
  });

  test.each(logs)("the attempt log %s: ends the same way, with the entries that can be read", async (log) => {
    await withLog("bad", log);
    await submit(aJob({ id: "after" }));
    const ran: string[] = [];
    await v.run(v.mill.work([handler(send, async ({ id }) => (ran.push(id), id))]));
    await v.advance(1000);
    expect(ran).toEqual(["after"]);
    expect(await v.run(v.mill.jobs.get("bad"))).toMatchObject({
      state: "failed",
      reason: "record-unreadable",
      failures: [{ outcome: "failed", error: { message: expect.stringContaining("attempts") } }],
    });
  });

  test("is listed beside the others, and what its policy may want hidden is not shown", async () => {
    await submit(
      aJob({ id: "fine" }),
      ...damaged.map(([, , fields], at) => aJob({ id: `bad-${at}`, ...fields })),
    );
    for (const [at, log] of logs.entries()) await withLog(`log-${at}`, log);
    const { jobs } = await v.run(v.mill.jobs.list());
    expect(jobs).toHaveLength(1 + damaged.length + logs.length);
    for (const [at, [, part]] of damaged.entries())
      expect(jobs.find(({ id }) => id === `bad-${at}`)?.input).toBe(
        part === "policy" ? "[unreadable]" : `bad-${at}`,
      );
    for (const { id } of jobs) expect((await v.run(v.mill.explain(id)))?.why).toMatch(/No live worker/);
  });

  test("can be cancelled, edited and deleted", async () => {
    await submit(...damaged.map(([, , fields], at) => aJob({ id: `bad-${at}`, ...fields })));
    await v.run(v.mill.jobs.edit("bad-0", { priority: "high" }));
    expect((await v.run(v.mill.jobs.get("bad-0")))?.input).toBe("[unreadable]");
    expect(await v.run(v.mill.jobs.delete("bad-0"))).toBe("deleted");
    expect(await v.run(v.mill.jobs.cancel({ queue: "mail" }))).toMatchObject({
      cancelled: damaged.length - 1,
    });
    expect(await v.run(v.mill.jobs.delete({ queue: "mail" }))).toMatchObject({ deleted: damaged.length - 1 });
  });

  test("is reclaimed after a crash, by the defaults, and its neighbours too", async () => {
    await submit(
      aJob({ id: "fine" }),
      ...damaged.map(([, , fields], at) => aJob({ id: `bad-${at}`, ...fields })),
    );
    await v.run(v.store.claim(aClaim({ max: 100 })));
    v.mill.duties.start();
    await v.advance(60_000);
    expect(await v.run(v.mill.jobs.counts())).toEqual({ mail: { ready: 1 + damaged.length } });
    expect(await v.run(v.mill.unreadable.list())).toEqual([]);
  });
});

test("a list of quarantined items that cannot be read does not keep a job from being explained", async () => {
  await submit(aJob({ id: "fine" }));
  const expiresInMs = 60_000;
  await v.run(
    v.store.putDocs(
      ["worker", "quarantine"].map((kind) => ({
        kind,
        id: "x",
        body: "{",
        guard: "any" as const,
        expiresInMs,
      })),
    ),
  );
  expect((await v.run(v.mill.explain("fine")))?.why).toMatch(/No live worker/);
});
