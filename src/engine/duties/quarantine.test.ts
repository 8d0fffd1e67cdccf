import { describe, expect, test } from "vitest";
import { useVirtualMill } from "../../../test/support/virtual/use-virtual-mill.ts";
import { MillraceError } from "../../model/error.ts";
import { createVirtualPlatform } from "../../testing/virtual-platform.ts";
import { handler } from "../../worker/handler.ts";
import { job } from "../submit/job-definition.ts";
import { Quarantine } from "./quarantine.ts";

const broken = new MillraceError("store-corrupt", "its page is damaged");
const away = new MillraceError("store-unavailable", "the store is away");
const plain = job("plain");

describe("a quarantine", () => {
  test("quarantines an item for growing periods after three failures, and a success clears it", async () => {
    const platform = createVirtualPlatform();
    const quarantine = new Quarantine(platform);
    quarantine.failed("bad", broken);
    quarantine.failed("bad", broken);
    expect(quarantine.has("bad")).toBe(false);
    quarantine.failed("bad", broken);
    const until = platform.now() + 10_000;
    expect(quarantine.list()).toEqual([{ item: "bad", failures: 3, error: "its page is damaged", until }]);
    await platform.time.advance(10_000_000);
    expect(quarantine.has("bad")).toBe(false);
    quarantine.failed("bad", broken);
    await platform.time.advance(10_000_000);
    expect(quarantine.has("bad")).toBe(true);
    quarantine.succeeded("bad");
    expect(quarantine.has("bad")).toBe(false);
    expect(quarantine.list()).toEqual([]);
  });

  test("does not count a store that is away", () => {
    const quarantine = new Quarantine(createVirtualPlatform());
    for (let failure = 0; failure < 10; failure++) quarantine.failed("fine", away);
    expect(quarantine.has("fine")).toBe(false);
    for (let failure = 0; failure < 3; failure++)
      quarantine.failed("slow", new MillraceError("outcome-unknown", "no answer"));
    expect(quarantine.has("slow")).toBe(true);
  });
});

describe("one bad item", () => {
  const v = useVirtualMill({ noHandlerGrace: "1m", retention: { completed: "1m", other: "1m" } });

  /** Makes all changes of this job fail. */
  function poison(id: string): void {
    const changeIf = v.store.changeIf.bind(v.store);
    v.store.changeIf = (changes) =>
      changes.some((change) => change.id === id) ? Promise.reject(broken) : changeIf(changes);
  }

  test("of a clock does not stop later jobs, is shown to operators, and is explained", async () => {
    const bad = await v.run(v.mill.enqueue(plain, {}, { deadline: "1s" }));
    const good = await v.run(v.mill.enqueue(plain, {}, { deadline: "1s" }));
    poison(bad.id);
    v.mill.duties.start();
    await v.advance(60_000);
    expect(await v.run(good.peek())).toMatchObject({ status: "ended", state: "expired" });
    expect(await v.run(v.store.readJobs([bad.id]))).toMatchObject([{ state: "ready" }]);
    expect(await v.run(v.mill.duties.quarantined())).toMatchObject([
      { duty: "deadline", item: bad.id, error: "its page is damaged", until: expect.any(Date) },
    ]);
    expect((await v.run(v.mill.explain(bad.id)))?.why).toMatch(
      /The duty deadline failed on it \d+ times and quarantines it until .*: its page is damaged$/,
    );
    await v.run(v.mill.jobs.delete(good.id));
  });

  test("of a clock delays later jobs by a quarter of a second at most", async () => {
    const bad = await v.run(v.mill.enqueue(plain, {}, { deadline: "1s" }));
    poison(bad.id);
    v.mill.duties.start();
    await v.advance(60_000);
    for (const delay of [2100, 3700, 5300]) {
      const late = await v.run(v.mill.enqueue(plain, {}, { delay }));
      await v.advance(delay + 250);
      expect(await v.run(v.store.readJobs([late.id]))).toMatchObject([{ state: "ready" }]);
    }
  });

  test("without a handler does not keep the others from ending, nor another queue's", async () => {
    const names = ["one", "two"].map((name) => job(name));
    const [bad, ...good] = await v.run(
      v.mill.enqueueMany([plain.with({}), plain.with({}), ...names.map((each) => each.with({}))]),
    );
    poison(bad!.id);
    const find = v.store.findJobs.bind(v.store);
    v.store.findJobs = (request) => (request.filter.name === "one" ? Promise.reject(broken) : find(request));
    await v.run(v.mill.work([handler(job("other"), async () => {})]));
    await v.advance(400_000);
    const states = await v.run(v.store.readJobs([bad!, ...good].map(({ id }) => id)));
    expect(states.map((record) => record?.state)).toEqual(["ready", "failed", "ready", "failed"]);
    expect(await v.run(v.mill.duties.quarantined())).toMatchObject([
      { duty: "no-handler", item: '"default" "one"' },
      { duty: "no-handler", item: bad!.id },
    ]);
  });

  test("kind of history that cannot be pruned does not keep the other kinds", async () => {
    await v.run(v.mill.work([handler(plain, async () => 1)]));
    const done = await v.run(v.mill.enqueue(plain, {}));
    await v.run(done.result());
    const cancelled = await v.run(v.mill.enqueue(plain, {}, { delay: "1d" }));
    await v.run(v.mill.jobs.cancel(cancelled.id));
    const prune = v.store.prune.bind(v.store);
    let tries = 0;
    v.store.prune = (request) =>
      request.what === "history" && request.outcome === "completed"
        ? (tries++, Promise.reject(broken))
        : prune(request);
    await v.advance(3_600_000);
    expect(await v.run(v.store.readJobs([done.id, cancelled.id]))).toMatchObject([
      { state: "completed" },
      null,
    ]);
    // Without the quarantine it would be tried once a minute.
    expect(tries).toBeLessThan(15);
    expect(await v.run(v.mill.duties.run("retention"))).toMatchObject({
      outcomes: { cancelled: 0, feed: 0 },
    });
    expect(await v.run(v.mill.duties.quarantined())).toMatchObject([
      { duty: "retention", item: "completed" },
    ]);
  });

  test("that hangs does not stop the others, and is quarantined like one that fails", async () => {
    const prune = v.store.prune.bind(v.store);
    let hung = 0;
    v.store.prune = (request) =>
      request.what === "history" && request.outcome === "completed"
        ? (hung++, new Promise<never>(() => {}))
        : prune(request);
    const cancelled = await v.run(v.mill.enqueue(plain, {}, { delay: "1d" }));
    await v.run(v.mill.jobs.cancel(cancelled.id));
    v.mill.duties.start();
    await v.advance(3_600_000);
    expect(await v.run(v.store.readJobs([cancelled.id]))).toEqual([null]);
    expect(hung).toBeLessThan(15);
    expect(await v.run(v.mill.duties.quarantined())).toMatchObject([
      { duty: "retention", item: "completed", error: "The store did not answer within 20s." },
    ]);
  });

  test("page ends the walk of the audit, which starts again at the beginning", async () => {
    await v.run(v.mill.enqueueMany(Array.from({ length: 1200 }, () => plain.with({}))));
    const audit = v.store.auditIndexes.bind(v.store);
    const pages: (string | null)[] = [];
    v.store.auditIndexes = (request) => {
      pages.push(request.cursor);
      return request.cursor === null ? audit(request) : Promise.reject(broken);
    };
    v.mill.duties.start();
    await v.advance(120_000);
    expect(pages.filter((page) => page === null).length).toBeGreaterThan(1);
    expect(await v.run(v.mill.duties.quarantined())).toContainEqual(
      expect.objectContaining({ duty: "index-audit", item: expect.stringMatching(/^the page after /) }),
    );
  });

  test("is no longer shown once it succeeds", async () => {
    const bad = await v.run(v.mill.enqueue(plain, {}, { deadline: "1s" }));
    const changeIf = v.store.changeIf.bind(v.store);
    v.store.changeIf = () => Promise.reject(broken);
    v.mill.duties.start();
    await v.advance(60_000);
    expect(await v.run(v.mill.duties.quarantined())).toHaveLength(1);
    v.store.changeIf = changeIf;
    await expect(v.run(bad.result())).rejects.toMatchObject({ code: "job-expired" });
    await v.advance(10);
    expect(await v.run(v.mill.duties.quarantined())).toEqual([]);
  });

  test("is not shown on behalf of a process that has stopped", async () => {
    await v.run(v.mill.enqueue(plain, {}, { deadline: "1s" }));
    v.store.changeIf = () => Promise.reject(broken);
    const put = v.store.putDocs.bind(v.store);
    const bodies: (string | null)[] = [];
    v.store.putDocs = (puts) => {
      bodies.push(...puts.filter(({ kind }) => kind === "quarantine").map(({ body = null }) => body));
      return put(puts);
    };
    v.mill.duties.start();
    await v.advance(60_000);
    await v.close();
    expect(bodies.at(-2)).toContain("its page is damaged");
    expect(bodies.at(-1)).toBeNull();
  });

  test("that is the duty itself is shown without an item", async () => {
    v.store.promoteDue = () => Promise.reject(broken);
    v.mill.duties.start();
    await v.advance(60_000);
    expect(await v.run(v.mill.duties.quarantined())).toMatchObject([
      { duty: "promote", item: null, error: "its page is damaged" },
    ]);
  });
});
