/**
 * Groups and limits by key on real stores, real time and connections of their own: what runs is judged by a sweep over
 * all starts and ends of all processes.
 */
import { describe, expect, test } from "vitest";
import type { Millrace } from "../../src/client/millrace.ts";
import type { AnySubmission } from "../../src/engine/submit/job-definition.ts";
import { flow, handler, isMillraceError, job, limit, Snooze } from "../../src/index.ts";
import type { Handler, JobContext } from "../../src/index.ts";
import { storeLimits } from "../../src/store/contract-limits.ts";
import { createSeededRandom } from "../../src/testing/seeded-random.ts";
import { closeAfterEach } from "../support/close-after-each.ts";
import { millOn } from "../support/mill-on.ts";
import { until } from "../support/until.ts";
import { usePlaces } from "../support/servers/use-places.ts";
import { hangMs } from "../support/hang-ms.ts";

const places = usePlaces();
const timeout = hangMs;
const random = createSeededRandom(11);

interface Work {
  readonly key: string;
  readonly n: number;
}

/** Everything that ran, in order. */
class Sweep {
  readonly starts: Work[] = [];
  readonly #running = new Map<string, number>();
  readonly #most = new Map<string, number>();

  async run({ key, n }: Work, work: () => Promise<void> | void): Promise<void> {
    this.starts.push({ key, n });
    const now = (this.#running.get(key) ?? 0) + 1;
    this.#running.set(key, now);
    this.#most.set(key, Math.max(this.#most.get(key) ?? 0, now));
    try {
      for (let flushes = random.whole(0, 3); flushes > 0; flushes--) await new Promise(setImmediate);
      await work();
    } finally {
      this.#running.set(key, (this.#running.get(key) ?? 0) - 1);
    }
  }

  /** The most of any key that ran at once. */
  get most(): number {
    return Math.max(...this.#most.values());
  }

  of(key: string): number[] {
    return this.starts.filter((each) => each.key === key).map(({ n }) => n);
  }
}

describe.each(places)("on %s", (_title, place) => {
  const closeLater = closeAfterEach();
  const processes = (): (() => Promise<Millrace>) => {
    const open = place();
    return async () => closeLater(millOn(await open()));
  };
  const startWorkers = async (
    mill: () => Promise<Millrace>,
    handlers: readonly Handler[],
    { count = 3, concurrency = 4 } = {},
  ): Promise<void> => {
    for (let started = 0; started < count; started++) await (await mill()).work(handlers, { concurrency });
  };
  /** One after the other by key, because over partitions one step cannot write to two. */
  const enqueueAll = async (producer: Millrace, all: readonly AnySubmission[]): Promise<string[]> => {
    const keys = [...new Set(all.map(({ input }) => (input as Work).key))];
    const made = keys.map((key) =>
      producer.enqueueMany(all.filter(({ input }) => (input as Work).key === key)),
    );
    return (await Promise.all(made)).flat().map(({ id }) => id);
  };
  const allEnded = (mill: Millrace): Promise<unknown> =>
    until("all have ended", async () => {
      const counts = Object.values(await mill.jobs.counts());
      return counts.every(({ ready = 0, running = 0, scheduled = 0 }) => ready + running + scheduled === 0);
    });
  /** Jobs of a group of one that hold it when they have failed, as the n-th run does. */
  const holdingSteps = async (failingRun: number) => {
    const mill = await processes()();
    const group = { key: ({ key }: Work) => key, concurrency: 1, holdsOnFailure: true };
    const step = job<Work>("step", { group, retry: { attempts: 1 } });
    const ran: number[] = [];
    const run = ({ input: { n } }: JobContext<Work>): void => {
      ran.push(n);
      if (ran.length === failingRun) throw new Error("once");
    };
    await mill.work([handler(step, run)], { concurrency: 4 });
    return { mill, step, ran };
  };

  test("a node that failed and holds its group is the first of it again when its flow is replayed", async () => {
    const { mill, step, ran } = await holdingSteps(1);
    const orders = flow("orders");
    orders.add("first", step, { key: "acc", n: 1 });
    const submitted = await mill.submit(orders);
    await expect(submitted.result({ timeout })).rejects.toMatchObject({ code: "flow-failed" });
    const behind = await mill.enqueue(step, { key: "acc", n: 2 });
    expect(await submitted.retry()).toEqual({ runs: 1, waits: 0 });
    await behind.result({ timeout });
    await submitted.result({ timeout });
    expect(ran).toEqual([1, 1, 2]);
    expect((await mill.jobs.list({ holdsGroup: true })).jobs).toEqual([]);
  });

  test("a node that failed and holds its group gives it up where it is to wait for another of the group", async () => {
    const { mill, step, ran } = await holdingSteps(2);
    const orders = flow("orders");
    const first = orders.add("first", step, { key: "acc", n: 1 });
    orders.add("second", step, { key: "acc", n: 2 }, { after: first });
    const submitted = await mill.submit(orders);
    await expect(submitted.result({ timeout })).rejects.toMatchObject({ code: "flow-failed" });
    expect(await submitted.retry({ nodes: "first", withRest: true })).toEqual({ runs: 1, waits: 1 });
    await submitted.result({ timeout });
    expect(ran).toEqual([1, 2, 1, 2]);
  });

  test("one of a key runs at a time and in order, over names and processes, through retries, snoozes and cancels", async () => {
    const mill = processes();
    const group = { key: ({ key }: Work) => key, concurrency: 1 };
    const retry = { attempts: 3, backoff: { kind: "fixed", delay: 5, jitter: "none" } } as const;
    const kinds = ["pay", "ship"].map((name) => job<Work>(name, { group, retry }));
    const sweep = new Sweep();
    const surprised = new Set<string>();
    const run = (context: JobContext<Work>): Promise<void> =>
      sweep.run(context.input, () => {
        const { key, n } = context.input;
        if (surprised.has(`${key}${n}`) || n % 5 !== 0) return;
        surprised.add(`${key}${n}`);
        throw n % 2 === 0 ? new Error("once") : new Snooze(3);
      });
    const producer = await mill();
    const keys = Array.from({ length: 12 }, (_, at) => `k${at}`);
    const given = Array.from({ length: 20 }, (_, n) =>
      keys.map((key) => kinds[random.whole(0, 1)]!.with({ key, n })),
    ).flat();
    const ids = await enqueueAll(producer, given);
    await startWorkers(
      mill,
      kinds.map((each) => handler(each, run)),
    );
    const cancelled = ids.filter((_, at) => at % 17 === 3);
    await Promise.all(cancelled.map((id) => producer.jobs.cancel(id)));
    await allEnded(producer);
    expect(sweep.most).toBe(1);
    for (const key of keys) {
      const order = sweep.of(key);
      expect(order).toEqual(order.toSorted((one, other) => one - other));
    }
    const { completed = 0, cancelled: ended = 0 } = (await producer.jobs.counts())["default"] ?? {};
    expect(completed + ended).toBe(given.length);
  });

  test("no more of a key run at once than its limit and its group say, and all of them end", async () => {
    const mill = processes();
    const api = limit("api", { perKey: { concurrency: 3 } });
    const keyed = job<Work>("keyed", { limits: [api.use({ key: ({ key }: Work) => key })] });
    const grouped = job<Work>("grouped", {
      queue: "grouped",
      group: { key: ({ key }) => key, concurrency: 2 },
    });
    const [byLimit, byGroup] = [new Sweep(), new Sweep()];
    await startWorkers(mill, [
      handler(keyed, ({ input }) => byLimit.run(input, () => {})),
      handler(grouped, ({ input }) => byGroup.run(input, () => {})),
    ]);
    const producer = await mill();
    const works = Array.from({ length: 30 }, (_, n) =>
      ["a", "b", "c", "d", "e"].map((key) => ({ key: `{${key}}`, n })),
    ).flat();
    await enqueueAll(
      producer,
      works.flatMap((work) => [keyed.with(work), grouped.with(work)]),
    );
    await allEnded(producer);
    expect([byLimit.starts.length, byGroup.starts.length]).toEqual([150, 150]);
    expect([byLimit.most <= 3, byGroup.most <= 2]).toEqual([true, true]);
    await until(
      "nothing is held",
      async () => (await producer.limits.state("api", { key: "{a}" })).held === 0,
    );
  });

  test("the single job of one tenant does not wait behind the flood of another", async () => {
    const mill = processes();
    const fair = job<Work>("fair", { group: ({ key }) => key });
    const sweep = new Sweep();
    const producer = await mill();
    await enqueueAll(
      producer,
      Array.from({ length: 3000 }, (_, n) => fair.with({ key: "{t}flood", n })),
    );
    await startWorkers(mill, [handler(fair, ({ input }) => sweep.run(input, () => {}))], {
      concurrency: 2,
    });
    await until("the flood has begun", () => sweep.starts.length > 50);
    const handle = await producer.enqueue(fair, { key: "{t}small", n: 0 });
    // The flood goes on while the enqueue is under way, however long that takes.
    const before = sweep.starts.length;
    await handle.result({ timeout });
    const after = sweep.starts.findIndex(({ key }) => key === "{t}small");
    // Before it only jobs start that were claimed already: on a busy machine a whole claim of each worker.
    expect(after).toBeLessThan(before + 3 * storeLimits.claimJobsMax);
    await allEnded(producer);
    expect(sweep.starts).toHaveLength(3001);
  });

  test("each key has its own tokens, and a full one lets the others pass", async () => {
    const mill = processes();
    const api = limit("api", { perKey: { rate: { max: 1, per: "400ms", burst: 2 } } });
    const call = job<Work>("call", { limits: [api.use({ key: ({ key }: Work) => key })] });
    await startWorkers(mill, [handler(call, () => undefined)]);
    const producer = await mill();
    const keys = ["a", "b", "c"];
    const ids = await enqueueAll(
      producer,
      keys.flatMap((key) => [0, 1, 2, 3].map((n) => call.with({ key, n }))),
    );
    await allEnded(producer);
    const views = await Promise.all(ids.map((id) => producer.jobs.get(id)));
    for (const key of keys) {
      // By the store's clock: on a busy machine a claim may come here long after it was made.
      const claims = views.flatMap((view) =>
        view !== null && view.claimedAt !== null && (view.input as Work).key === key
          ? [view.claimedAt.getTime()]
          : [],
      );
      const [first = Number.NaN, , , last = Number.NaN] = claims.toSorted((one, other) => one - other);
      // Two at once, then one each 400 ms. A claim may have read the clock before it came to wait for its lanes.
      expect(last - first).toBeGreaterThan(600);
    }
  });

  test("what a pause or a group holds is explained, and what cannot be is refused before any write", async () => {
    const mill = processes();
    const producer = await mill();
    const pay = job<Work>("pay", { group: { key: ({ key }) => key, concurrency: 1 } });
    const { promise: isOver, resolve: end } = Promise.withResolvers<void>();
    await startWorkers(mill, [handler(pay, () => isOver)], { count: 2 });
    const [first, second] = await enqueueAll(
      producer,
      [0, 1].map((n) => pay.with({ key: "a", n })),
    );
    await until("one runs", async () => (await producer.jobs.get(first!))?.state === "running");
    expect(await producer.explain(second!)).toMatchObject({
      held: { by: "group", name: "default", key: "a", use: { held: 1, cap: 1 } },
    });
    await producer.queues.pause("default");
    expect(await producer.explain(second!)).toMatchObject({ held: { by: "pause" } });
    end();
    await until("the first is done", async () => (await producer.jobs.get(first!))?.state === "completed");
    expect((await producer.jobs.get(second!))?.state).toBe("ready");
    await producer.queues.resume("default");
    await allEnded(producer);
    const wrong = producer.enqueue(pay, { key: "a\nb", n: 2 });
    await expect(wrong).rejects.toSatisfy((error) => isMillraceError(error, "invalid-name"));
    expect(await producer.jobs.counts()).toEqual({ default: { completed: 2 } });
  });
});
