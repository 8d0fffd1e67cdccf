import { routeNumber } from "../../model/routing/route.ts";
import { describe, expect, test } from "vitest";
import { deferred } from "../../../test/support/virtual/virtual-mill.ts";
import { useVirtualMill } from "../../../test/support/virtual/use-virtual-mill.ts";
import { job } from "../../engine/submit/job-definition.ts";
import { MillraceError } from "../../model/error.ts";
import { AttemptAborted } from "../control.ts";
import { handler } from "../handler.ts";

const v = useVirtualMill();

const slow = job<unknown, string>("slow", {
  retry: { attempts: 2, backoff: { kind: "fixed", delay: "1s", jitter: "none" } },
});

/** A handler that ends when it is told to, or when its signal fires and it heeds it. */
function heedful(signal: AbortSignal, release: Promise<string>): Promise<string> {
  return new Promise((resolve, reject) => {
    signal.addEventListener("abort", () => reject(signal.reason), { once: true });
    void release.then(resolve);
  });
}

const reasonOf = (error: unknown): string => (error instanceof AttemptAborted ? error.reason : String(error));

describe("leases", () => {
  test("renew themselves while a handler runs, however long", async () => {
    const release = deferred<string>();
    await v.run(v.mill.work([handler(slow, () => release.promise)], { lease: "1s" }));
    const handle = await v.run(v.mill.enqueue(slow, {}));
    await v.advance(60_000);
    expect(await v.run(v.mill.jobs.get(handle.id))).toMatchObject({
      state: "running",
      attempt: 1,
      failures: [],
    });
    release.resolve("late");
    expect(await v.run(handle.result())).toBe("late");
  });

  test("are reclaimed within two seconds of their end when the worker is gone, with backoff, and the crash counts", async () => {
    const handle = await v.run(v.mill.enqueue(slow, {}));
    const claimed = await v.run(
      v.store.claim({
        owner: "dead",
        leaseMs: 3000,
        offers: [{ routes: [routeNumber("default", "slow")], max: 1 }],
      }),
    );
    const [lease] = claimed.jobs;
    await v.run(
      v.store.extendIfLeased({
        owner: "dead",
        leaseMs: 3000,
        leases: [{ ...lease!, startedAgoMs: 0 }],
        wantsOthers: false,
      }),
    );
    const from = v.platform.time.now;
    await v.run(v.mill.work([handler(slow, async ({ attempt }) => `attempt ${attempt}`)]));
    expect(await v.run(handle.result())).toBe("attempt 2");
    expect(v.platform.time.now - from).toBeLessThan(3000 + 2000 + 1000 + 50);
    expect((await v.run(v.mill.jobs.get(handle.id)))?.failures).toMatchObject([
      { outcome: "lease-expired", worker: "dead" },
    ]);
    const late = await v.run(
      v.store.settleIfLeased([
        {
          ...lease!,
          next: { to: "completed", event: "completed", reason: null, result: null, keepMs: null },
          attempts: null,
        },
      ]),
    );
    expect(late).toEqual([{ kind: "stale" }]);
  });

  test("of jobs that never started give the attempt back, but not for ever", async () => {
    const handle = await v.run(v.mill.enqueue(slow, {}));
    v.mill.duties.start();
    for (let crash = 1; crash <= 20; crash++) {
      await v.run(
        v.store.claim({
          owner: "dead",
          leaseMs: 1000,
          offers: [{ routes: [routeNumber("default", "slow")], max: 1 }],
        }),
      );
      await v.advance(5000);
    }
    const view = await v.run(v.mill.jobs.get(handle.id));
    expect(view).toMatchObject({ state: "failed", reason: "crash-loop", attempt: 2 });
    expect(view?.failures).toHaveLength(7);
    expect((await v.run(v.mill.explain(handle.id)))?.why).toBe(
      "It ended as failed: crash-loop, its lease was lost too often: its worker crashed, was stopped or cut off, " +
        "or its event loop stood still.",
    );
  });

  test("a claim whose reply was lost is found again: its jobs run and no attempt is burnt", async () => {
    const handle = await v.run(v.mill.enqueue(slow, {}));
    const claim = v.store.claim.bind(v.store);
    let losses = 0;
    v.store.claim = async (request) => {
      const answer = await claim(request);
      if (answer.jobs.length === 0 || losses++ > 0) return answer;
      throw new MillraceError("outcome-unknown", "the reply was lost");
    };
    // No third of this lease is whole, and yet the times of the attempt are: its log can be read at the replay.
    await v.run(v.mill.work([handler(slow, async ({ attempt }) => `attempt ${attempt}`)], { lease: 1000 }));
    expect(await v.run(handle.result())).toBe("attempt 1");
    expect(losses).toBe(1);
    await v.run(v.mill.jobs.retry(handle.id, { resetAttempts: false }));
    await v.advance(1000);
    expect(await v.run(v.mill.jobs.get(handle.id))).toMatchObject({ state: "completed", attempt: 2 });
  });

  test("a settle whose reply was lost is repeated and answered as already applied", async () => {
    const settle = v.store.settleIfLeased.bind(v.store);
    const answers: string[] = [];
    v.store.settleIfLeased = async (settles) => {
      const given = await settle(settles);
      answers.push(...given.map(({ kind }) => kind));
      if (answers.length === 1) throw new MillraceError("outcome-unknown", "the reply was lost");
      return given;
    };
    const worker = await v.run(v.mill.work([handler(slow, async () => "once")]));
    const handle = await v.run(v.mill.enqueue(slow, {}));
    expect(await v.run(handle.result())).toBe("once");
    await v.advance(1000);
    expect(answers).toEqual(["ok", "already"]);
    expect(worker.held).toBe(0);
  });

  test("a revoked attempt is aborted with lease-lost and its result is dropped", async () => {
    const reasons: string[] = [];
    let runs = 0;
    await v.run(
      v.mill.work(
        [
          handler(slow, async ({ signal }) => {
            runs += 1;
            if (runs > 1) return "second";
            return heedful(signal, deferred<string>().promise).catch((error: unknown) => {
              reasons.push(reasonOf(error));
              return "first";
            });
          }),
        ],
        { lease: "1s" },
      ),
    );
    const handle = await v.run(v.mill.enqueue(slow, {}));
    await v.advance(500);
    await v.run(v.mill.jobs.revoke(handle.id));
    expect(await v.run(handle.result())).toBe("second");
    await v.advance(5000);
    expect(reasons).toEqual(["lease-lost"]);
  });

  test("a job that arrives at an idle worker of its own process is claimed in the flush of its submit", async () => {
    const calls: string[] = [];
    await v.run(v.mill.work([handler(slow, async () => "ok")]));
    await v.run((await v.run(v.mill.enqueue(slow, {}))).result());
    await v.advance(1000);
    const [submit, claim] = [v.store.submit.bind(v.store), v.store.claim.bind(v.store)];
    v.store.submit = (units) => (calls.push(`submit at ${v.platform.time.elapsedUs}`), submit(units));
    v.store.claim = (request) => (calls.push(`claim at ${v.platform.time.elapsedUs}`), claim(request));
    const turnUs = v.platform.time.elapsedUs;
    await v.run((await v.run(v.mill.enqueue(slow, {}))).result());
    expect(calls.slice(0, 2)).toEqual([`submit at ${turnUs}`, `claim at ${turnUs}`]);
  });

  test("are lost at their end when the store never answers the renewal, and a claim that hangs does not hold a stop", async () => {
    const reasons: string[] = [];
    const started = deferred();
    const worker = await v.run(
      v.mill.work(
        [
          handler(slow, ({ signal }) => {
            started.resolve();
            return heedful(signal, deferred<string>().promise).catch((error: unknown) => {
              reasons.push(reasonOf(error));
              throw error;
            });
          }),
        ],
        { lease: "1s", abortGrace: "1s" },
      ),
    );
    await v.run(v.mill.enqueue(slow, {}));
    await v.run(started.promise);
    v.store.extendIfLeased = () => new Promise<never>(() => {});
    v.store.claim = () => new Promise<never>(() => {});
    await v.advance(2000);
    expect(reasons).toEqual(["lease-lost"]);
    await v.advance(10_000);
    const from = v.platform.time.now;
    await v.run(worker.stop({ grace: "1s" }));
    expect(v.platform.time.now - from).toBeLessThan(5000);
  });

  test("can be extended by hand", async () => {
    const extended = deferred();
    const release = deferred<string>();
    await v.run(
      v.mill.work(
        [
          handler(slow, async ({ extend }) => {
            await extend("1h");
            extended.resolve();
            return release.promise;
          }),
        ],
        { lease: "1s" },
      ),
    );
    const handle = await v.run(v.mill.enqueue(slow, {}));
    await v.run(extended.promise);
    await v.advance(5000);
    const view = await v.run(v.mill.jobs.get(handle.id));
    expect((view?.leaseEndsAt?.getTime() ?? 0) - v.platform.time.now).toBeGreaterThan(3_000_000);
    release.resolve("ok");
    await v.run(handle.result());
  });
});

describe("aborts", () => {
  test("a timeout counts from the real start, aborts the signal and is retried", async () => {
    const timed = job<unknown, string>("timed", { timeout: "2s", retry: { attempts: 2, backoff: 0 } });
    const reasons: string[] = [];
    await v.run(
      v.mill.work([
        handler(timed, ({ signal, attempt }) =>
          attempt === 2
            ? Promise.resolve("ok")
            : heedful(signal, deferred<string>().promise).catch((error: unknown) => {
                reasons.push(reasonOf(error));
                throw error;
              }),
        ),
      ]),
    );
    const handle = await v.run(v.mill.enqueue(timed, {}));
    const from = v.platform.time.now;
    expect(await v.run(handle.result())).toBe("ok");
    expect(v.platform.time.now - from).toBeGreaterThanOrEqual(2000);
    expect(reasons).toEqual(["timeout"]);
    expect((await v.run(v.mill.jobs.get(handle.id)))?.failures).toMatchObject([{ outcome: "timed-out" }]);
  });

  test("a handler that ignores its timeout is abandoned after the grace, and its slot stays busy until it ends", async () => {
    const stubborn = job<unknown, string>("stubborn", { timeout: "1s", retry: { attempts: 1 } });
    const release = deferred<string>();
    const worker = await v.run(
      v.mill.work([handler(stubborn, () => release.promise)], { abortGrace: "3s", concurrency: 1 }),
    );
    const handle = await v.run(v.mill.enqueue(stubborn, {}));
    const next = await v.run(v.mill.enqueue(stubborn, {}));
    await expect(v.run(handle.result())).rejects.toMatchObject({ code: "job-failed" });
    expect((await v.run(v.mill.jobs.get(handle.id)))?.failures).toMatchObject([{ outcome: "abandoned" }]);
    await v.advance(10_000);
    expect(worker.running).toBe(1);
    expect(await v.run(v.mill.jobs.get(next.id))).not.toMatchObject({ state: "completed" });
    release.resolve("late");
    expect(await v.run(next.result())).toBe("late");
  });

  test("a deadline ends a running job as expired", async () => {
    const reasons: string[] = [];
    await v.run(
      v.mill.work([
        handler(slow, ({ signal }) =>
          heedful(signal, deferred<string>().promise).catch((error: unknown) => {
            reasons.push(reasonOf(error));
            throw error;
          }),
        ),
      ]),
    );
    const handle = await v.run(v.mill.enqueue(slow, {}, { deadline: "5s" }));
    await expect(v.run(handle.result())).rejects.toMatchObject({ code: "job-expired" });
    expect(reasons).toEqual(["deadline"]);
    expect(await v.run(v.mill.jobs.get(handle.id))).toMatchObject({ reason: "deadline" });
  });

  test("a deadline and a time-to-live end a waiting job as expired", async () => {
    v.mill.duties.start();
    const late = await v.run(v.mill.enqueue(slow, {}, { deadline: "5s" }));
    const stale = await v.run(v.mill.enqueue(slow, {}, { delay: "5s", ttl: "10s" }));
    await expect(v.run(late.result())).rejects.toMatchObject({ code: "job-expired" });
    const from = v.platform.time.now;
    await expect(v.run(stale.result())).rejects.toMatchObject({ code: "job-expired" });
    expect(v.platform.time.now - from).toBeGreaterThan(8000);
    expect(await v.run(v.mill.jobs.get(stale.id))).toMatchObject({ reason: "time-to-live", attempt: 0 });
  });

  test("a running job gets its cancel within a second; one that throws is cancelled and never retried", async () => {
    const started = deferred();
    await v.run(
      v.mill.work([
        handler(slow, ({ signal }) => {
          started.resolve();
          return heedful(signal, deferred<string>().promise);
        }),
      ]),
    );
    const handle = await v.run(v.mill.enqueue(slow, {}));
    await v.run(started.promise);
    const from = v.platform.time.now;
    expect(await v.run(v.mill.jobs.cancel(handle.id))).toBe("signalled");
    await expect(v.run(handle.result())).rejects.toMatchObject({ code: "job-cancelled" });
    expect(v.platform.time.now - from).toBeLessThan(1000);
    expect(await v.run(v.mill.jobs.cancel(handle.id))).toBe("finished");
  });

  test("a handler that returns normally after its cancel is completed", async () => {
    const started = deferred();
    await v.run(
      v.mill.work([
        handler(slow, async ({ signal }) => {
          started.resolve();
          return heedful(signal, deferred<string>().promise).catch(() => "done anyway");
        }),
      ]),
    );
    const handle = await v.run(v.mill.enqueue(slow, {}));
    await v.run(started.promise);
    await v.run(v.mill.jobs.cancel(handle.id));
    expect(await v.run(handle.result())).toBe("done anyway");
  });
});

describe("shutdown", () => {
  test("hands unstarted jobs back and waits for the running ones, without burning an attempt", async () => {
    const release = deferred<string>();
    const worker = await v.run(v.mill.work([handler(slow, () => release.promise)], { concurrency: 1 }));
    const handles = await v.run(v.mill.enqueueMany([slow.with({}), slow.with({}), slow.with({})]));
    await v.advance(1000);
    const stopped = worker.stop();
    expect(worker.stop()).toBe(stopped);
    await v.advance(1000);
    release.resolve("finished");
    expect(await v.run(stopped)).toEqual({ notStopped: 0 });
    const states = (await v.run(v.mill.jobs.list())).jobs.map(({ state }) => state).toSorted();
    expect(states).toEqual(["completed", "ready", "ready"]);
    expect(worker.held).toBe(0);
    expect(handles).toHaveLength(3);
  });

  test("aborts what does not finish in its grace and gives the attempt back", async () => {
    const worker = await v.run(
      v.mill.work([handler(slow, ({ signal }) => heedful(signal, deferred<string>().promise))], {
        shutdownGrace: "2s",
      }),
    );
    const handle = await v.run(v.mill.enqueue(slow, {}));
    await v.advance(500);
    expect(await v.run(worker.stop())).toEqual({ notStopped: 0 });
    expect(await v.run(v.mill.jobs.get(handle.id))).toMatchObject({ state: "ready", failures: [] });
    await v.run(v.mill.work([handler(slow, async ({ attempt }) => `attempt ${attempt}`)]));
    expect(await v.run(handle.result())).toBe("attempt 1");
  });

  test("says how many handlers did not stop, and their jobs go back all the same", async () => {
    const release = deferred<string>();
    const worker = await v.run(
      v.mill.work([handler(slow, () => release.promise)], { shutdownGrace: "1s", abortGrace: "1s" }),
    );
    const handle = await v.run(v.mill.enqueue(slow, {}));
    await v.advance(500);
    expect(await v.run(worker.stop())).toEqual({ notStopped: 1 });
    expect(await v.run(v.mill.jobs.get(handle.id))).toMatchObject({ state: "ready" });
    release.resolve("too late");
  });

  test("refuses to start with nothing to serve", async () => {
    await expect(v.run(v.mill.work([]))).rejects.toMatchObject({ code: "no-handlers" });
    await expect(v.run(v.mill.work([handler(slow, async () => "")], { queues: {} }))).rejects.toMatchObject({
      code: "no-handlers",
    });
    const twice = [handler(slow, async () => ""), handler(slow, async () => "")];
    await expect(v.run(v.mill.work(twice))).rejects.toMatchObject({ code: "duplicate-handler" });
  });
});
