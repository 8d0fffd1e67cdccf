/** Workers with capabilities: who runs what, how routes are learned, and that everybody else claims as before. */
import { afterEach, describe, expect, test } from "vitest";
import { millOn } from "../../../test/support/mill-on.ts";
import { useVirtualMill } from "../../../test/support/virtual/use-virtual-mill.ts";
import type { Millrace } from "../../client/millrace.ts";
import { job } from "../../engine/submit/job-definition.ts";
import { routeNumber } from "../../model/routing/route.ts";
import type { Store } from "../../store/store.ts";
import { handler } from "../handler.ts";
import type { WorkerOptions } from "../worker-settings.ts";

const render = job<{ n: number }, string>("render", { requires: ["gpu"] });
const plain = job<{ n: number }, string>("plain");

const v = useVirtualMill();
const others: Millrace[] = [];
afterEach(async () => {
  for (const mill of others.splice(0)) await v.run(mill.close());
});

/** Another process on the same store, with what it asked of it. */
function another(change: (store: Store) => Partial<Store> = () => ({})): { mill: Millrace; calls: string[] } {
  const calls: string[] = [];
  const store: Store = { ...v.store, close: async () => undefined, ...change(v.store) };
  const counted = new Proxy(store, {
    get: (target, key, self) => {
      const value: unknown = Reflect.get(target, key, self);
      if (typeof value !== "function") return value;
      return (...given: unknown[]) => {
        calls.push(String(key));
        return (value as (...args: unknown[]) => unknown).apply(target, given);
      };
    },
  });
  const mill = millOn(counted, {}, v.platform);
  others.push(mill);
  return { mill, calls };
}

const tell = (who: string) => async () => who;

function work(mill: Millrace, who: string, options: WorkerOptions = {}) {
  return v.run(mill.work([handler(render, tell(who)), handler(plain, tell(who))], options));
}

const reads = (calls: readonly string[]): number => calls.filter((call) => call === "readRoutes").length;

describe("a job that requires capabilities", () => {
  test("waits for a worker that offers all of them", async () => {
    await work(v.mill, "none");
    await work(another().mill, "eu", { capabilities: ["eu"] });
    const both = await v.run(v.mill.enqueue(render, { n: 1 }, { requires: ["gpu", "eu", "gpu"] }));
    const one = await v.run(v.mill.enqueue(render, { n: 2 }));
    await v.advance(120_000);
    expect(await v.run(v.mill.jobs.get(both.id))).toMatchObject({ state: "ready", requires: ["eu", "gpu"] });
    await work(another().mill, "gpu", { capabilities: ["gpu"] });
    expect(await v.run(one.result())).toBe("gpu");
    await v.advance(60_000);
    expect(await v.run(v.mill.jobs.get(both.id))).toMatchObject({ state: "ready", attempt: 0 });
    await work(another().mill, "all", { capabilities: ["ssd", "gpu", "eu"] });
    expect(await v.run(both.result())).toBe("all");
  });

  test("may require nothing after all, by the option of its enqueue", async () => {
    await work(v.mill, "none");
    const handle = await v.run(v.mill.enqueue(render, { n: 1 }, { requires: [] }));
    expect(await v.run(handle.result())).toBe("none");
  });

  test("can be a follow-up and one of many, with requirements of its own", async () => {
    const first = job<{ n: number }, string>("first");
    await v.run(
      v.mill.work(
        [
          handler(first, async (context) => {
            context.enqueue(render, { n: 1 }, { requires: ["eu"] });
            return "done";
          }),
        ],
        { capabilities: [] },
      ),
    );
    await v.run((await v.run(v.mill.enqueue(first, { n: 0 }))).result());
    await v.run(
      v.mill.enqueueMany([render.with({ n: 2 }), render.with({ n: 3 }, { requires: ["eu", "gpu"] })]),
    );
    const { jobs } = await v.run(v.mill.jobs.list({ name: "render" }));
    expect(jobs.map(({ requires }) => requires).toReversed()).toEqual([["eu"], ["gpu"], ["eu", "gpu"]]);
  });
});

test("capabilities mean the same on a store of four partitions", async () => {
  await v.reopen({}, 4);
  await work(v.mill, "none");
  const { mill } = another();
  await work(mill, "able", { capabilities: ["eu", "gpu"] });
  const ids = Array.from({ length: 12 }, (_, n) => ({ id: `given-${n}` }));
  const handles = await Promise.all(
    ids.map((given, n) => v.run(v.mill.enqueue(render, { n }, { ...given, requires: n % 2 ? ["eu"] : [] }))),
  );
  expect(await Promise.all(handles.map((handle) => v.run(handle.result())))).toEqual(
    ids.map((_, n) => (n % 2 ? "able" : expect.any(String))),
  );
  const held = await Promise.all(
    ids.map(({ id }) => v.run(v.mill.enqueue(plain, { n: 1 }, { id: `${id}-held`, requires: ["tpu"] }))),
  );
  await v.advance(60_000);
  expect(await v.run(v.mill.jobs.counts())).toEqual({ default: { completed: 12, ready: 12, held: 12 } });
  expect(await v.run(v.mill.explain(held[0]!.id))).toMatchObject({ readyLikeThis: 12 });
});

describe("a worker with capabilities", () => {
  test("hears of a combination that nobody asked for before at once, in another process", async () => {
    const { mill, calls } = another();
    await work(mill, "gpu", { capabilities: ["gpu", "eu"] });
    await v.advance(1000);
    expect(reads(calls)).toBe(1);
    const sentAt = v.platform.now();
    const handle = await v.run(v.mill.enqueue(render, { n: 1 }, { requires: ["eu", "gpu"] }));
    expect(await v.run(handle.result())).toBe("gpu");
    expect(v.platform.now() - sentAt).toBeLessThan(100);
    expect(reads(calls)).toBe(2);
    await v.run((await v.run(v.mill.enqueue(render, { n: 2 }, { requires: ["eu", "gpu"] }))).result());
    expect(reads(calls)).toBe(2);
  });

  test("needs no read for what its own process enqueues", async () => {
    const { mill, calls } = another();
    await work(mill, "gpu", { capabilities: ["gpu"] });
    await v.advance(1000);
    const handle = await v.run(mill.enqueue(render, { n: 1 }));
    expect(await v.run(handle.result())).toBe("gpu");
    const later = await v.run(mill.enqueue(plain, { n: 1 }, { requires: ["gpu"], delay: 5000 }));
    expect(await v.run(later.result())).toBe("gpu");
    expect(reads(calls)).toBe(1);
  });

  test("reads routes only once in a while, however many hints name what it does not serve", async () => {
    const { mill, calls } = another();
    await work(mill, "gpu", { capabilities: ["gpu"] });
    await v.advance(1000);
    for (let n = 0; n < 100; n++) await v.run(v.mill.enqueue(job(`unknown-${n}`), { n }));
    const times = reads(calls);
    expect(times).toBeLessThanOrEqual(3);
    await v.advance(1000);
    const settled = reads(calls);
    expect(settled - times).toBeLessThanOrEqual(1);
    for (let n = 0; n < 100; n++) await v.run(v.mill.enqueue(job(`unknown-${n}`), { n }));
    expect(reads(calls)).toBe(settled);
  });

  test("finds by itself what no hint announced", async () => {
    const { mill } = another(() => ({ watch: () => () => undefined }));
    await work(mill, "gpu", { capabilities: ["gpu"] });
    await v.advance(1000);
    const handle = await v.run(v.mill.enqueue(render, { n: 1 }));
    await v.advance(45_000);
    expect(await v.run(v.mill.jobs.get(handle.id))).toMatchObject({ state: "completed" });
  });

  test("learns the routes once the store can be read again", async () => {
    let isAway = true;
    const { mill } = another((store) => ({
      watch: () => () => undefined,
      readRoutes: () => (isAway ? Promise.reject(new Error("away")) : store.readRoutes()),
    }));
    const handle = await v.run(v.mill.enqueue(render, { n: 1 }));
    await work(mill, "gpu", { capabilities: ["gpu"] });
    await v.advance(3000);
    expect(await v.run(v.mill.jobs.get(handle.id))).toMatchObject({ state: "ready" });
    isAway = false;
    await v.advance(10_000);
    expect(await v.run(v.mill.jobs.get(handle.id))).toMatchObject({ state: "completed" });
  });

  test("serves more combinations than one claim may offer, all of them soon", async () => {
    const names = Array.from({ length: 200 }, (_, at) => `c${at}`);
    await v.run(v.mill.enqueueMany(names.map((name, n) => plain.with({ n }, { requires: [name] }))));
    const { mill } = another();
    await work(mill, "able", { capabilities: names });
    await v.advance(100);
    expect(await v.run(v.mill.jobs.counts())).toEqual({ default: { completed: 200 } });
    for (const name of ["c3", "c77", "c199"]) {
      const sentAt = v.platform.now();
      await v.run((await v.run(v.mill.enqueue(plain, { n: 1 }, { requires: [name] }))).result());
      expect(v.platform.now() - sentAt).toBeLessThan(100);
    }
  });
});

test("one capable worker of a hundred takes its job within 100 ms, and no other claims for it", async () => {
  const crowd = await Promise.all(
    Array.from({ length: 99 }, async (_, at) => {
      const each = another();
      // Every third offers something else.
      await work(each.mill, "other", at % 3 === 0 ? { capabilities: ["eu"] } : {});
      return each;
    }),
  );
  await work(another().mill, "gpu", { capabilities: ["gpu"] });
  await v.advance(1000);
  const waits: number[] = [];
  for (const { calls } of crowd) calls.length = 0;
  for (let n = 0; n < 50; n++) {
    const sentAt = v.platform.now();
    const handle = await v.run(v.mill.enqueue(render, { n }));
    expect(await v.run(handle.result())).toBe("gpu");
    waits.push(v.platform.now() - sentAt);
  }
  expect(Math.max(...waits)).toBeLessThan(100);
  for (const { calls } of crowd) {
    // Whose the new route is, everybody asks once.
    expect(reads(calls)).toBeLessThanOrEqual(1);
    expect(calls.filter((call) => call === "claim")).toEqual([]);
  }
});

test("a worker without capabilities reads the routes rarely and claims what it always did", async () => {
  const offered: unknown[] = [];
  const { mill, calls } = another((store) => ({
    claim: (request) => {
      offered.push(request.offers.map(({ routes }) => routes));
      return store.claim(request);
    },
  }));
  await work(mill, "none");
  await v.run(v.mill.enqueue(render, { n: 1 }));
  const handle = await v.run(v.mill.enqueue(plain, { n: 1 }));
  await v.run(handle.result());
  await v.advance(120_000);
  // At its start, for the first hint of the other route, and every 30 s.
  expect(reads(calls)).toBeLessThanOrEqual(6);
  const routes = [routeNumber("default", "render"), routeNumber("default", "plain")];
  for (const each of offered) expect(each).toEqual([routes]);
});

describe("wrong capabilities are refused", () => {
  test.each([
    ["a text", "gpu", "invalid-option"],
    ["an empty name", [""], "invalid-name"],
    ["control characters", ["a\u0000"], "invalid-name"],
    ["a name of 256 bytes", ["x".repeat(256)], "invalid-name"],
    ["a number", [7], "invalid-name"],
    ["null", null, "invalid-option"],
  ])("%s", async (_what, given, code) => {
    const requires = given as readonly string[];
    const before = await v.run(v.mill.jobs.counts());
    await expect(v.run(v.mill.enqueue(plain, { n: 1 }, { requires: requires }))).rejects.toMatchObject({
      code,
    });
    const many = v.mill.enqueueMany([plain.with({ n: 1 }), plain.with({ n: 2 }, { requires: requires })]);
    await expect(v.run(many)).rejects.toMatchObject({ code });
    expect(() => job("bad", { requires: requires })).toThrow(expect.objectContaining({ code }));
    const work = v.mill.work([handler(plain, tell("x"))], { capabilities: requires });
    await expect(v.run(work)).rejects.toMatchObject({ code });
    expect(await v.run(v.mill.jobs.counts())).toEqual(before);
  });

  test("33 of a job", async () => {
    const requires = Array.from({ length: 33 }, (_, at) => `c${at}`);
    await expect(v.run(v.mill.enqueue(plain, { n: 1 }, { requires }))).rejects.toMatchObject({
      code: "invalid-option",
      message: 'enqueue "plain": requires has 33 names; at most 32 are allowed.',
    });
  });
});
