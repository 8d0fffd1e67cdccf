import { describe, expect, test } from "vitest";
import { openVirtualMill } from "../../test/support/virtual-mill.ts";
import { createPayloadCoder } from "../codec/payload.ts";
import { createVirtualPlatform } from "../testing/virtual-platform.ts";
import type { Store } from "../store/store.ts";
import { openSqliteStore } from "../stores/sqlite/sqlite-store.ts";
import { MillraceError } from "../model/error.ts";
import { Engine } from "./engine.ts";
import type { Duty, DutyRun } from "./duties/duty.ts";
import { idleRun } from "./duties/duty.ts";
import { Quarantine } from "./duties/quarantine.ts";
import { job } from "./definition.ts";
import type { Logger } from "./logger.ts";
import { silentLogger } from "./logger.ts";
import { declaredRouter } from "./router.ts";
import { Supervisor } from "./supervisor.ts";

async function open(log: Logger = silentLogger) {
  const platform = createVirtualPlatform();
  const store: Store = await openSqliteStore({ path: ":memory:", platform });
  const settings = {
    coder: createPayloadCoder(),
    codeDefaults: {},
    retention: { completedMs: 1, failedMs: 1, otherMs: 1 },
    feedKeepMs: 1,
    noHandlerGraceMs: null,
    strideMs: 1,
    router: declaredRouter,
    backoffs: {},
    enqueueMiddleware: [],
    giveUpMs: 1000,
  };
  const engine = new Engine(store, platform, settings, log);
  return { platform, store, engine, advance: (ms: number) => platform.time.advance(ms * 1000) };
}

const duty = (name: string, run: () => Promise<DutyRun>, more: Partial<Duty> = {}): Duty => ({
  name,
  wakes: "sleep",
  sleepMaxMs: 1000,
  run,
  ...more,
});

describe("the supervisor", () => {
  test("runs each duty at its start and then after its sleep, and a full batch again at once", async () => {
    const { engine, advance } = await open();
    const runs: number[] = [];
    const supervisor = new Supervisor(engine, [
      duty(
        "count",
        async () => (runs.push(engine.platform.now()), { ...idleRun, hasMore: runs.length <= 3 }),
      ),
    ]);
    supervisor.start();
    await advance(0);
    expect(runs).toHaveLength(4);
    expect(new Set(runs).size).toBe(1);
    await advance(1000);
    expect(runs).toHaveLength(5);
    expect(await finish(supervisor, advance)).toBe(0);
    await advance(10_000);
    expect(runs).toHaveLength(5);
  });

  test("starts a crashed duty again with backoff, while the others go on", async () => {
    const warnings: string[] = [];
    const { engine, advance } = await open({ ...silentLogger, warn: (message) => warnings.push(message) });
    let crashes = 0;
    let fine = 0;
    const supervisor = new Supervisor(engine, [
      duty("shaky", async () => {
        if (++crashes <= 3) throw new Error("crash");
        return idleRun;
      }),
      duty("fine", async () => (fine++, idleRun)),
    ]);
    supervisor.start();
    await advance(10_000);
    expect(warnings).toHaveLength(3);
    expect(crashes).toBeGreaterThan(5);
    expect(fine).toBeGreaterThan(8);
    await finish(supervisor, advance);
  });

  test("a run that hangs is given up, and a stop does not wait for it longer than its grace", async () => {
    const { engine, advance } = await open();
    let runs = 0;
    const supervisor = new Supervisor(engine, [duty("hung", () => (runs++, new Promise<never>(() => {})))]);
    supervisor.start();
    await advance(61_000);
    expect(runs).toBe(2);
    expect(await finish(supervisor, advance, 2000)).toBe(1);
  });

  test("wakes the duties of other clocks only when one has rung that promoting did not serve", async () => {
    const { engine, advance } = await open();
    let next: number | null = 60_000;
    let alarms = 0;
    const supervisor = new Supervisor(engine, [
      duty("clock", async () => ({ ...idleRun, nextInMs: next }), { wakes: "clock" }),
      duty("alarm", async () => (alarms++, idleRun), { wakes: "alarm", sleepMaxMs: 600_000 }),
    ]);
    supervisor.start();
    await advance(20_000);
    expect(alarms).toBe(1);
    next = 0;
    await advance(1100);
    expect(alarms).toBeGreaterThanOrEqual(2);
    await finish(supervisor, advance);
  });
});

async function finish(
  supervisor: Supervisor,
  advance: (ms: number) => Promise<void>,
  graceMs = 5000,
): Promise<number> {
  const stopped = supervisor.stop(graceMs);
  await advance(graceMs);
  return stopped;
}

describe("poison items", () => {
  test("are left alone for growing periods after three failures, and a success clears them", async () => {
    const platform = createVirtualPlatform();
    const quarantine = new Quarantine(platform);
    quarantine.failed("bad");
    quarantine.failed("bad");
    expect(quarantine.has("bad")).toBe(false);
    quarantine.failed("bad");
    expect(quarantine.list()).toEqual(["bad"]);
    await platform.time.advance(10_000_000);
    expect(quarantine.has("bad")).toBe(false);
    quarantine.failed("bad");
    await platform.time.advance(10_000_000);
    expect(quarantine.has("bad")).toBe(true);
    quarantine.succeeded("bad");
    expect(quarantine.has("bad")).toBe(false);
  });

  test("a job that the store cannot change does not stop the jobs behind it", async () => {
    const v = await openVirtualMill();
    const plain = job("plain");
    const poison = await v.run(v.mill.enqueue(plain, {}, { deadline: "1s" }));
    const good = await v.run(v.mill.enqueue(plain, {}, { deadline: "1s" }));
    const changeIf = v.store.changeIf.bind(v.store);
    v.store.changeIf = (changes) =>
      changes.some(({ id }) => id === poison.id)
        ? Promise.reject(new MillraceError("store-corrupt", "its page is damaged"))
        : changeIf(changes);
    v.mill.startDuties();
    await v.advance(60_000);
    expect(await v.run(v.mill.handle(good.id).peek())).toMatchObject({ status: "ended", state: "expired" });
    const [left] = await v.run(v.store.readJobs([poison.id]));
    expect(left?.state).toBe("ready");
    await v.close();
  });
});
