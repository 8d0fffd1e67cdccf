import { describe, expect, test } from "vitest";
import { deferred, openVirtualMill } from "../../../test/support/virtual/virtual-mill.ts";
import { useVirtualMill } from "../../../test/support/virtual/use-virtual-mill.ts";
import { job } from "../../engine/submit/job-definition.ts";
import { handler } from "../../worker/handler.ts";

const v = useVirtualMill();

const plain = job<{ n: number }, number>("plain", { retry: { attempts: 1 } });
const coded = (code: string) => expect.objectContaining({ code });

describe("looking", () => {
  test("lists are newest first, filtered and paged, over live and finished jobs alike", async () => {
    await v.run(
      v.mill.enqueueMany(
        Array.from({ length: 5 }, (_, n) => plain.with({ n }, { tags: [n % 2 === 0 ? "even" : "odd"] })),
      ),
    );
    await v.run(v.mill.enqueue(job("other", { queue: "elsewhere" }), {}));
    const first = await v.run(v.mill.jobs.list({ limit: 4 }));
    const rest = await v.run(v.mill.jobs.list({ limit: 4, cursor: first.cursor }));
    expect([...first.jobs, ...rest.jobs].map(({ input }) => (input as { n?: number }).n)).toEqual([
      undefined,
      4,
      3,
      2,
      1,
      0,
    ]);
    expect((await v.run(v.mill.jobs.list({ tag: "odd" }))).jobs.map(({ input }) => input)).toEqual([
      { n: 3 },
      { n: 1 },
    ]);
    expect((await v.run(v.mill.jobs.list({ queue: "elsewhere" }))).jobs).toHaveLength(1);
    expect((await v.run(v.mill.jobs.list({ state: "failed" }))).jobs).toEqual([]);
    await expect(v.run(v.mill.jobs.list({ state: "odd" as never }))).rejects.toThrow(coded("invalid-option"));
    await expect(v.run(v.mill.jobs.list({ sate: "failed" } as never))).rejects.toThrow(
      coded("invalid-option"),
    );
  });

  test("explain says why a job does not run", async () => {
    const later = await v.run(v.mill.enqueue(plain, { n: 1 }, { delay: "1h" }));
    const ready = await v.run(v.mill.enqueue(plain, { n: 2 }));
    expect(await v.run(v.mill.explain(later.id))).toMatchObject({
      state: "scheduled",
      why: expect.stringMatching(/not due for [\d.]+[hm]/),
      expectedAt: expect.any(Date),
    });
    expect(await v.run(v.mill.explain(ready.id))).toMatchObject({
      state: "ready",
      why: expect.stringContaining('queue "default"'),
      readyLikeThis: 1,
    });
    expect(await v.run(v.mill.explain("nobody"))).toBeNull();
    const started = deferred();
    const release = deferred<number>();
    await v.run(v.mill.work([handler(plain, () => (started.resolve(), release.promise))]));
    await v.run(started.promise);
    expect(await v.run(v.mill.explain(ready.id))).toMatchObject({
      state: "running",
      why: expect.stringContaining("lease ends in"),
    });
    release.resolve(1);
    await v.run(ready.result());
    expect(await v.run(v.mill.explain(ready.id))).toMatchObject({ state: "completed" });
  });
});

describe("operating", () => {
  test("cancel returns what became of the job, by id or for all that match", async () => {
    const handle = await v.run(v.mill.enqueue(plain, { n: 1 }, { tags: ["t"] }));
    await v.run(
      v.mill.enqueueMany([plain.with({ n: 2 }, { tags: ["t"], delay: "1h" }), plain.with({ n: 3 })]),
    );
    expect(await v.run(v.mill.jobs.cancel(handle.id, "changed my mind"))).toBe("cancelled");
    expect(await v.run(v.mill.jobs.get(handle.id))).toMatchObject({
      state: "cancelled",
      reason: "changed my mind",
    });
    expect(await v.run(v.mill.jobs.cancel(handle.id))).toBe("finished");
    expect(await v.run(v.mill.jobs.cancel("nobody"))).toBe("not-found");
    expect(await v.run(v.mill.jobs.cancel({ tag: "t" }))).toEqual({
      cancelled: 1,
      signalled: 0,
      finished: 0,
      "not-found": 0,
    });
    expect(await v.run(v.mill.jobs.counts())).toEqual({ default: { cancelled: 2, ready: 1 } });
  });

  test("retry brings dead letters back: one, all that match, with another input, spread over time", async () => {
    let isBroken = true;
    await v.run(
      v.mill.work([
        handler(plain, async ({ input }) => {
          if (isBroken) throw new Error("broken");
          return input.n;
        }),
      ]),
    );
    const handles = await v.run(v.mill.enqueueMany([1, 2, 3, 4].map((n) => plain.with({ n }))));
    for (const handle of handles) await expect(v.run(handle.result())).rejects.toThrow(coded("job-failed"));
    isBroken = false;
    const [first] = handles;
    expect(await v.run(v.mill.jobs.retry(first!.id, { input: { n: 100 } }))).toBe("retried");
    expect(await v.run(first!.result())).toBe(100);
    expect(await v.run(v.mill.jobs.get(first!.id))).toMatchObject({ attempt: 1, id: first!.id });
    const from = v.platform.time.now;
    expect(await v.run(v.mill.jobs.retry({ name: "plain" }, { perSecond: 2 }))).toEqual({
      retried: 3,
      unfinished: 0,
      "key-held": 0,
      "flow-member": 0,
      "not-found": 0,
    });
    await Promise.all(handles.slice(1).map((handle) => v.run(handle.result())));
    expect(v.platform.time.now - from).toBeGreaterThanOrEqual(1000);
    expect(await v.run(v.mill.jobs.retry("nobody"))).toBe("not-found");
    const waiting = await v.run(v.mill.enqueue(plain, { n: 1 }, { delay: "1h" }));
    expect(await v.run(v.mill.jobs.retry(waiting.id))).toBe("unfinished");
  });

  test("without a reset a replayed job gets one more attempt and goes on counting", async () => {
    await v.run(v.mill.work([handler(plain, () => Promise.reject(new Error("still")))]));
    const handle = await v.run(v.mill.enqueue(plain, { n: 1 }));
    await expect(v.run(handle.result())).rejects.toThrow(coded("job-failed"));
    await v.run(v.mill.jobs.retry(handle.id, { resetAttempts: false }));
    await expect(v.run(handle.result())).rejects.toThrow(coded("job-failed"));
    expect(await v.run(v.mill.jobs.get(handle.id))).toMatchObject({
      attempt: 2,
      failures: [{ attempt: 1 }, { attempt: 2 }],
    });
  });

  test("a revoked job is shown as such, and a handle can cancel its job", async () => {
    const started = deferred();
    await v.run(v.mill.work([handler(plain, () => (started.resolve(), deferred<number>().promise))]));
    const handle = await v.run(v.mill.enqueue(plain, { n: 1 }));
    await v.run(started.promise);
    await v.run(v.mill.jobs.revoke(handle.id));
    const { records } = await v.run(v.store.readFeed({ after: 0, max: 100 }));
    expect(records.flatMap(({ events }) => events.map(({ kind }) => kind))).toContain("revoked");
    const waiting = await v.run(v.mill.enqueue(plain, { n: 2 }, { delay: "1h" }));
    expect(await v.run(waiting.cancel("changed my mind"))).toBe("cancelled");
    expect(await v.run(waiting.cancel())).toBe("finished");
    expect(await v.run(v.mill.jobs.list({ state: ["cancelled", "failed"] }))).toMatchObject({
      jobs: [{ id: waiting.id, reason: "changed my mind" }],
    });
  });

  test("a revoke keeps an earlier cancel: a job whose cancel was asked for ends as cancelled", async () => {
    const started = deferred();
    let runs = 0;
    await v.run(v.mill.work([handler(plain, () => (runs++, started.resolve(), deferred<number>().promise))]));
    const handle = await v.run(v.mill.enqueue(plain, { n: 1 }));
    await v.run(started.promise);
    await v.run(Promise.all([handle.cancel("enough"), v.mill.jobs.revoke(handle.id)]));
    await v.advance(60_000);
    expect(await v.run(v.mill.jobs.get(handle.id))).toMatchObject({ state: "cancelled", reason: "enough" });
    expect(runs).toBe(1);
  });

  test("a replay is refused while another job holds the unique key", async () => {
    const failed = await v.run(v.mill.enqueue(plain, { n: 1 }, { unique: "k" }));
    await v.run(v.mill.jobs.cancel(failed.id));
    await v.run(v.mill.enqueue(plain, { n: 2 }, { unique: "k" }));
    expect(await v.run(v.mill.jobs.retry(failed.id))).toBe("key-held");
  });

  test("a waiting job can be run now with another input, rescheduled and edited", async () => {
    const handle = await v.run(v.mill.enqueue(plain, { n: 1 }, { delay: "1h" }));
    await v.run(v.mill.jobs.reschedule(handle.id, { delay: "2h" }));
    expect((await v.run(v.mill.jobs.get(handle.id)))!.dueAt.getTime() - v.platform.time.now).toBe(7_200_000);
    await v.run(v.mill.jobs.edit(handle.id, { input: { n: 5 }, priority: "high" }));
    await v.run(v.mill.jobs.runNow(handle.id, { input: { n: 7 } }));
    expect(await v.run(v.mill.jobs.get(handle.id))).toMatchObject({ state: "ready" });
    await v.run(v.mill.work([handler(plain, async ({ input }) => input.n)]));
    expect(await v.run(handle.result())).toBe(7);
    expect(await v.run(v.mill.jobs.runNow(handle.id))).toBe("not-scheduled");
    await expect(v.run(v.mill.jobs.edit(handle.id, { input: 1 }))).rejects.toThrow(coded("job-changed"));
  });

  test("headers can be edited before the start, and the trace context stays", async () => {
    const options = {
      delay: "1h",
      headers: { tenant: "1", old: "x" },
      trace: { traceparent: "00-1" },
    } as const;
    const tagged = job("tagged");
    const handle = await v.run(v.mill.enqueue(tagged, { n: 1 }, options));
    await v.run(v.mill.jobs.edit(handle.id, { headers: { tenant: "2" } }));
    await v.run(v.mill.jobs.edit(handle.id, { tags: ["late", "late", "paid"] }));
    expect((await v.run(v.mill.jobs.list({ tag: "paid" }))).jobs).toMatchObject([
      { id: handle.id, tags: ["late", "paid"], headers: { tenant: "2" } },
    ]);
    await v.run(v.mill.jobs.edit(handle.id, { tags: [] }));
    expect((await v.run(v.mill.jobs.list({ tag: "paid" }))).jobs).toEqual([]);
    const many = Array.from({ length: 17 }, (_, n) => `t${n}`);
    for (const tags of [many, [""], "paid"] as never[])
      await expect(v.run(v.mill.jobs.edit(handle.id, { tags }))).rejects.toMatchObject({
        code: expect.stringMatching(/^invalid-(option|name)$/),
      });
    await v.run(v.mill.jobs.runNow(handle.id));
    await v.run(v.mill.work([handler(tagged, async ({ headers, trace }) => ({ headers, trace }))]));
    expect(await v.run(handle.result())).toEqual({
      headers: { tenant: "2" },
      trace: { traceparent: "00-1" },
    });
    await expect(v.run(v.mill.jobs.edit(handle.id, { headers: { a: 1 } as never }))).rejects.toThrow(
      coded("invalid-option"),
    );
  });

  test("an edited priority moves the job in the order", async () => {
    const [, last] = await v.run(v.mill.enqueueMany([plain.with({ n: 1 }), plain.with({ n: 2 })]));
    await v.run(v.mill.jobs.edit(last!.id, { priority: "critical" }));
    const order: number[] = [];
    await v.run(v.mill.work([handler(plain, async ({ input }) => order.push(input.n))], { concurrency: 1 }));
    await v.advance(1000);
    expect(order).toEqual([2, 1]);
  });

  test("delete deletes one job or all of a queue, and a running job stays", async () => {
    const started = deferred();
    const release = deferred<number>();
    const [first] = await v.run(v.mill.enqueueMany([1, 2, 3, 4].map((n) => plain.with({ n }))));
    await v.run(
      v.mill.work([handler(plain, () => (started.resolve(), release.promise))], { concurrency: 1 }),
    );
    await v.run(started.promise);
    expect(await v.run(v.mill.jobs.delete(first!.id))).toBe("running");
    expect(await v.run(v.mill.jobs.delete({ queue: "default" }))).toEqual({
      deleted: 3,
      running: 0,
      "flow-member": 0,
      deleting: 0,
      "has-undo": 0,
      "not-found": 0,
    });
    expect(await v.run(v.mill.jobs.counts())).toEqual({ default: { running: 1 } });
    release.resolve(1);
    await v.run(first!.result());
    expect(await v.run(v.mill.jobs.delete(first!.id))).toBe("deleted");
    expect(await v.run(v.mill.jobs.delete(first!.id))).toBe("not-found");
    expect(await v.run(v.mill.jobs.get(first!.id))).toBeNull();
  });

  test("finished jobs are pruned after their retention, or at once if they keep nothing", async () => {
    const w = await openVirtualMill({ retention: { completed: "1h" } });
    const short = job("short", { retention: { completed: "10m" } });
    const none = job("none", { retention: { completed: 0 } });
    await w.run(
      w.mill.work([plain, short, none].map((each) => handler(each as typeof plain, async () => 1))),
    );
    const handles = [];
    for (const each of [plain, short])
      handles.push(await w.run(w.mill.enqueue(each as typeof plain, { n: 1 })));
    await w.run(w.mill.enqueue(none, {}));
    for (const handle of handles) await w.run(handle.result());
    await w.advance(1000);
    expect(await w.run(w.mill.jobs.counts())).toEqual({ default: { completed: 2 } });
    await w.advance(15 * 60_000);
    expect(await w.run(w.mill.jobs.counts())).toEqual({ default: { completed: 1 } });
    await w.advance(60 * 60_000);
    expect(await w.run(w.mill.jobs.counts())).toEqual({});
    await w.close();
  });

  test("an outcome with a retention of 0 at open writes no history, unless the job says otherwise", async () => {
    const w = await openVirtualMill({ retention: { completed: 0 } });
    const kept = job("kept", { retention: { completed: "10m" } });
    const half = job("half", { retention: { failed: "10m" } });
    const settled: unknown[] = [];
    const settle = w.store.settleIfLeased.bind(w.store);
    w.store.settleIfLeased = (settles) => {
      for (const { next } of settles) if ("keepMs" in next) settled.push([next.to, next.keepMs]);
      return settle(settles);
    };
    await w.run(w.mill.work([plain, kept, half].map((each) => handler(each as typeof plain, async () => 1))));
    for (const each of [plain, kept, half]) await w.run(w.mill.enqueue(each as typeof plain, { n: 1 }));
    await w.advance(1000);
    expect(settled).toEqual([
      ["completed", 0],
      ["completed", 600_000],
      ["completed", 0],
    ]);
    expect(await w.run(w.mill.jobs.counts())).toEqual({ default: { completed: 1 } });
    await w.close();
  });

  test("a job without a handler in any worker of its queue ends as no-handler after its grace, and only then", async () => {
    const w = await openVirtualMill({ noHandlerGrace: "1h" });
    const orphan = await w.run(w.mill.enqueue(job("renamed"), {}));
    const elsewhere = await w.run(w.mill.enqueue(job("other", { queue: "unserved" }), {}));
    await w.run(w.mill.work([handler(plain, async () => 1)]));
    await w.advance(59 * 60_000);
    expect(await w.run(orphan.peek())).toEqual({ status: "pending" });
    await w.advance(3 * 60_000);
    expect(await w.run(orphan.peek())).toEqual({ status: "ended", state: "failed", reason: "no-handler" });
    expect(await w.run(elsewhere.peek())).toEqual({ status: "pending" });
    await w.close();
  });

  test("a duty run by hand returns what it did", async () => {
    await v.run(v.mill.enqueue(plain, { n: 1 }, { delay: "1s" }));
    await v.advance(1000);
    expect(await v.run(v.mill.duties.run("promote"))).toMatchObject({
      processed: 1,
      errors: 0,
      outcomes: { promoted: 1 },
    });
    await expect(v.mill.duties.run("nap")).rejects.toThrow(coded("invalid-option"));
    for (const name of v.mill.duties.names)
      expect(await v.run(v.mill.duties.run(name))).toMatchObject({ errors: 0 });
  });
});

describe("mistakes are refused", () => {
  const wrong: readonly (readonly [string, () => Promise<unknown>])[] = [
    ["a malformed cursor", () => v.mill.jobs.list({ cursor: "zzz" })],
    ["a limit that is not a number", () => v.mill.jobs.list({ limit: Number.NaN })],
    ["a filter by a number", () => v.mill.jobs.list({ queue: 5 as never })],
    ["a delete without a condition", () => v.mill.jobs.delete({})],
    ["a delete of an undefined queue", () => v.mill.jobs.delete({ queue: undefined as never })],
    ["a cancel of nothing", () => v.mill.jobs.cancel(undefined as never)],
    ["a retry at no speed", () => v.mill.jobs.retry({ state: "failed" }, { perSecond: 0 })],
    ["a retry at two times", () => v.mill.jobs.retry({ state: "failed" }, { delay: 1, runAt: 1 })],
    ["a reschedule without a time", async () => v.mill.jobs.reschedule("a", {})],
    ["an unknown option of runNow", async () => v.mill.jobs.runNow("a", { inptu: 1 } as never)],
    ["a value that is not a job", () => v.mill.enqueue("plain" as never, {})],
    ["a list of other values", () => v.mill.enqueueMany([plain] as never)],
    ["a worker of definitions", () => v.mill.work([plain] as never)],
    ["a router that is not a function", () => openVirtualMill({ router: "x" as never })],
    ["a logger without functions", () => openVirtualMill({ log: {} as never })],
  ];
  test.each(wrong)("%s", async (_what, act) => {
    await v.run(v.mill.enqueue(plain, { n: 1 }));
    await expect(v.run(act())).rejects.toThrow(coded("invalid-option"));
    expect(await v.run(v.mill.jobs.counts())).toEqual({ default: { ready: 1 } });
  });

  test("a wait on a closed Millrace", async () => {
    const w = await openVirtualMill();
    const handle = await w.run(w.mill.enqueue(plain, { n: 1 }));
    await w.close();
    await expect(handle.result()).rejects.toThrow(coded("closed"));
  });
});

describe("the caller's KV", () => {
  test("puts, gets, deletes, compares and sets, expires and scans by prefix in byte order", async () => {
    const { kv } = v.mill;
    expect(await v.run(kv.get("a"))).toBeUndefined();
    expect(await v.run(kv.put("a", { when: new Date(5) }))).toBe(1);
    expect(await v.run(kv.get("a"))).toEqual({ when: new Date(5) });
    expect(await v.run(kv.put("a", 2, { version: 1 }))).toBe(2);
    await expect(v.run(kv.put("a", 3, { version: 1 }))).rejects.toThrow(coded("version-conflict"));
    await expect(v.run(kv.put("a", 3, { version: 0 }))).rejects.toThrow(coded("version-conflict"));
    await expect(v.run(kv.put("", 1))).rejects.toThrow(coded("invalid-name"));
    await v.run(kv.delete("a"));
    expect(await v.run(kv.getEntry("a"))).toBeUndefined();
    for (const key of ["p:b", "p:a", "q", "p:𝒳", "p:ä"]) await v.run(kv.put(key, key));
    const collect = async (): Promise<string[]> => {
      const keys: string[] = [];
      for await (const { key } of kv.scan("p:")) keys.push(key);
      return keys;
    };
    expect(await v.run(collect())).toEqual(["p:a", "p:b", "p:ä", "p:𝒳"]);
    await v.run(kv.put("brief", 1, { ttl: "1m" }));
    await v.advance(60_000);
    expect(await v.run(kv.get("brief"))).toBeUndefined();
  });
});
