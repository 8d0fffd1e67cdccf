import { describe, expect, test } from "vitest";
import { millOn } from "../../../test/support/mill-on.ts";
import { useVirtualMill } from "../../../test/support/virtual/use-virtual-mill.ts";
import { deferred } from "../../../test/support/virtual/virtual-mill.ts";
import { job } from "../../engine/submit/job-definition.ts";
import { MillraceError } from "../../model/error.ts";
import { Cancel, Unrecoverable } from "../../worker/control.ts";
import { handler } from "../../worker/handler.ts";

const v = useVirtualMill();
const greet = job<{ name: string }, string>("greet");
const coded = (code: string) => expect.objectContaining({ code });

const serve = (): Promise<unknown> =>
  v.mill.work([handler(greet, async ({ input }) => `hello ${input.name}`)]);

async function refusalOf(promise: Promise<unknown>): Promise<MillraceError> {
  const error: unknown = await v.run(
    promise.then(
      (value) => ({ value }),
      (reason: unknown) => reason,
    ),
  );
  expect(error).toBeInstanceOf(MillraceError);
  return error as MillraceError;
}

/** Records how many ids each read of jobs has. */
function countReads(): number[] {
  const reads: number[] = [];
  const readJobs = v.store.readJobs.bind(v.store);
  v.store.readJobs = (ids) => (reads.push(ids.length), readJobs(ids));
  return reads;
}

describe("a call", () => {
  test("is answered with the result of its job", async () => {
    await serve();
    expect(await v.run(v.mill.call(greet, { name: "Ann" }))).toBe("hello Ann");
    expect(await v.run(v.mill.jobs.counts())).toEqual({ default: { completed: 1 } });
  });

  test("takes the options of an enqueue, and the timeout of an attempt by its own name", async () => {
    await serve();
    const options = { id: "mine", tags: ["a"], attemptTimeout: "5s", timeout: "10s" } as const;
    expect(await v.run(v.mill.call(greet, { name: "Ann" }, options))).toBe("hello Ann");
    expect(await v.run(v.mill.jobs.get("mine"))).toMatchObject({ tags: ["a"] });
    const [record] = await v.store.readJobs(["mine"]);
    expect(JSON.parse(record!.policy!)).toEqual({ timeoutMs: 5000 });
  });

  test("reads its job once, after the end, and together with the other calls of its flush", async () => {
    const reads = countReads();
    await serve();
    const answers = await v.run(
      Promise.all(Array.from({ length: 50 }, (_, at) => v.mill.call(greet, { name: `${at}` }))),
    );
    expect(answers[49]).toBe("hello 49");
    expect(reads.reduce((sum, count) => sum + count, 0)).toBe(50);
    expect(reads.length).toBeLessThan(20);
  });

  test("shares the watch of the last call, which ends by itself", async () => {
    await serve();
    let [begun, ended] = [0, 0];
    const watch = v.store.watch.bind(v.store);
    v.store.watch = (listener) => {
      begun += 1;
      const unwatch = watch(listener);
      return () => ((ended += 1), unwatch());
    };
    for (const name of ["a", "b", "c"]) await v.run(v.mill.call(greet, { name }));
    expect([begun, ended]).toEqual([1, 0]);
    await v.advance(6000);
    expect([begun, ended]).toEqual([1, 1]);
    await v.run(v.mill.call(greet, { name: "d" }));
    expect(begun).toBe(2);
  });

  test("is answered even if every hint is lost", async () => {
    v.store.watch = () => () => {};
    await serve();
    const from = v.platform.time.now;
    expect(await v.run(v.mill.call(greet, { name: "Ann" }))).toBe("hello Ann");
    expect(v.platform.time.now - from).toBeLessThan(5000);
  });

  test("does not report the job as missing during a slow submit", async () => {
    const submit = v.store.submit.bind(v.store);
    const gate = deferred();
    v.store.submit = async (units) => (await gate.promise, submit(units));
    await serve();
    const answer = v.mill.call(greet, { name: "Ann" });
    await v.advance(5000);
    gate.resolve();
    expect(await v.run(answer)).toBe("hello Ann");
  });

  test("with the unique key of another job waits for that job, even if it has ended", async () => {
    const unique = { key: "k", window: "1h" } as const;
    const handle = await v.run(v.mill.enqueue(greet, { name: "first" }, { unique }));
    const answer = v.mill.call(greet, { name: "second" }, { unique });
    await serve();
    expect(await v.run(answer)).toBe("hello first");
    expect(await v.run(v.mill.call(greet, { name: "third" }, { unique }))).toBe("hello first");
    expect((await v.run(v.mill.jobs.list())).jobs.map(({ id }) => id)).toEqual([handle.id]);
  });

  test("with the id of a job that has ended is answered at once", async () => {
    await serve();
    await v.run(v.mill.call(greet, { name: "Ann" }, { id: "mine" }));
    const from = v.platform.time.now;
    expect(await v.run(v.mill.call(greet, { name: "Ann" }, { id: "mine" }))).toBe("hello Ann");
    expect(v.platform.time.now - from).toBeLessThan(100);
    await expect(v.run(v.mill.call(greet, { name: "Bob" }, { id: "mine" }))).rejects.toThrow(
      coded("id-conflict"),
    );
  });

  test("in a store of several partitions waits for the id that its job gets there", async () => {
    await v.reopen({}, 4);
    await serve();
    const calls = Array.from({ length: 20 }, (_, at) =>
      v.mill.call(greet, { name: `${at}` }, { unique: `key-${at}` }),
    );
    expect((await v.run(Promise.all(calls))).length).toBe(20);
  });
});

describe("a call whose job does not complete", () => {
  test("rejects with the code of that end, and its cause", async () => {
    await v.mill.work([
      handler(greet, async ({ input }) => {
        if (input.name === "cancel") throw new Cancel("not today");
        throw new Unrecoverable("broken");
      }),
    ]);
    const failed = await refusalOf(v.mill.call(greet, { name: "x" }));
    expect(failed).toMatchObject({ code: "job-failed", cause: { message: "broken" } });
    await expect(v.run(v.mill.call(greet, { name: "cancel" }))).rejects.toThrow(coded("job-cancelled"));
    const late = v.mill.call(greet, { name: "x" }, { delay: "5s", deadline: "2s" });
    await expect(v.run(late)).rejects.toThrow(coded("job-expired"));
  });

  test("says that the result of a job that was there is not kept", async () => {
    await serve();
    const handle = await v.run(v.mill.enqueue(greet, { name: "x" }, { id: "mine", keepResult: false }));
    await v.run(handle.result());
    await expect(v.run(v.mill.call(greet, { name: "x" }, { id: "mine" }))).rejects.toThrow(
      coded("result-expired"),
    );
  });

  test("rejects with the error of its submit", async () => {
    await v.run(v.mill.queues.closeIntake("default"));
    await expect(v.run(v.mill.call(greet, { name: "x" }))).rejects.toThrow(coded("intake-closed"));
  });
});

describe("a caller who gives up", () => {
  test("cancels a job that has not started", async () => {
    const from = v.platform.time.now;
    const error = await refusalOf(v.mill.call(greet, { name: "x" }, { timeout: "2s" }));
    expect(error).toMatchObject({ code: "wait-timeout", outcome: "unknown", ids: [expect.any(String)] });
    expect(v.platform.time.now - from).toBe(2000);
    await v.advance(100);
    const view = await v.run(v.mill.jobs.get(error.ids![0]!));
    expect(view).toMatchObject({ state: "cancelled", reason: "caller-gave-up" });
  });

  test("lets a running job go on unless the call asks to cancel it too", async () => {
    const signals: AbortSignal[] = [];
    const end = deferred();
    await v.mill.work([
      handler(greet, async ({ signal }) => (signals.push(signal), await end.promise, "late")),
    ]);
    const controller = new AbortController();
    const kept = v.mill.call(greet, { name: "kept" }, { signal: controller.signal });
    const stopped = v.mill.call(greet, { name: "stopped" }, { signal: controller.signal, cancel: true });
    await v.advance(100);
    controller.abort(new Error("no patience"));
    const errors = await Promise.all([refusalOf(kept), refusalOf(stopped)]);
    for (const error of errors)
      expect(error).toMatchObject({ code: "aborted", cause: { message: "no patience" }, outcome: "unknown" });
    await v.advance(2000);
    expect(signals.map(({ aborted }) => aborted)).toEqual([false, true]);
    end.resolve();
    expect(await v.run(v.mill.handle<string>(errors[0].ids![0]!).result())).toBe("late");
  });

  test("may ask that the job goes on", async () => {
    const { ids } = await refusalOf(v.mill.call(greet, { name: "x" }, { timeout: "1s", cancel: false }));
    await v.advance(1000);
    expect(await v.run(v.mill.jobs.get(ids![0]!))).toMatchObject({ state: "ready" });
  });

  test("does not touch a job that another call made", async () => {
    const handle = await v.run(v.mill.enqueue(greet, { name: "x" }, { unique: "k" }));
    await refusalOf(v.mill.call(greet, { name: "y" }, { unique: "k", timeout: "1s", cancel: true }));
    await v.advance(1000);
    expect(await v.run(v.mill.jobs.get(handle.id))).toMatchObject({ state: "ready" });
  });

  test("during the submit has the job cancelled once it is made", async () => {
    const submit = v.store.submit.bind(v.store);
    const gate = deferred();
    v.store.submit = async (units) => (await gate.promise, submit(units));
    const { ids } = await refusalOf(v.mill.call(greet, { name: "x" }, { timeout: "1s" }));
    gate.resolve();
    await v.advance(100);
    expect(await v.run(v.mill.jobs.get(ids![0]!))).toMatchObject({ state: "cancelled" });
  });

  test("before the call makes no job", async () => {
    const signal = AbortSignal.abort("no");
    await expect(v.run(v.mill.call(greet, { name: "x" }, { signal }))).rejects.toThrow(coded("aborted"));
    expect(await v.run(v.mill.jobs.counts())).toEqual({});
  });

  test("and closes at once still has the job cancelled", async () => {
    const other = millOn(v.store, {}, v.platform);
    const { ids } = await refusalOf(v.mill.call(greet, { name: "x" }, { timeout: "1s" }));
    const close = v.store.close.bind(v.store);
    v.store.close = async () => {};
    await v.run(v.mill.close());
    expect(await v.run(other.jobs.get(ids![0]!))).toMatchObject({ state: "cancelled" });
    v.store.close = close;
    await v.run(other.close());
  });
});

describe("a call that cannot be answered", () => {
  async function expectRefused(call: Promise<unknown>, code: string): Promise<void> {
    await expect(v.run(call)).rejects.toThrow(coded(code));
    expect(await v.run(v.mill.jobs.counts())).toEqual({});
  }

  test.each([
    ["a result that is not kept", { keepResult: false }, "invalid-option"],
    ["a result that is kept shorter than the wait", { keepResult: "1s" }, "invalid-option"],
    ["an end that is kept shorter than the wait", { retention: { failed: "1s" } }, "invalid-option"],
    ["a delay as long as the wait", { delay: "30s" }, "invalid-option"],
    ["a wait of 0", { timeout: 0 }, "invalid-duration"],
    ["an unknown value for cancel", { cancel: "running" as never }, "invalid-option"],
    ["a signal that is not an AbortSignal", { signal: {} as never }, "invalid-option"],
    ["an unknown option", { unknown: 1 } as never, "invalid-option"],
    ["options that are not an object", null as never, "invalid-option"],
  ])("is refused before any write: %s", async (_title, options, code) => {
    await expectRefused(v.mill.call(greet, { name: "x" }, options as object), code);
  });

  test("is refused before any write: a store that keeps nothing for that long", async () => {
    await v.run(v.mill.retention.set({ completed: "10s" }));
    await expectRefused(v.mill.call(greet, { name: "x" }), "invalid-option");
  });

  test("is refused before any write: a definition whose delay is as long as the wait", async () => {
    const late = job<null>("late", { delay: "1m" });
    await expectRefused(v.mill.call(late, null), "invalid-option");
  });

  test("is refused before any write: a value that is not a job", async () => {
    await expectRefused(v.mill.call({} as never, {}), "invalid-option");
  });
});
