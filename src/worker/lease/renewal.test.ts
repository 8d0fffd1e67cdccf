import { describe, expect, test } from "vitest";
import { deferred } from "../../../test/support/virtual/virtual-mill.ts";
import { useVirtualMill } from "../../../test/support/virtual/use-virtual-mill.ts";
import { job } from "../../engine/submit/job-definition.ts";
import { MillraceError } from "../../model/error.ts";
import { handler } from "../handler.ts";

const v = useVirtualMill();

const slow = job<unknown, string>("slow");

describe("the leases", () => {
  test("of all workers of one process are renewed in one call, those of another length in another", async () => {
    const other = job("other");
    const quick = job("quick");
    const never = (): Promise<never> => new Promise(() => {});
    const options = { lease: "3s", shutdownGrace: 0, abortGrace: 10 } as const;
    const calls: number[] = [];
    const extend = v.store.extendIfLeased.bind(v.store);
    v.store.extendIfLeased = (request) => (calls.push(request.leases.length), extend(request));
    const workers = [
      await v.run(v.mill.work([handler(slow, never)], options)),
      await v.run(v.mill.work([handler(other, never)], options)),
    ];
    for (const each of [slow, other, other]) await v.run(v.mill.enqueue(each, {}));
    await v.advance(1000);
    calls.length = 0;
    await v.advance(30_000);
    expect(new Set(calls)).toEqual(new Set([3]));
    expect(calls.length).toBeLessThanOrEqual(30);
    const third = await v.run(v.mill.work([handler(quick, never)], { ...options, lease: "6s" }));
    await v.run(v.mill.enqueue(quick, {}));
    await v.advance(1000);
    calls.length = 0;
    await v.advance(30_000);
    expect(new Set(calls)).toEqual(new Set([1, 3]));
    await Promise.all([...workers, third].map((worker) => v.run(worker.stop())));
  });

  test("whose renewal the store has not answered are not renewed a second time, and their handlers are aborted in time", async () => {
    const release = deferred();
    const calls: number[] = [];
    const extend = v.store.extendIfLeased.bind(v.store);
    let isStalled = true;
    v.store.extendIfLeased = async (request) => {
      calls.push(request.leases.length);
      const answer = await extend(request);
      if (isStalled) await release.promise;
      return answer;
    };
    let lost = 0;
    const run = handler(slow, ({ signal }) => {
      signal.addEventListener("abort", () => (lost += 1));
      return new Promise<never>(() => {});
    });
    const worker = await v.run(v.mill.work([run], { lease: "3s", abortGrace: 10, shutdownGrace: 0 }));
    await v.run(v.mill.enqueue(slow, {}));
    await v.advance(2500);
    expect([calls, lost]).toEqual([[1], 0]);
    // The handler is aborted at the lease's end all the same, and no call is sent after the one that is open.
    await v.advance(1500);
    expect([calls, lost]).toEqual([[1], 1]);
    isStalled = false;
    release.resolve();
    await v.run(worker.stop());
  });

  test("of a job that somebody's open transaction holds are neither lost nor taken for extended", async () => {
    const extend = v.store.extendIfLeased.bind(v.store);
    let locked = 2;
    v.store.extendIfLeased = async (request) => {
      if (request.leases.length === 0 || locked-- <= 0) return extend(request);
      return { answers: request.leases.map(() => "unknown"), others: [], now: v.platform.time.now };
    };
    const ended = deferred<string>();
    await v.run(v.mill.work([handler(slow, () => ended.promise)], { lease: "3s" }));
    const handle = await v.run(v.mill.enqueue(slow, {}));
    await v.advance(9000);
    ended.resolve("kept");
    expect(await v.run(handle.result())).toBe("kept");
    expect(await v.run(v.mill.jobs.get(handle.id))).toMatchObject({ attempt: 1 });
  });

  test("that had ended when their claim was answered are handed back, and nothing is started on them", async () => {
    const starts: number[] = [];
    const claim = v.store.claim.bind(v.store);
    let isSlow = true;
    v.store.claim = async (request) => {
      const answer = await claim(request);
      if (!isSlow || answer.jobs.length === 0) return answer;
      isSlow = false;
      await new Promise<void>((resolve) => void v.platform.setTimer(1000, resolve));
      return answer;
    };
    const duties = v.store.readDue.bind(v.store);
    // Nobody else takes it away meanwhile.
    v.store.readDue = async (request) => ({ ...(await duties(request)), jobs: [] });
    const run = handler(slow, async ({ attempt, fence }) => {
      starts.push(fence.value % 2 ** 32);
      return `attempt ${attempt}`;
    });
    await v.run(v.mill.work([run], { lease: "500ms" }));
    const handle = await v.run(v.mill.enqueue(slow, {}));
    expect(await v.run(handle.result())).toBe("attempt 1");
    expect(starts).toEqual([2]);
  });

  test("of a claim that never comes back are looked for after a limit, and claiming goes on", async () => {
    const claim = v.store.claim.bind(v.store);
    let isHung = false;
    v.store.claim = async (request) => {
      const answer = await claim(request);
      if (isHung || answer.jobs.length === 0) return answer;
      isHung = true;
      return new Promise<never>(() => {});
    };
    await v.run(v.mill.work([handler(slow, async () => "done")], { lease: "10m" }));
    const handle = await v.run(v.mill.enqueue(slow, {}));
    const from = v.platform.time.now;
    expect(await v.run(handle.result())).toBe("done");
    expect(v.platform.time.now - from).toBeLessThan(95_000);
    expect(await v.run((await v.run(v.mill.enqueue(slow, {}))).result())).toBe("done");
  });

  test("that are renewed by a call that fails for one worker's lost claim are kept for the other", async () => {
    const other = job("other");
    const release = deferred<string>();
    const started = deferred();
    const run = handler(slow, () => (started.resolve(), release.promise));
    await v.run(v.mill.work([run], { lease: "3s" }));
    const handle = await v.run(v.mill.enqueue(slow, {}));
    await v.run(started.promise);
    const claim = v.store.claim.bind(v.store);
    let isLost = false;
    v.store.claim = async (request) => {
      const answer = await claim(request);
      if (isLost || answer.jobs.length === 0) return answer;
      isLost = true;
      throw new MillraceError("outcome-unknown", "the reply was lost");
    };
    const extend = v.store.extendIfLeased.bind(v.store);
    let refusals = 3;
    v.store.extendIfLeased = (request) =>
      request.wantsOthers && refusals-- > 0
        ? Promise.reject(new MillraceError("store-unavailable", "not now"))
        : extend(request);
    await v.run(v.mill.work([handler(other, async ({ attempt }) => `attempt ${attempt}`)], { lease: "3s" }));
    const found = await v.run(v.mill.enqueue(other, {}));
    expect(await v.run(found.result())).toBe("attempt 1");
    await v.advance(10_000);
    expect(await v.run(v.mill.jobs.get(handle.id))).toMatchObject({ state: "running", attempt: 1 });
    release.resolve("kept");
    expect(await v.run(handle.result())).toBe("kept");
  });

  test("that a handler extends by hand after they were taken away are refused as lease-lost", async () => {
    const refusal = deferred<unknown>();
    const started = deferred();
    const go = deferred();
    let runs = 0;
    const run = handler(slow, async ({ extend }) => {
      runs += 1;
      if (runs > 1) return "second";
      started.resolve();
      await go.promise;
      await extend("1m").catch(refusal.resolve);
      return "first";
    });
    await v.run(v.mill.work([run], { lease: "30s" }));
    const handle = await v.run(v.mill.enqueue(slow, {}));
    await v.run(started.promise);
    await v.run(v.mill.jobs.revoke(handle.id));
    go.resolve();
    expect(await v.run(refusal.promise)).toMatchObject({ code: "lease-lost" });
    expect(await v.run(handle.result())).toBe("second");
  });

  test("that a handler extends by hand while the store is silent: it is aborted by the end of the lease", async () => {
    const refusal = deferred<unknown>();
    const run = handler(slow, async ({ extend }) => {
      v.store.extendIfLeased = () => new Promise<never>(() => {});
      await extend("1h").catch(refusal.resolve);
      return "done";
    });
    await v.run(v.mill.work([run], { lease: "3s" }));
    const from = v.platform.time.now;
    await v.run(v.mill.enqueue(slow, {}));
    expect(await v.run(refusal.promise)).toMatchObject({ code: "outcome-unknown" });
    expect(v.platform.time.now - from).toBeLessThan(3500);
  });
});
