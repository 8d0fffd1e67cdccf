// Groups from the user's side, on one partition and on four.
import { describe, expect, test } from "vitest";
import { useVirtualMill } from "../../../test/support/virtual/use-virtual-mill.ts";
import { deferred } from "../../../test/support/virtual/virtual-mill.ts";
import { job } from "../../engine/submit/job-definition.ts";
import { limit } from "../../engine/limits/limit-definition.ts";
import { Snooze } from "../../worker/control.ts";
import { handler } from "../../worker/handler.ts";

interface Order {
  readonly customer: string;
  readonly n: number;
}

const sorted = (numbers: readonly number[]): number[] => numbers.toSorted((one, other) => one - other);

describe.each([1, 4])("on %i partitions", (partitions) => {
  const v = useVirtualMill({}, partitions);
  const oneByOne = { key: (input: Order) => input.customer, concurrency: 1 };
  const pay = job<Order>("pay", { group: oneByOne });
  const ship = job<Order>("ship", { group: oneByOne });
  /** Enqueues one job after the other: one step cannot write to two partitions. */
  const enqueueAll = async (jobs: readonly ReturnType<typeof pay.with>[]): Promise<string[]> => {
    const ids: string[] = [];
    for (const { job: definition, input, options } of jobs) {
      ids.push((await v.run(v.mill.enqueue(definition, input, options))).id);
      await v.advance(1);
    }
    return ids;
  };

  test("one job per customer runs at a time, in order, over names and workers", async () => {
    const running = new Set<string>();
    const ran: string[] = [];
    const run = async ({ input, name }: { input: Order; name: string }): Promise<void> => {
      expect(running.has(input.customer)).toBe(false);
      running.add(input.customer);
      ran.push(`${input.customer}${input.n} ${name}`);
      const { promise, resolve } = deferred();
      v.platform.setTimer(20, resolve);
      await promise;
      running.delete(input.customer);
    };
    const given = Array.from({ length: 24 }, (_, n) =>
      (n % 3 === 0 ? ship : pay).with({ customer: ["a", "b", "c"][n % 4] ?? "d", n }),
    );
    await enqueueAll(given);
    for (const kinds of [[pay], [ship], [pay, ship]])
      await v.run(
        v.mill.work(
          kinds.map((each) => handler(each, run)),
          { concurrency: 4 },
        ),
      );
    await v.advance(10_000);
    expect(ran).toHaveLength(24);
    for (const customer of ["a", "b", "c", "d"])
      expect(ran.filter((each) => each.startsWith(customer))).toEqual(
        given
          .filter(({ input }) => input.customer === customer)
          .map(({ input, job: { name } }) => `${customer}${input.n} ${name}`),
      );
  });

  test("a job that waits for its retry or snoozes holds its customer, and a failed one frees it", async () => {
    const ran: number[] = [];
    const run = ({ input, attempt }: { input: Order; attempt: number }): void => {
      ran.push(input.n);
      if (input.n === 1 && attempt === 1) throw new Error("once");
      if (input.n === 2) throw new Error("always");
      if (input.n === 3 && ran.filter((n) => n === 3).length === 1) throw new Snooze("5s");
    };
    await v.run(v.mill.work([handler(pay, run)], { concurrency: 4 }));
    const retry = { attempts: 2, backoff: { kind: "fixed", delay: "10s", jitter: "none" } } as const;
    const given = [1, 2, 3, 4].map((n) => pay.with({ customer: "a", n }, { retry }));
    const [first, second] = await enqueueAll(given);
    await v.advance(2000);
    expect(ran).toEqual([1]);
    expect(await v.run(v.mill.explain(first!))).toMatchObject({
      ...{ state: "scheduled", why: expect.stringContaining('holds its place in the group "a"') },
    });
    expect(await v.run(v.mill.jobs.get(second!))).toMatchObject({
      group: "a",
      held: { by: "group", name: "default", key: "a", use: { held: 1, cap: 1 }, until: null },
    });
    expect((await v.run(v.mill.explain(second!)))?.why).toBe(
      `The group "a" of the queue "default" is full: 1 of 1 are held. It is held by the job "${first}", which waits to be tried again.`,
    );
    await v.advance(60_000);
    expect(ran).toEqual([1, 1, 2, 2, 3, 3, 4]);
    expect(await v.run(v.mill.jobs.counts())).toEqual({ default: { completed: 3, failed: 1 } });
  });

  test("with holdsOnFailure a failed job holds its group until it is replayed or deleted", async () => {
    const strict = job<Order>("strict", {
      group: { ...oneByOne, holdsOnFailure: true },
      retry: { attempts: 1 },
      retention: { failed: "10s" },
    });
    const ran: number[] = [];
    let isFixed = false;
    const run = ({ input }: { input: Order }): void => {
      ran.push(input.n);
      if (input.n < 3 && !isFixed) throw new Error("broken");
    };
    await v.run(v.mill.work([handler(strict, run)], { concurrency: 4 }));
    const [first, second, third] = await enqueueAll([1, 2, 3].map((n) => strict.with({ customer: "a", n })));
    await enqueueAll([strict.with({ customer: "b", n: 9 })]);
    await v.advance(600_000);
    expect(sorted(ran)).toEqual([1, 9]);
    const holder = { id: first!, state: "failed" };
    expect(await v.run(v.mill.jobs.get(third!))).toMatchObject({ held: { by: "group", key: "a", holder } });
    expect(await v.run(v.mill.explain(second!))).toMatchObject({
      held: { by: "group", key: "a", holder },
      why: expect.stringContaining(`held by the job "${first}", which has failed: the group goes on once`),
    });
    expect((await v.run(v.mill.explain(first!)))?.why).toContain('It holds its group "a" until');
    const { jobs } = await v.run(v.mill.jobs.list({ holdsGroup: true }));
    expect(jobs.map(({ id }) => id)).toEqual([first]);
    isFixed = true;
    expect(await v.run(v.mill.jobs.retry(first!))).toBe("retried");
    await v.advance(10_000);
    expect(ran).toEqual([1, 9, 1, 2, 3]);
    isFixed = false;
    const [broken] = await enqueueAll([1, 4].map((n) => strict.with({ customer: "a", n })));
    await v.advance(10_000);
    expect(ran.slice(5)).toEqual([1]);
    await v.run(v.mill.jobs.delete(broken!));
    await v.advance(10_000);
    expect(ran.slice(5)).toEqual([1, 4]);
  });

  test("explain names the running job that holds a group", async () => {
    const { promise, resolve } = deferred();
    await v.run(v.mill.work([handler(pay, () => promise)], { concurrency: 4 }));
    const [first, second] = await enqueueAll([1, 2].map((n) => pay.with({ customer: "a", n })));
    await v.advance(100);
    expect(await v.run(v.mill.explain(second!))).toMatchObject({
      held: { holder: { id: first!, state: "running" } },
      why: expect.stringContaining(`It is held by the job "${first}", which is running.`),
    });
    resolve();
  });

  test("if a retry does not hold its group, the customer's next job passes it", async () => {
    const loose = job<Order>("loose", { group: { ...oneByOne, holdsOnRetry: false } });
    const ran: number[] = [];
    const run = ({ input, attempt }: { input: Order; attempt: number }): void => {
      ran.push(input.n);
      if (input.n === 1 && attempt === 1) throw new Error("once");
    };
    await v.run(v.mill.work([handler(loose, run)]));
    await enqueueAll([1, 2].map((n) => loose.with({ customer: "a", n })));
    await v.advance(600_000);
    expect(ran).toEqual([1, 2, 1]);
  });

  test("up to the concurrency of a group run at once, and a cancel or a delete frees a slot", async () => {
    const wide = job<Order>("wide", { group: { key: ({ customer }) => customer, concurrency: 2 } });
    const started: number[] = [];
    const run = ({ input, signal }: { input: Order; signal: AbortSignal }): Promise<void> => {
      started.push(input.n);
      const { promise, reject } = deferred();
      signal.addEventListener("abort", () => reject(signal.reason));
      return promise;
    };
    await v.run(v.mill.work([handler(wide, run)], { concurrency: 8 }));
    const ids = await enqueueAll([1, 2, 3, 4, 5].map((n) => wide.with({ customer: "a", n })));
    await enqueueAll([wide.with({ customer: "b", n: 9 })]);
    await v.advance(100);
    expect(sorted(started)).toEqual([1, 2, 9]);
    await v.run(v.mill.jobs.cancel(ids[0]!));
    await v.advance(100);
    expect(started).toHaveLength(4);
    await v.run(v.mill.jobs.delete(ids[3]!));
    await v.run(v.mill.jobs.cancel(ids[1]!));
    await v.advance(100);
    expect(sorted(started)).toEqual([1, 2, 3, 5, 9]);
  });

  test("a flood of one tenant delays the single job of another by no more than a few claims", async () => {
    const fair = job<Order>("fair", { group: ({ customer }) => customer });
    const ran: string[] = [];
    await v.run(
      v.mill.enqueueMany(Array.from({ length: 300 }, (_, n) => fair.with({ customer: "flood", n }))),
    );
    await enqueueAll([fair.with({ customer: "small", n: 1 })]);
    const run = async ({ input }: { input: Order }): Promise<void> => {
      ran.push(input.customer);
      const { promise, resolve } = deferred();
      v.platform.setTimer(10, resolve);
      await promise;
    };
    await v.run(v.mill.work([handler(fair, run)], { concurrency: 2 }));
    await v.advance(10_000);
    expect(ran).toHaveLength(301);
    expect(ran.indexOf("small")).toBeLessThan(12);
  });

  test("groups, plain jobs and keyed limits share the slots of a worker, and none waits for ever", async () => {
    const api = limit("api", { perKey: { concurrency: 1 } });
    const kinds = [
      job<Order>("plain"),
      job<Order>("fair", { group: ({ customer }) => customer }),
      job<Order>("keyed", { limits: [api.use({ key: ({ customer }) => customer })] }),
    ];
    const ran: string[] = [];
    const given = Array.from({ length: 60 }, (_, n) =>
      kinds.map((each) => each.with({ customer: `c${n % 5}`, n })),
    );
    await enqueueAll(given.flat());
    await v.run(
      v.mill.work(
        kinds.map((each) => handler(each, ({ name }) => void ran.push(name))),
        { concurrency: 1 },
      ),
    );
    await v.advance(10_000);
    expect(ran).toHaveLength(180);
    for (const { name } of kinds)
      expect(ran.slice(0, 60).filter((each) => each === name).length).toBeGreaterThan(5);
  });

  test("a pause holds back groups too, and an enqueue may name another group or none", async () => {
    const ran: number[] = [];
    await v.run(v.mill.work([handler(pay, ({ input }) => void ran.push(input.n))]));
    await v.run(v.mill.queues.pause("default"));
    const inputs = [1, 2, 3].map((n) => ({ customer: "a", n }));
    const ids = await enqueueAll([
      pay.with(inputs[0]!),
      pay.with(inputs[1]!, { group: "other" }),
      pay.with(inputs[2]!, { group: null }),
    ]);
    await v.advance(20_000);
    const groups = await v.run(Promise.all(ids.map((id) => v.mill.jobs.get(id))));
    expect(groups.map((each) => [each?.group, each?.held?.by])).toEqual([
      ["a", "pause"],
      ["other", "pause"],
      [null, "pause"],
    ]);
    expect(ran).toEqual([]);
    await v.run(v.mill.queues.resume("default"));
    await v.advance(1000);
    expect(sorted(ran)).toEqual([1, 2, 3]);
  });
});

describe("an order", () => {
  const v = useVirtualMill();

  test("with last in, first out, the newest job of a priority runs first, and a retry is ordered by its own time", async () => {
    const news = job<number>("news", { order: "lifo" });
    for (const n of [1, 2, 3]) {
      await v.run(v.mill.enqueue(news, n));
      await v.advance(600_000);
    }
    await v.run(v.mill.enqueue(news, 4, { priority: "high" }));
    await v.advance(600_000);
    await v.run(v.mill.enqueue(news, 5, { priority: "low" }));
    const ran: number[] = [];
    await v.run(v.mill.work([handler(news, ({ input }) => void ran.push(input))], { concurrency: 1 }));
    await v.advance(1000);
    expect(ran).toEqual([4, 3, 2, 1, 5]);
  });
});

describe("on four partitions", () => {
  const v = useVirtualMill({}, 4);

  test("a group with a cap cannot be combined with a limit on all jobs; a fair group can", async () => {
    const all = limit("all", { concurrency: 3 });
    const apart = { limits: [all], group: { key: "k3", concurrency: 1 } } as const;
    await expect(v.run(v.mill.enqueue(job<number>("a", apart), 1))).rejects.toMatchObject({
      code: "placement-conflict",
    });
    const handle = await v.run(v.mill.enqueue(job<number>("b", { limits: [all], group: "k3" }), 1));
    await v.run(v.mill.work([handler(job<number>("b", { limits: [all], group: "k3" }), () => {})]));
    await v.run(handle.result());
  });
});
