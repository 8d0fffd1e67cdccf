// Permits of keys of limits that code takes by itself, on one partition and on four.
import { describe, expect, test } from "vitest";
import { millOn } from "../../../test/support/mill-on.ts";
import { useVirtualMill } from "../../../test/support/virtual/use-virtual-mill.ts";
import { deferred } from "../../../test/support/virtual/virtual-mill.ts";
import type { Millrace } from "../../client/millrace.ts";
import { job } from "../../engine/submit/job-definition.ts";
import { limit } from "../../engine/limits/limit-definition.ts";
import { permitQueue, permitTtlMs } from "../../model/limits/permit.ts";
import type { Hint, Store } from "../../store/store.ts";
import { handler } from "../handler.ts";
import type { Permit } from "./permit.ts";

const coded = (code: string) => expect.objectContaining({ code });

describe.each([1, 4])("on %i partitions", (partitions) => {
  const v = useVirtualMill({}, partitions);
  const shop = limit("shop", { perKey: { concurrency: 1 } });
  const inStore = async (): Promise<number> => {
    const stateCounts = await v.run(v.store.countJobs());
    return stateCounts.reduce((sum, { count }) => sum + count, 0);
  };
  const take = (key: string, options: object = {}, mill: Millrace = v.mill): Promise<Permit> =>
    v.run(mill.limits.acquire(shop, { key, ...options }));
  const releaseAll = (permits: readonly Permit[]): Promise<unknown> =>
    v.run(Promise.all(permits.map((permit) => permit.release())));
  const permitRoutes = async (): Promise<number> =>
    (await v.run(v.store.readRoutes())).filter(({ queue }) => queue === permitQueue).length;

  test("each key has its own permits, and one that is full keeps nobody else waiting", async () => {
    const ann = await take("ann");
    expect([ann.limit, ann.key, ann.weight]).toEqual(["shop", "ann", 1]);
    expect(await v.run(v.mill.limits.state("shop", { key: "ann" }))).toMatchObject({ held: 1, free: 0 });
    const waiting = v.mill.limits.acquire("shop", { key: "ann", wait: "1h" });
    const others = [await take("bob"), await take("cid", { wait: 0 })];
    await expect(take("ann", { wait: 0 })).rejects.toEqual(coded("limit-busy"));
    await expect(take("bob", { wait: "1s" })).rejects.toMatchObject({
      code: "limit-busy",
      message: expect.stringContaining('key "bob"') as string,
    });
    await v.run(ann.release());
    await releaseAll([await v.run(waiting), ...others]);
    expect(await v.run(v.mill.limits.state("shop", { key: "ann" }))).toMatchObject({ held: 0, free: 1 });
    expect(await inStore()).toBe(0);
  });

  test("who tries once gets what its claim has brought, though the next claim goes out before that is handed over", async () => {
    const listeners: ((hint: Hint) => void)[] = [];
    const beside: Store = {
      ...v.store,
      ...{ claimsAhead: true, claimsOvertake: true },
      watch: (listener) => (listeners.push(listener), v.store.watch(listener)),
      // Behind what it brings there is more to claim, as it hears just then.
      async claim(request) {
        const answer = await v.store.claim(request);
        const routes = request.offers.flatMap((offer) => [...offer.routes]);
        if (answer.jobs.length > 0) for (const hear of listeners) hear({ kind: "ready", routes });
        return answer;
      },
    };
    const ahead = millOn(beside, {}, v.platform);
    const ann = await take("ann");
    const waiting = ahead.limits.acquire("shop", { key: "ann", wait: "1h" });
    await v.advance(100);
    for (const key of ["bob", "cid", "dan"]) await releaseAll([await take(key, { wait: 0 }, ahead)]);
    await v.run(ann.release());
    await releaseAll([await v.run(waiting)]);
    expect(await inStore()).toBe(0);
    await v.run(ahead.close());
  });

  test("those who wait for one key are served in their order", async () => {
    const first = await take("ann");
    const served: number[] = [];
    const all = [1, 2, 3, 4].map(async (n) => {
      await using _permit = await v.mill.limits.acquire("shop", { key: "ann", wait: "1h" });
      served.push(n);
    });
    await v.advance(100);
    expect(served).toEqual([]);
    await v.run(first.release());
    await v.run(Promise.all(all));
    expect(served).toEqual([1, 2, 3, 4]);
  });

  test("jobs and permits of a key share what it may have, and what bounds all keys holds for both", async () => {
    const api = limit("api", { concurrency: 3, perKey: { concurrency: 2 } });
    const call = job<string>("call", { limits: [api.use({ key: (tenant: string) => tenant })] });
    const ends = deferred();
    await v.run(v.mill.work([handler(call, () => ends.promise)]));
    await v.run(v.mill.enqueue(call, "ann"));
    await v.advance(100);
    const ann = await v.run(v.mill.limits.acquire(api, { key: "ann", wait: 0 }));
    await expect(v.run(v.mill.limits.acquire(api, { key: "ann", wait: 0 }))).rejects.toEqual(
      coded("limit-busy"),
    );
    const bob = await v.run(v.mill.limits.acquire(api, { key: "bob", wait: 0 }));
    await expect(v.run(v.mill.limits.acquire(api, { key: "cid", wait: 0 }))).rejects.toEqual(
      coded("limit-busy"),
    );
    await expect(v.run(v.mill.limits.acquire(api, { wait: 0 }))).rejects.toEqual(coded("limit-busy"));
    expect(await v.run(v.mill.limits.state("api"))).toMatchObject({ held: 3, free: 0 });
    ends.resolve();
    await v.advance(100);
    await releaseAll([ann, bob, await v.run(v.mill.limits.acquire(api))]);
    expect(await v.run(v.mill.limits.state("api"))).toMatchObject({ held: 0 });
  });

  test("a key's rate is waited for by its own clock, and a cooldown of a key holds that key alone", async () => {
    const rated = limit("rated", { perKey: { rate: { max: 1, per: "10s" } } });
    await releaseAll([await v.run(v.mill.limits.acquire(rated, { key: "ann" }))]);
    const waiting = v.mill.limits.acquire(rated, { key: "ann" });
    await releaseAll([await v.run(v.mill.limits.acquire(rated, { key: "bob", wait: 0 }))]);
    await v.advance(9800);
    await expect(v.run(v.mill.limits.acquire(rated, { key: "ann", wait: 0 }))).rejects.toEqual(
      coded("limit-busy"),
    );
    expect(await v.run(v.mill.limits.state("rated", { key: "ann" }))).toMatchObject({ held: 0 });
    await v.advance(300);
    await releaseAll([await v.run(waiting)]);
    await v.run(v.mill.limits.define(shop));
    await v.run(v.mill.limits.throttle("shop", { key: "ann", retryAfter: "1m" }));
    await expect(take("ann", { wait: 0 })).rejects.toEqual(coded("limit-busy"));
    await releaseAll([await take("bob", { wait: 0 }), await take("ann", { wait: "2m" })]);
  });

  test("a key of a limit that bounds none takes from the limit as a whole, and an edit of the key binds it", async () => {
    const whole = limit("whole", { concurrency: 2 });
    const ann = await v.run(v.mill.limits.acquire(whole, { key: "ann" }));
    expect(await v.run(v.mill.limits.state("whole"))).toMatchObject({ held: 1, free: 1 });
    await v.run(v.mill.limits.edit("whole", { concurrency: 1 }, { key: "ann" }));
    await expect(v.run(v.mill.limits.acquire(whole, { key: "ann", wait: 0 }))).rejects.toEqual(
      coded("limit-busy"),
    );
    const bob = await v.run(v.mill.limits.acquire(whole, { key: "bob", wait: 0 }));
    await expect(v.run(v.mill.limits.acquire(whole, { wait: 0 }))).rejects.toEqual(coded("limit-busy"));
    await releaseAll([ann, bob]);
  });

  test("what can never be taken is refused before anything is written", async () => {
    const pair = limit("pair", { concurrency: 5, perKey: { concurrency: 2 } });
    await v.run(Promise.all([v.mill.limits.define(shop), v.mill.limits.define(pair)]));
    await v.run(v.mill.limits.edit("pair", { concurrency: 1 }, { key: "small" }));
    const refused: readonly (readonly [string, object, RegExp])[] = [
      ["shop", {}, /bounds keys only/],
      ["shop", { key: "ann", weight: 2 }, /the most is 1/],
      ["pair", { key: "ann", weight: 3 }, /the most is 2/],
      ["pair", { key: "small", weight: 2 }, /the most is 1/],
    ];
    for (const [name, options, message] of refused)
      await expect(v.run(v.mill.limits.acquire(name, options))).rejects.toMatchObject({
        code: "invalid-option",
        message: expect.stringMatching(message) as string,
      });
    expect([await inStore(), await permitRoutes()]).toEqual([0, 0]);
    const big = await v.run(v.mill.limits.acquire("pair", { key: "ann", weight: 2 }));
    await releaseAll([big, await v.run(v.mill.limits.acquire("pair", { weight: 3 }))]);
  });

  test("a wait may be longer than a permit job lives, and one that is given up leaves nothing", async () => {
    const held = await take("ann");
    const stop = new AbortController();
    const waiting = v.mill.limits.acquire("shop", { key: "ann", wait: "1h" });
    const givenUp = v.mill.limits.acquire("shop", { key: "ann", wait: "1h", signal: stop.signal });
    await v.advance(10 * permitTtlMs);
    stop.abort();
    await expect(givenUp).rejects.toEqual(coded("aborted"));
    await v.run(held.release());
    const bob = v.mill.limits.acquire("shop", { key: "bob" });
    await releaseAll([await v.run(waiting), await v.run(bob)]);
    await v.advance(2 * permitTtlMs);
    expect(await inStore()).toBe(0);
  });

  test("however many keys there are, a process needs one route for each weight", async () => {
    for (let n = 0; n < 40; n++) await releaseAll([await take(`key-${n}`)]);
    expect(await permitRoutes()).toBe(1);
  });

  describe("processes that drew the same acquirer number", () => {
    /** Draws the lowest number at first, and another one then. */
    const drawing = (second: number): Millrace => {
      const random = { next: () => 0 };
      const drawn = { ...v.platform, random: () => random.next() };
      const mill = millOn(v.store, {}, drawn);
      random.next = () => second;
      return mill;
    };
    const pair = (): readonly [Millrace, Millrace] => [drawing(0.3), drawing(0.6)];
    const trio = (): readonly Millrace[] => [...pair(), drawing(0.9)];
    const closeAll = (mills: readonly Millrace[]): Promise<unknown> =>
      v.run(Promise.all(mills.map((mill) => mill.close())));

    /** How many permit jobs were given back so far. */
    const givenBack = async (): Promise<number> => {
      let count = 0;
      for (let partition = 0; partition < partitions; partition++) {
        const { records } = await v.run(v.store.readFeed({ partition, after: 0, max: 1000 }));
        count += records.flatMap(({ events }) => events).filter(({ kind }) => kind === "snoozed").length;
      }
      return count;
    };

    test("hand over what only the other waits for, and move away from each other", async () => {
      const mills = pair();
      const [one, other] = mills;
      const keys = Array.from({ length: 10 }, (_, n) => `key-${n}`);
      const held: Permit[] = [];
      for (const key of ["full", ...keys]) held.push(await take(key));
      const [full, ...freed] = held as [Permit, ...Permit[]];
      const forFull = one.limits.acquire("shop", { key: "full", wait: "1h" });
      await v.advance(100);
      const waiting = keys.map((key) => other.limits.acquire("shop", { key, wait: "1h" }));
      await v.advance(100);
      for (const permit of freed) await v.run(permit.release());
      await v.advance(100);
      await releaseAll(await v.run(Promise.all(waiting)));
      // One is enough to notice; a claim on its way meanwhile may bring a few more. Then each is by itself.
      const moved = await givenBack();
      expect(moved).toBeGreaterThan(0);
      expect(moved).toBeLessThan(5);
      const [ann, next] = [await take("ann"), one.limits.acquire("shop", { key: "ann", wait: "1h" })];
      const then = other.limits.acquire("shop", { key: "full", wait: "1h" });
      await v.run(ann.release());
      await releaseAll([await v.run(next)]);
      await v.run(full.release());
      await v.run(Promise.all([forFull, then].map(async (each) => (await each).release())));
      expect(await givenBack()).toBe(moved);
      await v.advance(2 * permitTtlMs);
      expect(await inStore()).toBe(0);
      await closeAll(mills);
    });

    test("serve all who wait, for the same keys and for others, without a poll", async () => {
      const mills = trio();
      const api = limit("api", { concurrency: 5, perKey: { concurrency: 2 } });
      const call = job<string>("call", { limits: [api.use({ key: (tenant: string) => tenant })] });
      const running = new Map<string, number>();
      const hold = async (key: string, weight: number): Promise<void> => {
        running.set(key, (running.get(key) ?? 0) + weight);
        expect(running.get(key)).toBeLessThanOrEqual(2);
        await new Promise<void>((resolve) => void v.platform.setTimer(20 * v.platform.random(), resolve));
        running.set(key, (running.get(key) ?? 0) - weight);
      };
      const work = handler(call, ({ input }) => hold(input, 1));
      for (const mill of mills) await v.run(mill.work([work], { concurrency: 4 }));
      const startedUs = v.platform.monotonicUs();
      const takeOne = async (mill: Millrace, key: string, n: number): Promise<void> => {
        const [weight, wait] = [1 + (n % 2), n % 5 === 0 ? 30 : "1h"] as const;
        await using _permit = await mill.limits.acquire(api, { key, weight, wait });
        await hold(key, weight);
      };
      const all: Promise<unknown>[] = [];
      for (let n = 0; n < 120; n++) {
        const [mill, key] = [mills[n % 3] as Millrace, `key-${Math.floor(6 * v.platform.random())}`];
        if (n % 4 === 0) all.push(mill.enqueue(call, key).then((handle) => handle.result()));
        else
          all.push(
            takeOne(mill, key, n).catch((error: unknown) => expect(error).toEqual(coded("limit-busy"))),
          );
        if (n % 5 === 0) await v.advance(3);
      }
      await v.run(Promise.all(all));
      expect(v.platform.monotonicUs() - startedUs).toBeLessThan(2_000_000);
      expect(await givenBack()).toBeGreaterThan(0);
      await closeAll(mills);
    });

    test("try once for a key that is free, though the claim brings what the other waits for", async () => {
      const mills = pair();
      const [one, other] = mills;
      const full = await take("full");
      const waiting = one.limits.acquire("shop", { key: "full", wait: "1h" });
      await v.advance(100);
      const claim = v.store.claim.bind(v.store);
      const owners: string[] = [];
      v.store.claim = (request) => (owners.push(request.owner), claim(request));
      await releaseAll([await take("bob", {}, other)]);
      const [owner] = owners;
      // From now on whoever else claims comes later.
      const later = deferred();
      v.store.claim = async (request) => {
        if (request.owner !== owner) await later.promise;
        return claim(request);
      };
      await v.run(full.release());
      const bob = await take("bob", { wait: 0 }, other);
      later.resolve();
      v.store.claim = claim;
      await releaseAll([bob, await v.run(waiting)]);
      const moved = await givenBack();
      expect(moved).toBeGreaterThan(0);
      expect(moved).toBeLessThan(5);
      await closeAll(mills);
    });
  });
});
