import { describe, expect, test } from "vitest";
import { useVirtualMill } from "../../../test/support/virtual/use-virtual-mill.ts";
import { deferred } from "../../../test/support/virtual/virtual-mill.ts";
import { aClaim, aRoute } from "../../../test/support/builders.ts";
import { job } from "../../engine/submit/job-definition.ts";
import { queueGateKey } from "../../model/limits/gate.ts";
import { queue } from "../../engine/policies/queue-definition.ts";
import type { QueueDefaults } from "../../engine/policies/queue-definition.ts";
import { handler } from "../../worker/handler.ts";

const coded = (code: string) => expect.objectContaining({ code });
const v = useVirtualMill();
const mail = job<number>("mail", { queue: "email" });
const minuteMs = 60_000;

describe("the slots of a queue, set by an operator", () => {
  const running = { now: 0 };
  const ends: (() => void)[] = [];
  const run = async (): Promise<void> => {
    running.now += 1;
    const { promise, resolve } = deferred();
    ends.push(resolve);
    await promise;
    running.now -= 1;
  };
  const endAll = async (): Promise<void> => {
    while (ends.length > 0) {
      for (const end of ends.splice(0)) end();
      await v.advance(100);
    }
  };

  test("override those of each worker from its first claim on, and change while it runs without ending a job", async () => {
    await v.run(v.mill.queues.set("email", { localConcurrency: 2 }));
    await v.run(v.mill.enqueueMany(Array.from({ length: 30 }, (_, n) => mail.with(n))));
    await v.run(v.mill.work([handler(mail, run)], { concurrency: 5 }));
    await v.advance(100);
    expect(running.now).toBe(2);
    await v.run(v.mill.queues.set("email", { localConcurrency: 8 }));
    await v.advance(1000);
    expect(running.now).toBe(8);
    await v.run(v.mill.queues.set("email", { localConcurrency: 1 }));
    await v.advance(1000);
    expect(running.now).toBe(8);
    for (const end of ends.splice(0, 7)) end();
    await v.advance(1000);
    expect(running.now).toBe(1);
    await v.run(v.mill.queues.set("email", { localConcurrency: null }));
    await v.advance(1000);
    expect(running.now).toBe(5);
    await endAll();
  });
});

describe("attempts and backoff of a queue", () => {
  const failing = (): never => {
    throw new Error("no");
  };
  const own = job<number>("own", { queue: "email", retry: { attempts: 2, backoff: "1s" } });

  test("hold for jobs that say nothing themselves, and override the code's defaults", async () => {
    await v.reopen({ defaults: { retry: { attempts: 9, backoff: "1s" } } });
    await v.run(v.mill.queues.set("email", { attempts: 3, backoff: "1m" }));
    await v.run(v.mill.work([handler(mail, failing), handler(own, failing)]));
    const [one, two] = await v.run(v.mill.enqueueMany([mail.with(1), own.with(2)]));
    await v.advance(100_000);
    expect(await v.run(v.mill.jobs.get(one.id))).toMatchObject({
      state: "scheduled",
      attempt: 2,
      attemptsMax: 3,
    });
    expect(await v.run(v.mill.jobs.get(two.id))).toMatchObject({ state: "failed", attempt: 2 });
    await v.advance(60_000);
    expect(await v.run(v.mill.jobs.get(one.id))).toMatchObject({ state: "failed", attempt: 3 });
  });

  test("are read when the failure is decided", async () => {
    const gate = deferred();
    const slow = handler(mail, async () => {
      await gate.promise;
      failing();
    });
    await v.run(v.mill.work([slow]));
    const handle = await v.run(v.mill.enqueue(mail, 1));
    await v.advance(100);
    await v.run(v.mill.queues.set("email", { attempts: 1 }));
    await v.advance(1000);
    gate.resolve();
    await v.advance(100);
    expect(await v.run(v.mill.jobs.get(handle.id))).toMatchObject({ state: "failed", attempt: 1 });
  });

  test("hold for a job whose worker died, in a process that does not serve the queue", async () => {
    await v.run(v.mill.queues.set("email", { attempts: 1 }));
    const handle = await v.run(v.mill.enqueue(mail, 1));
    const route = aRoute({ queue: "email", name: "mail" });
    await v.run(v.store.claim(aClaim({ leaseMs: 100, offers: [{ routes: [route], max: 1, starts: 1 }] })));
    v.mill.duties.start();
    await v.advance(10_000);
    expect(await v.run(v.mill.jobs.get(handle.id))).toMatchObject({ state: "failed", reason: "crash-loop" });
  });
});

describe("the retention of a queue", () => {
  const quick = job<number>("quick", { queue: "audio" });

  test("overrides the store's, shorter or longer, and a job's own overrides both", async () => {
    await v.run(v.mill.retention.set({ completed: "50m" }));
    await v.run(v.mill.queues.set("email", { retention: { completed: "10m" } }));
    await v.run(v.mill.queues.set("audio", { retention: { completed: "200m" } }));
    const plain = job<number>("plain");
    const handlers = [mail, quick, plain].map((each) => handler(each, () => undefined));
    await v.run(v.mill.work(handlers));
    const handles = await v.run(
      v.mill.enqueueMany([
        mail.with(1),
        mail.with(2, { retention: { completed: "100m" } }),
        quick.with(3),
        plain.with(4),
      ]),
    );
    const kept = async (): Promise<readonly number[]> => {
      const views = await Promise.all(handles.map(({ id }) => v.run(v.mill.jobs.get(id))));
      return views.flatMap((view) => (view === null ? [] : [view.input as number]));
    };
    await v.advance(1000);
    expect(await kept()).toEqual([1, 2, 3, 4]);
    await v.advance(20 * minuteMs);
    expect(await kept()).toEqual([2, 3, 4]);
    await v.advance(50 * minuteMs);
    expect(await kept()).toEqual([2, 3]);
    await v.advance(50 * minuteMs);
    expect(await kept()).toEqual([3]);
  });

  test("of an outcome keeps jobs that the store would not, and none if it is 0", async () => {
    await v.run(v.mill.retention.set({ completed: 0, other: 0 }));
    await v.run(v.mill.queues.set("email", { retention: { completed: "10m", other: "10m" } }));
    const delayed = await v.run(
      v.mill.enqueueMany([mail, quick].map((each) => each.with(0, { delay: "1h" }))),
    );
    await v.run(Promise.all(delayed.map((handle) => handle.cancel())));
    expect(await v.run(v.mill.jobs.counts())).toEqual({ email: { cancelled: 1 } });
    await v.run(v.mill.enqueue(mail, 0, { delay: "1h", ttl: "1s", deadline: "30s" }));
    await v.run(v.mill.work([handler(mail, () => undefined), handler(quick, () => undefined)]));
    await v.run(v.mill.enqueueMany([mail.with(1), quick.with(2)]));
    await v.advance(1000);
    expect(await v.run(v.mill.jobs.counts())).toMatchObject({ email: { completed: 1, cancelled: 1 } });
    await v.advance(31_000);
    expect(await v.run(v.mill.jobs.counts())).toEqual({ email: { completed: 1, cancelled: 1, expired: 1 } });
    await v.run(v.mill.queues.set("email", { retention: { completed: 0 } }));
    await v.advance(1000);
    const { id } = await v.run(v.mill.enqueue(mail, 3));
    await v.advance(1000);
    expect(await v.run(v.mill.jobs.get(id))).toBeNull();
  });
});

describe("the count of a queue", () => {
  const quick = job<number>("quick", { queue: "audio" });
  const kept = async (): Promise<unknown> => {
    const { jobs } = await v.run(v.mill.jobs.list({ state: "completed" }));
    return jobs.map(({ input }) => Number(input)).sort((one, other) => one - other);
  };

  async function complete(count: number): Promise<void> {
    const worker = await v.run(
      v.mill.work([handler(mail, () => undefined), handler(quick, () => undefined)], { concurrency: 1 }),
    );
    for (let index = 0; index < count; index++) {
      await v.run(v.mill.enqueueMany([mail.with(index), quick.with(10 + index)]));
      await v.advance(1000);
    }
    await v.run(worker.stop());
  }

  test("keeps its newest finished jobs, however young the others are", async () => {
    await v.run(v.mill.queues.set("email", { retention: { completed: { count: 2 } } }));
    await complete(5);
    await v.run(v.mill.duties.run("retention"));
    expect(await kept()).toEqual([3, 4, 10, 11, 12, 13, 14]);
    await v.run(v.mill.queues.set("email", { retention: null }));
    await v.run(v.mill.duties.run("retention"));
    expect(await kept()).toHaveLength(7);
  });

  test("overrides the store's count, and null bounds the queue by age alone", async () => {
    await v.run(v.mill.retention.set({ completed: { count: 3 } }));
    await complete(5);
    expect(
      await v.run(v.mill.queues.set("audio", { retention: { completed: { count: null } } })),
    ).toMatchObject({
      retention: { completedCount: null },
    });
    await v.run(v.mill.duties.run("retention"));
    expect(await kept()).toEqual([2, 3, 4, 10, 11, 12, 13, 14]);
    await v.advance(minuteMs);
    await v.run(v.mill.queues.set("audio", { retention: { completed: { age: "1s", count: 10 } } }));
    expect(await v.run(v.mill.duties.run("retention"))).toMatchObject({ processed: 5 });
    expect(await kept()).toEqual([2, 3, 4]);
  });

  test("is enforced by the duty within its sleep", async () => {
    await v.run(v.mill.queues.set("email", { retention: { completed: { count: 1 } } }));
    await complete(4);
    v.mill.duties.start();
    await v.advance(2 * minuteMs);
    expect(await kept()).toEqual([3, 10, 11, 12, 13]);
  });
});

test("all settings of a queue are shown, and null removes one", async () => {
  const { queues } = v.mill;
  const shown = await v.run(
    queues.set("email", {
      localConcurrency: 4,
      attempts: 2,
      backoff: { kind: "fixed", delay: "5s" },
      retention: { failed: "3m" },
    }),
  );
  expect(shown).toMatchObject({
    ...{ localConcurrency: 4, attempts: 2, retention: { failedMs: 3 * minuteMs }, concurrency: null },
    backoff: { kind: "fixed", delayMs: 5000 },
  });
  await v.run(queues.pause("email"));
  expect(await v.run(queues.list())).toEqual([{ ...shown, paused: true }]);
  expect(await v.run(queues.set("email", { attempts: null, retention: null }))).toMatchObject({
    ...{ localConcurrency: 4, attempts: null, retention: null, paused: true },
  });
});

test.each([
  ["no slots", { localConcurrency: 0 }],
  ["a million slots", { localConcurrency: 1_000_000 }],
  ["half a slot", { localConcurrency: 1.5 }],
  ["no attempts", { attempts: 0 }],
  ["a backoff of an unknown kind", { backoff: { kind: "wild" } }],
  ["an empty retention", { retention: {} }],
  ["a retention by a count of 0", { retention: { completed: { count: 0 } } }],
  ["a retention by neither age nor count", { retention: { completed: {} } }],
  ["a retention of an unknown outcome", { retention: { lost: "1d" } }],
  ["an unknown setting beside a good one", { attempts: 2, tries: 2 }],
  ["a bad bound beside a good setting", { attempts: 2, concurrency: 0 }],
])("%s are refused before anything is written", async (_what, edit) => {
  await expect(v.run(v.mill.queues.set("email", edit as object))).rejects.toEqual(coded("invalid-option"));
  expect(await v.run(v.mill.queues.list())).toEqual([]);
});

describe.each([1, 3])("defaults of a queue in code, with %i partitions", (partitions) => {
  const w = useVirtualMill({}, partitions);
  const defaults: QueueDefaults = {
    ...{ concurrency: 6, rate: { max: 9, per: "1m" }, attempts: 2 },
    ...{ backoff: "1s", retention: { completed: "1h" } },
  };
  const asDefined = {
    ...{ concurrency: 6, rate: { max: 9, perMs: minuteMs, burst: 9 }, attempts: 2, paused: false },
    ...{
      backoff: { kind: "fixed", delayMs: 1000, jitter: "none" },
      retention: { completedMs: 60 * minuteMs },
    },
  };

  test("are in force from the worker's start on, and decide about its jobs", async () => {
    const failing = handler(mail, () => {
      throw new Error("no");
    });
    await w.run(w.mill.work([failing], { queueDefaults: [queue("email", defaults)] }));
    expect(await w.run(w.mill.queues.settings("email"))).toMatchObject(asDefined);
    const one = await w.run(w.mill.enqueue(mail, 1));
    await w.advance(5000);
    expect(await w.run(w.mill.jobs.get(one.id))).toMatchObject({ state: "failed", attempt: 2 });
  });

  test("give way to what an operator has set, also after the code has changed, until it is reset", async () => {
    await w.run(w.mill.queues.define(queue("email", defaults)));
    await w.run(w.mill.queues.set("email", { concurrency: 30, attempts: null, rate: null }));
    const edited = { concurrency: 30, attempts: null, rate: null, backoff: asDefined.backoff };
    expect(await w.run(w.mill.queues.settings("email"))).toMatchObject(edited);
    const changed = queue("email", {
      concurrency: 9,
      attempts: 7,
      rate: { max: 3, per: "1s" },
      backoff: "2s",
    });
    await w.run(w.mill.queues.define(changed));
    expect(await w.run(w.mill.queues.settings("email"))).toMatchObject({
      ...edited,
      backoff: { delayMs: 2000 },
      retention: null,
    });
    expect(await w.run(w.mill.queues.reset("email"))).toMatchObject({
      ...{ concurrency: 9, attempts: 7, rate: { max: 3, perMs: 1000 } },
    });
  });

  test("do not bring back what an operator took away before there were any, and are written once", async () => {
    await w.run(w.mill.queues.set("email", { concurrency: 4, attempts: 3 }));
    await w.run(w.mill.queues.set("email", { concurrency: null, attempts: null }));
    expect(await w.run(w.mill.queues.define(queue("email", defaults)))).toMatchObject(asDefined);
    const { gates } = await w.run(w.store.readGates({ keys: [queueGateKey("email")] }));
    await w.run(w.mill.queues.define(queue("email", defaults)));
    const again = await w.run(w.store.readGates({ keys: [queueGateKey("email")] }));
    expect(again.gates[0]?.version).toBe(gates[0]?.version);
  });

  test("pause a queue once, and leave it to the operator then", async () => {
    const define = (paused: boolean, queueName = "email") =>
      w.run(w.mill.queues.define(queue(queueName, { paused })));
    expect(await define(true)).toMatchObject({ paused: true });
    expect(await define(false)).toMatchObject({ paused: false });
    expect(await define(true)).toMatchObject({ paused: true });
    await w.run(w.mill.queues.resume("email"));
    expect(await define(false)).toMatchObject({ paused: false });
    expect(await define(true)).toMatchObject({ paused: false });
    expect(await w.run(w.mill.queues.reset("email"))).toMatchObject({ paused: true });
    await w.run(w.mill.queues.pause("other"));
    expect(await define(false, "other")).toMatchObject({ paused: true });
  });

  test("are refused with a sentence if they are wrong, or if a queue has two", async () => {
    const wrong = (options: object) => () => queue("email", options);
    expect(wrong({})).toThrow("give at least one default");
    expect(wrong({ concurrency: null })).toThrow("concurrency is null; leave it out");
    expect(wrong({ total: 3 })).toThrow('unknown option "total"');
    expect(wrong({ concurrency: 0 })).toThrow(coded("invalid-option"));
    expect(wrong({ paused: 1 })).toThrow("paused must be true or false");
    const twice = [queue("email", { attempts: 1 }), queue("email", { attempts: 2 })];
    const starting = w.mill.work([handler(mail, () => undefined)], { queueDefaults: twice });
    await expect(w.run(starting)).rejects.toThrow("two definitions in queueDefaults");
    if (partitions > 1)
      await expect(w.run(w.mill.queues.define(queue("email", { concurrency: 1 })))).rejects.toThrow(
        coded("placement-conflict"),
      );
  });
});
