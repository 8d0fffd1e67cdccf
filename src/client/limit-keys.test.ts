// Limits by key from the user's side, on one partition and on four.
import { describe, expect, test } from "vitest";
import { useVirtualMill } from "../../test/support/virtual/use-virtual-mill.ts";
import { deferred } from "../../test/support/virtual/virtual-mill.ts";
import { job } from "../engine/submit/job-definition.ts";
import type { JobDefinition } from "../engine/submit/job-definition.ts";
import { limit } from "../engine/limits/limit-definition.ts";
import { Throttled } from "../worker/control.ts";
import { handler } from "../worker/handler.ts";

const coded = (code: string) => expect.objectContaining({ code });
interface Call {
  readonly tenant: string;
  readonly n: number;
}
const byTenant = { key: ({ tenant }: Call) => tenant };

describe.each([1, 4])("on %i partitions", (partitions) => {
  const v = useVirtualMill({}, partitions);
  const enqueueAll = async (definition: JobDefinition<Call>, calls: readonly Call[]): Promise<string[]> => {
    const ids: string[] = [];
    for (const call of calls) ids.push((await v.run(v.mill.enqueue(definition, call))).id);
    return ids;
  };
  const callsOf = (tenants: string, each: number): readonly Call[] =>
    Array.from({ length: each }, (_, n) => Array.from(tenants, (tenant) => ({ tenant, n }))).flat();

  /** Handlers that run until the test ends them, and how many of each tenant ran at once. */
  const heldOpen = () => {
    const ends: { readonly tenant: string; readonly end: () => void }[] = [];
    const most = new Map<string, number>();
    const running = (tenant: string): number => ends.filter((each) => each.tenant === tenant).length;
    const run = ({ input: { tenant } }: { input: Call }): Promise<void> => {
      const { promise, resolve } = deferred();
      ends.push({ tenant, end: resolve });
      most.set(tenant, Math.max(most.get(tenant) ?? 0, running(tenant)));
      return promise;
    };
    return { ends, most, running, run, endOne: () => ends.shift()?.end() };
  };

  test("each key has its own permits, and the end of one lets the next of its key start", async () => {
    const api = limit("api", { perKey: { concurrency: 2 } });
    const call = job<Call>("call", { limits: [api.use(byTenant)] });
    const { ends, most, run, endOne } = heldOpen();
    await v.run(v.mill.work([handler(call, run)], { concurrency: 50 }));
    const ids = await enqueueAll(call, callsOf("abcd", 5));
    await v.advance(100);
    expect(ends).toHaveLength(8);
    const held = { by: "limit", name: "api", key: "d", use: { held: 2, cap: 2 }, until: null };
    expect((await v.run(v.mill.jobs.get(ids.at(-1)!)))?.held).toEqual(held);
    expect(await v.run(v.mill.limits.state("api", { key: "d" }))).toEqual({
      ...{ name: "api", key: "d", concurrency: 2, rate: null, edited: null },
      ...{ held: 2, free: 0, coolingUntil: null },
    });
    for (let left = 20; left > 0; left--) {
      endOne();
      await v.advance(20);
    }
    expect([...most.values()]).toEqual([2, 2, 2, 2]);
    expect(await v.run(v.mill.jobs.counts())).toEqual({ default: { completed: 20 } });
  });

  test("a limit on all and one on each key hold together, with weights", async () => {
    const api = limit("api", { concurrency: 5, perKey: { concurrency: 4 } });
    const call = job<Call>("call", { limits: [api.use({ ...byTenant, weight: 2 })] });
    const { ends, most, run, endOne } = heldOpen();
    await v.run(v.mill.work([handler(call, run)], { concurrency: 50 }));
    await enqueueAll(call, callsOf("abc", 4));
    await v.advance(100);
    expect(ends).toHaveLength(2);
    expect(await v.run(v.mill.limits.state("api"))).toMatchObject({ held: 4, perKey: { concurrency: 4 } });
    for (let left = 12; left > 0; left--) {
      endOne();
      await v.advance(20);
    }
    expect(Math.max(...most.values())).toBeLessThanOrEqual(2);
    expect(await v.run(v.mill.jobs.counts())).toEqual({ default: { completed: 12 } });
  });

  test("each key has its own tokens, and its own clock lets the next start", async () => {
    const api = limit("api", { perKey: { rate: { max: 1, per: "10s" } } });
    const call = job<Call>("call", { limits: [api.use(byTenant)] });
    const starts = new Map<string, number[]>();
    const run = ({ input: { tenant } }: { input: Call }): void =>
      void starts.set(tenant, [...(starts.get(tenant) ?? []), v.platform.time.now]);
    await v.run(v.mill.work([handler(call, run)], { concurrency: 50 }));
    const from = v.platform.time.now;
    const ids = await enqueueAll(call, callsOf("ab", 3));
    await v.advance(1000);
    const { held, why, expectedAt } = (await v.run(v.mill.explain(ids.at(-1)!)))!;
    expect(held).toMatchObject({ by: "limit", name: "api", key: "b", use: null, until: expectedAt });
    expect(why).toMatch(/^The limit "api" for the key "b" has no token left by its rate for /);
    expect(await v.run(v.mill.limits.state("api", { key: "b" }))).toMatchObject({ held: 0, free: 0 });
    await v.advance(24_000);
    for (const tenant of ["a", "b"]) {
      const [first, second, third] = starts.get(tenant)!.map((at) => at - from);
      expect(first).toBeLessThan(200);
      expect(second! - first!).toBeGreaterThanOrEqual(10_000);
      expect(third! - second!).toBeGreaterThanOrEqual(10_000);
      expect(third).toBeLessThan(20_500);
    }
  });

  test("a throttle cools down the job's own key alone, and it keeps its place", async () => {
    const api = limit("api", { perKey: { concurrency: 1 } });
    const call = job<Call>("call", { limits: [api.use(byTenant)] });
    const ran: string[] = [];
    const run = ({ input: { tenant, n } }: { input: Call }): void => {
      ran.push(`${tenant}${n}`);
      if (tenant === "a" && ran.filter((each) => each === "a0").length === 1)
        throw new Throttled(api, { retryAfter: "30s" });
    };
    await v.run(v.mill.work([handler(call, run)], { concurrency: 1 }));
    const [first] = await enqueueAll(call, callsOf("ab", 3));
    await v.advance(1000);
    expect(ran.toSorted()).toEqual(["a0", "b0", "b1", "b2"]);
    expect(await v.run(v.mill.jobs.get(first!))).toMatchObject({ state: "ready", throttles: 1, attempt: 1 });
    expect(await v.run(v.mill.limits.state("api", { key: "a" }))).toMatchObject({
      coolingUntil: expect.any(Date),
      free: 0,
    });
    expect((await v.run(v.mill.explain(first!)))?.why).toMatch(
      /^The limit "api" for the key "a" cools down after a throttle, for 29/,
    );
    await v.advance(30_000);
    expect(ran.filter((each) => each.startsWith("a"))).toEqual(["a0", "a0", "a1", "a2"]);
  });

  test("a handler may throttle another key, or the whole limit", async () => {
    const api = limit("api", { concurrency: 9, perKey: { concurrency: 9 } });
    const call = job<Call>("call", { limits: [api.use(byTenant)] });
    const ran: string[] = [];
    let scope: string | null = "b";
    const run = ({ input: { tenant, n } }: { input: Call }): void => {
      ran.push(`${tenant}${n}`);
      if (n === 0) throw new Throttled("api", { retryAfter: "10s", key: scope });
    };
    await v.run(v.mill.work([handler(call, run)], { concurrency: 1 }));
    await enqueueAll(call, [{ tenant: "a", n: 0 }]);
    await v.advance(100);
    await enqueueAll(call, callsOf("ab", 2).slice(2));
    await v.advance(5000);
    expect(ran).toEqual(["a0", "a1"]);
    scope = null;
    await v.advance(5600);
    expect(ran).toEqual(["a0", "a1", "b1", "a0"]);
    expect(await v.run(v.mill.limits.state("api"))).toMatchObject({ coolingUntil: expect.any(Date) });
  });

  test("one key can be edited and reset by itself, and an edit of all keys holds at once", async () => {
    const api = limit("api", { perKey: { concurrency: 1 } });
    const call = job<Call>("call", { limits: [api.use(byTenant)] });
    const { running, run, ends } = heldOpen();
    await v.run(v.mill.work([handler(call, run)], { concurrency: 50 }));
    await enqueueAll(call, callsOf("ab", 6));
    await v.advance(100);
    expect(await v.run(v.mill.limits.edit("api", { concurrency: 3 }, { key: "a" }))).toMatchObject({
      ...{ key: "a", concurrency: 3, edited: { concurrency: 3 }, held: 1, free: 2 },
    });
    await v.advance(100);
    expect([running("a"), running("b")]).toEqual([3, 1]);
    await v.run(v.mill.limits.edit("api", { perKey: { concurrency: 2 } }));
    await v.advance(100);
    expect([running("a"), running("b")]).toEqual([3, 2]);
    expect(await v.run(v.mill.limits.reset("api", { key: "a" }))).toMatchObject({
      concurrency: 2,
      edited: null,
    });
    expect((await v.run(v.mill.limits.list())).map(({ name }) => name)).toEqual(["api"]);
    await v.run(v.mill.limits.reset("api"));
    expect(await v.run(v.mill.limits.state("api"))).toMatchObject({
      perKey: { concurrency: 1 },
      defined: null,
    });
    for (const { end } of ends) end();
  });

  test("bounds and throttles of the whole are refused for a limit that bounds keys only", async () => {
    const api = limit("api", { perKey: { concurrency: 1 } });
    await v.run(v.mill.limits.define(api));
    await expect(v.run(v.mill.limits.edit("api", { concurrency: 5 }))).rejects.toThrow(
      coded("invalid-option"),
    );
    await expect(v.run(v.mill.limits.throttle("api"))).rejects.toThrow(coded("invalid-option"));
    await expect(v.run(v.mill.limits.acquire("api"))).rejects.toThrow(coded("invalid-option"));
    await expect(v.run(v.mill.limits.state("other", { key: "a" }))).rejects.toThrow(coded("unknown-limit"));
    await expect(v.run(v.mill.limits.edit("other", { concurrency: 1 }, { key: "a" }))).rejects.toThrow(
      coded("unknown-limit"),
    );
    await expect(v.run(v.mill.limits.throttle("api", { key: "a\nb" }))).rejects.toThrow(
      coded("invalid-name"),
    );
  });

  test("a limit by key works with a group, a delay, a priority and a unique key", async () => {
    const api = limit("api", { perKey: { concurrency: 1 } });
    const call = job<Call>("call", {
      limits: [api.use(byTenant)],
      group: { key: ({ tenant }) => tenant, concurrency: 2 },
    });
    const ran: number[] = [];
    await v.run(v.mill.queues.pause("default"));
    const at = (n: number, options: Parameters<typeof call.with>[1] = {}) =>
      v.run(v.mill.enqueue(call, { tenant: "{t}", n }, options));
    await at(1, { delay: "5s" });
    await at(2, { unique: "u-{t}" });
    expect((await at(3, { unique: "u-{t}" })).created).toBe(false);
    await at(4, { priority: "high" });
    await v.run(v.mill.work([handler(call, ({ input }) => void ran.push(input.n))]));
    await v.run(v.mill.queues.resume("default"));
    await v.advance(6000);
    expect(ran).toEqual([4, 2, 1]);
  });
});
