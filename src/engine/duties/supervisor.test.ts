import { describe, expect, test } from "vitest";
import { deferred, openVirtualMill } from "../../../test/support/virtual/virtual-mill.ts";
import { createPayloadCoder } from "../../codec/payload.ts";
import { createVirtualPlatform } from "../../testing/virtual-platform.ts";
import { MillraceError } from "../../model/error.ts";
import type { Store } from "../../store/store.ts";
import { openSqliteStore } from "../../stores/sqlite/sqlite-store.ts";
import { createServices } from "../services.ts";
import type { Duty, DutyPass } from "./duty.ts";
import { idlePass } from "./duty.ts";
import { job } from "../submit/job-definition.ts";
import { handler } from "../../worker/handler.ts";
import type { Logger } from "../log/logger.ts";
import { silentLogger } from "../log/logger.ts";
import { defaultRouter } from "../submit/router.ts";
import { Supervisor } from "./supervisor.ts";

async function open(log: Logger = silentLogger) {
  const platform = createVirtualPlatform();
  const store: Store = await openSqliteStore({ path: ":memory:", platform });
  const settings = {
    coder: createPayloadCoder(),
    codeDefaults: {},
    retention: { completedMs: 1, failedMs: 1, otherMs: 1, feedMs: 1 },
    noHandlerGraceMs: null,
    onFailed: null,
    strideMs: 1,
    router: defaultRouter,
    backoffs: {},
    enqueueMiddleware: [],
    onAttempt: null,
    telemetry: null,
    hasMetrics: false,
    allowPrivate: false,
    giveUpMs: 1000,
  };
  const services = createServices(store, platform, settings, log);
  return { platform, store, services, advance: (ms: number) => platform.time.advance(ms * 1000) };
}

const duty = (name: string, pass: () => Promise<DutyPass>, more: Partial<Duty> = {}): Duty => ({
  name,
  wakes: "sleep",
  sleepMaxMs: 1000,
  pass,
  ...more,
});

describe("the supervisor", () => {
  test("after an outage, however long, a duty is back within two seconds", async () => {
    const { services, advance } = await open();
    let isAway = true;
    const passes: number[] = [];
    const away = new MillraceError("store-unavailable", "The store is away.");
    const pass = async (): Promise<DutyPass> => {
      if (isAway) throw away;
      passes.push(services.platform.now());
      return idlePass;
    };
    const supervisor = new Supervisor(services, [duty("count", pass)]);
    supervisor.start();
    await advance(600_000);
    isAway = false;
    await advance(2000);
    expect(passes.length).toBeGreaterThan(0);
    await supervisor.stop(1000);
  });

  test("runs each duty at its start and then after its sleep, and a full batch again at once", async () => {
    const { services, advance } = await open();
    const runs: number[] = [];
    const supervisor = new Supervisor(services, [
      duty(
        "count",
        async () => (runs.push(services.platform.now()), { ...idlePass, hasMore: runs.length <= 3 }),
      ),
    ]);
    supervisor.start();
    await advance(0);
    expect(runs).toHaveLength(4);
    expect(new Set(runs).size).toBe(1);
    await advance(1000);
    expect(runs).toHaveLength(5);
    expect(await finish(supervisor, advance)).toEqual([]);
    await advance(10_000);
    expect(runs).toHaveLength(5);
  });

  test("repeats a failed duty with backoff and one warning, while the others go on", async () => {
    const warnings: string[] = [];
    const { services, advance } = await open({ ...silentLogger, warn: (message) => warnings.push(message) });
    let crashes = 0;
    let fine = 0;
    const supervisor = new Supervisor(services, [
      duty("shaky", async () => {
        if (++crashes <= 3) throw new Error("crash");
        return idlePass;
      }),
      duty("fine", async () => (fine++, idlePass)),
    ]);
    supervisor.start();
    await advance(10_000);
    expect(warnings).toEqual(["duty shaky failed and starts again"]);
    expect(crashes).toBeGreaterThan(5);
    expect(fine).toBeGreaterThan(8);
    await finish(supervisor, advance);
  });

  test("a pass that hangs is given up, and a stop waits for it no longer than its grace", async () => {
    const { services, advance } = await open();
    let runs = 0;
    const supervisor = new Supervisor(services, [duty("hung", () => (runs++, new Promise<never>(() => {})))]);
    supervisor.start();
    await advance(61_000);
    expect(runs).toBe(2);
    expect(await finish(supervisor, advance, 2000)).toEqual(["hung"]);
  });

  test("wakes the duties of other clocks only if a clock is due that promoting did not serve", async () => {
    const { services, advance } = await open();
    let next: number | null = 60_000;
    let alarms = 0;
    const supervisor = new Supervisor(services, [
      duty("clock", async () => ({ ...idlePass, nextInMs: next }), { wakes: "clock" }),
      duty("alarm", async () => (alarms++, idlePass), { wakes: "alarm", sleepMaxMs: 600_000 }),
    ]);
    supervisor.start();
    await advance(20_000);
    expect(alarms).toBe(1);
    next = 0;
    await advance(1100);
    expect(alarms).toBeGreaterThanOrEqual(2);
    await finish(supervisor, advance);
  });

  test("a clock that was served does not hide the next one", async () => {
    const v = await openVirtualMill();
    v.mill.duties.start();
    await v.run(v.mill.enqueue(job("doomed"), {}, { deadline: "10s" }));
    const late = await v.run(v.mill.enqueue(job("late"), {}, { delay: 10_100 }));
    await v.advance(10_150);
    expect(await v.run(v.store.readJobs([late.id]))).toMatchObject([{ state: "ready" }]);
    await v.close();
  });

  test("a duty that is switched off is refused as such, and an unknown one with the names there are", async () => {
    const v = await openVirtualMill({ duties: { retention: false } });
    await expect(v.run(v.mill.duties.run("retention"))).rejects.toThrow("is switched off in this process");
    await expect(v.run(v.mill.duties.run("nap"))).rejects.toThrow("known are promote, ");
    await v.close();
  });

  test("close returns the duties that did not stop", async () => {
    const v = await openVirtualMill({ duties: { retention: { sleep: "1s" } } });
    expect(await v.close()).toEqual({ notStopped: { handlers: 0, duties: [], store: false } });
    const w = await openVirtualMill();
    w.store.prune = () => new Promise<never>(() => {});
    const started = deferred();
    const stubborn = handler(job("stubborn"), () => (started.resolve(), new Promise<never>(() => {})));
    await w.run(w.mill.work([stubborn], { shutdownGrace: 0, abortGrace: "1s" }));
    await w.run(w.mill.enqueue(stubborn.definition, {}));
    await w.run(started.promise);
    w.store.close = () => new Promise<never>(() => {});
    expect(await w.close()).toEqual({ notStopped: { handlers: 1, duties: ["retention"], store: true } });
  });
});

async function finish(
  supervisor: Supervisor,
  advance: (ms: number) => Promise<void>,
  graceMs = 5000,
): Promise<readonly string[]> {
  const stopped = supervisor.stop(graceMs);
  await advance(graceMs);
  return stopped;
}
