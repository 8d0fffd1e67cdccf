// Wrong arguments of any call are refused by a MillraceError with a code. A call that returns a promise rejects.
import { describe, expect, test, vi } from "vitest";
import { useVirtualMill } from "../../test/support/virtual/use-virtual-mill.ts";
import { flow, handler, isMillraceError, job, Millrace, routeByPrefix, topic } from "../index.ts";
import { testMillrace } from "../testing/index.ts";

const v = useVirtualMill();
const wrong: unknown[] = [undefined, null, 1, "", {}, [], () => 1, Symbol("s"), 5n];
const plain = job("plain");
const news = topic("news");
const aFlow = () => {
  const made = flow("one");
  made.add("only", plain, null);
  return made;
};
const handlers = [handler(plain, () => 1)];

const calls: Record<string, (given: never) => unknown> = {
  "jobs.get(id)": (given) => v.mill.jobs.get(given),
  "jobs.get(job, id)": (given) => v.mill.jobs.get(plain, given),
  "jobs.get(id, options)": (given) => v.mill.jobs.get("a", given),
  "jobs.list(query)": (given) => v.mill.jobs.list(given),
  "jobs.list({ state })": (given) => v.mill.jobs.list({ state: given }),
  "jobs.list({}, options)": (given) => v.mill.jobs.list({}, given),
  "jobs.find(query)": (given) => v.mill.jobs.find(given).next(),
  "jobs.counts(options)": (given) => v.mill.jobs.counts(given),
  "jobs.logs(id)": (given) => v.mill.jobs.logs(given),
  "jobs.logs(id, options)": (given) => v.mill.jobs.logs("a", given),
  "jobs.cancel(id)": (given) => v.mill.jobs.cancel(given),
  "jobs.cancel(id, options)": (given) => v.mill.jobs.cancel("a", given),
  "jobs.retry(id)": (given) => v.mill.jobs.retry(given),
  "jobs.retry(id, options)": (given) => v.mill.jobs.retry("a", given),
  "jobs.delete(id)": (given) => v.mill.jobs.delete(given),
  "jobs.delete(id, options)": (given) => v.mill.jobs.delete("a", given),
  "jobs.runNow(id)": (given) => v.mill.jobs.runNow(given),
  "jobs.runNow(id, options)": (given) => v.mill.jobs.runNow("a", given),
  "jobs.reschedule(id, options)": (given) => v.mill.jobs.reschedule("a", given),
  "jobs.edit(id, changes)": (given) => v.mill.jobs.edit("a", given),
  "jobs.revoke(id)": (given) => v.mill.jobs.revoke(given),
  "jobs.revoke(id, options)": (given) => v.mill.jobs.revoke("a", given),
  "queues.settings(queue)": (given) => v.mill.queues.settings(given),
  "queues.pause(queue)": (given) => v.mill.queues.pause(given),
  "queues.pause(queue, options)": (given) => v.mill.queues.pause("a", given),
  "queues.resume(queue)": (given) => v.mill.queues.resume(given),
  "queues.closeIntake(queue)": (given) => v.mill.queues.closeIntake(given),
  "queues.openIntake(queue)": (given) => v.mill.queues.openIntake(given),
  "queues.set(queue, settings)": (given) => v.mill.queues.set("a", given),
  "limits.define(limit)": (given) => v.mill.limits.define(given),
  "limits.state(name)": (given) => v.mill.limits.state(given),
  "limits.edit(name, settings)": (given) => v.mill.limits.edit("a", given),
  "limits.reset(name)": (given) => v.mill.limits.reset(given),
  "limits.throttle(name)": (given) => v.mill.limits.throttle(given),
  "limits.throttle(name, options)": (given) => v.mill.limits.throttle("a", given),
  "explain(id)": (given) => v.mill.explain(given),
  "duties.run(name)": (given) => v.mill.duties.run(given),
  "enqueue(job)": (given) => v.mill.enqueue(given, null),
  "enqueue(job, input, options)": (given) => v.mill.enqueue(plain, null, given),
  "enqueue(job, input, options, call)": (given) => v.mill.enqueue(plain, null, {}, given),
  "enqueueMany(list)": (given) => v.mill.enqueueMany(given),
  "enqueueMany(list, call)": (given) => v.mill.enqueueMany([plain.with(null)], given),
  "submit(flow, options)": (given) => v.mill.submit(aFlow(), given),
  "submit(flow, options, call)": (given) => v.mill.submit(aFlow(), {}, given),
  "publish(topic, input, options)": (given) => v.mill.publish(news, null, given),
  "publish(topic, input, options, call)": (given) => v.mill.publish(news, null, {}, given),
  "call(job, input, options)": (given) =>
    v.mill.call(plain, null, { timeout: "1s", ...(given as object) } as never),
  "kv.get(key, options)": (given) => v.mill.kv.get("a", given),
  "kv.put(key, value, options)": (given) => v.mill.kv.put("a", 1, given),
  "kv.delete(key, options)": (given) => v.mill.kv.delete("a", given),
  "work(handlers)": (given) => v.mill.work(given),
  "work(handlers, options)": (given) => v.mill.work(handlers, given),
  "work(handlers, { queues })": (given) => v.mill.work(handlers, { queues: given }),
};

describe("wrong arguments", () => {
  test.each(Object.keys(calls))("of %s are refused as a MillraceError or taken as left out", async (name) => {
    for (const given of wrong) {
      const answer = calls[name]?.(given as never);
      expect(answer).toBeInstanceOf(Promise);
      const error: unknown = await v.run(
        (answer as Promise<unknown>).then(
          () => null,
          (reason: unknown) => reason,
        ),
      );
      expect([String(given), error === null || isMillraceError(error), error]).toEqual([
        String(given),
        true,
        error,
      ]);
    }
  });

  test.each([
    ...["jobs.get(id, options)", "jobs.list(query)", "jobs.list({}, options)", "jobs.find(query)"],
    ...[
      "jobs.counts(options)",
      "jobs.logs(id, options)",
      "jobs.cancel(id, options)",
      "jobs.retry(id, options)",
    ],
    ...["jobs.delete(id, options)", "jobs.runNow(id, options)", "jobs.reschedule(id, options)"],
    ...["jobs.edit(id, changes)", "jobs.revoke(id, options)", "queues.pause(queue, options)"],
    ...["queues.set(queue, settings)", "limits.edit(name, settings)", "limits.throttle(name, options)"],
    ...["enqueue(job, input, options)", "enqueue(job, input, options, call)", "enqueueMany(list, call)"],
    ...["submit(flow, options)", "submit(flow, options, call)", "publish(topic, input, options)"],
    ...["publish(topic, input, options, call)", "call(job, input, options)", "work(handlers, options)"],
    ...["kv.get(key, options)", "kv.put(key, value, options)", "kv.delete(key, options)"],
  ])("%s refuses an option that it does not know", async (name) => {
    const answer = calls[name]?.({ timout: "1s" } as never) as Promise<unknown>;
    await expect(v.run(answer)).rejects.toMatchObject({
      code: "invalid-option",
      message: expect.stringContaining('unknown option "timout"'),
    });
  });

  test.each([
    ["kv.delete", () => v.mill.kv.delete("k", { ttl: "1s" } as object), "ttl"],
    ["kv.getEntry", () => v.mill.kv.getEntry("k", { version: 1 } as object), "version"],
  ])("%s refuses an option of another call", async (_name, call: () => Promise<unknown>, option) => {
    await expect(v.run(call())).rejects.toMatchObject({
      code: "invalid-option",
      message: expect.stringContaining(`unknown option "${option}"`),
    });
  });

  test.each(["jobs.get(id)", "jobs.cancel(id)", "jobs.delete(id)", "explain(id)", "duties.run(name)"])(
    "%s refuses a value that is not a text",
    async (name) => {
      for (const given of [undefined, null, 1, ""])
        await expect(v.run(calls[name]?.(given as never) as Promise<unknown>)).rejects.toMatchObject({
          code: expect.stringMatching(/^invalid-(name|option)$/),
        });
    },
  );
});

test.each<[string, () => unknown]>([
  ["Millrace.open(url, null)", () => Millrace.open("sqlite::memory:", null as never)],
  ["testMillrace(null)", () => testMillrace(null as never)],
  ["routeByPrefix(undefined)", async () => routeByPrefix(undefined as never)],
])("%s is refused by its code", async (_call, refused) => {
  await expect(refused()).rejects.toMatchObject({ code: "invalid-option" });
});

test("wrong arguments of a handler's own calls are refused as a MillraceError, and fields of a log line may be null", async () => {
  const refusals: unknown[] = [];
  const lines = handler(plain, (context) => {
    context.log.info("a line", null as never);
    for (const given of wrong as never[])
      for (const act of [
        () => context.enqueue(given, null),
        () => context.whenFailed.enqueue(given, null),
        () => context.kv.put(given, 1),
        () => context.kv.delete(given),
      ])
        try {
          act();
        } catch (error) {
          refusals.push(error);
        }
    return 1;
  });
  await v.run(v.mill.work([lines]));
  const handle = await v.run(v.mill.enqueue(plain, null));
  expect(await v.run(handle.result())).toBe(1);
  expect(refusals).toHaveLength(4 * wrong.length);
  for (const error of refusals) expect([isMillraceError(error), error]).toEqual([true, error]);
  expect(await v.run(v.mill.jobs.logs(handle.id))).toMatchObject([{ message: "a line" }]);
});

test("open without a URL opens the store of MILLRACE_STORE, and refuses to guess one", async () => {
  try {
    vi.stubEnv("MILLRACE_STORE", "sqlite::memory:");
    const mill = await Millrace.open();
    await mill.close();
    vi.stubEnv("MILLRACE_STORE", " ");
    await expect(Millrace.open()).rejects.toThrow(expect.objectContaining({ code: "unknown-store" }));
  } finally {
    vi.unstubAllEnvs();
  }
});
