// Schedules on virtual time, on a store of one partition and on one of four.
import { describe, expect, test } from "vitest";
import { aDoc } from "../../../test/support/builders.ts";
import { millOn } from "../../../test/support/mill-on.ts";
import { useVirtualMill } from "../../../test/support/virtual/use-virtual-mill.ts";
import { deferred } from "../../../test/support/virtual/virtual-mill.ts";
import { flow } from "../../engine/flows/flow.ts";
import { job } from "../../engine/submit/job-definition.ts";
import { limit } from "../../engine/limits/limit-definition.ts";
import { schedule } from "../../engine/schedules/schedule-definition.ts";
import { handler } from "../../worker/handler.ts";

const report = job<{ day: string }>("report");
const hour = 3_600_000;

describe.each([1, 4])("on a store of %i partitions", (partitions) => {
  const v = useVirtualMill({}, partitions);

  /** The ticks that ran, in order, relative to the first reading of the clock. */
  function record(): { ticks: number[]; handlers: ReturnType<typeof handler>[] } {
    const ticks: number[] = [];
    return {
      ticks,
      handlers: [handler(report, ({ schedule: by }) => void ticks.push(by?.tick?.getTime() ?? -1))],
    };
  }

  test("a schedule fires at its ticks by the store's clock, and its handler knows the tick", async () => {
    const { ticks, handlers } = record();
    await v.run(v.mill.work(handlers));
    const now = v.platform.now();
    const first = Math.floor(now / 60_000) * 60_000 + 60_000;
    const view = await v.run(v.mill.schedule("minutely", report, { day: "x" }, { cron: "* * * * *" }));
    expect(view).toMatchObject({ name: "minutely", status: "active", next: new Date(first), fired: 0 });
    await v.advance(5 * 60_000);
    expect(ticks).toEqual([0, 1, 2, 3, 4].map((n) => first + n * 60_000));
    expect(await v.run(v.mill.schedules.get("minutely"))).toMatchObject({
      fired: 5,
      skipped: 0,
      lastTick: new Date(first + 4 * 60_000),
      job: { name: "report", queue: "default", input: { day: "x" } },
    });
    const { jobs } = await v.run(v.mill.jobs.list());
    expect(jobs).toHaveLength(5);
    expect(jobs[0]).toMatchObject({ schedule: { name: "minutely" }, state: "completed" });
  });

  test("defining it again unchanged does nothing, and another definition ends an operator's edit", async () => {
    const define = (mill = v.mill, cron = "0 * * * *"): Promise<unknown> =>
      v.run(mill.schedule("s", report, { day: "x" }, { cron }));
    await define();
    await v.run(v.mill.schedules.edit("s", { cron: "30 * * * *", overlap: "skip" }));
    await define();
    expect(await v.run(v.mill.schedules.get("s"))).toMatchObject({
      rule: { cron: "30 * * * *" },
      overlap: "skip",
      edited: ["rule", "overlap"],
    });
    await define(v.mill, "15 * * * *");
    expect(await v.run(v.mill.schedules.get("s"))).toMatchObject({
      rule: { cron: "15 * * * *" },
      edited: [],
    });
    await define(millOn(v.store, {}, v.platform), "45 * * * *");
    await define(v.mill, "15 * * * *");
    expect(await v.run(v.mill.schedules.get("s"))).toMatchObject({
      rule: { cron: "15 * * * *" },
      edited: [],
    });
    await v.run(v.mill.schedules.edit("s", { cron: "30 * * * *" }));
    expect(await v.run(v.mill.schedules.reset("s"))).toMatchObject({
      rule: { cron: "15 * * * *" },
      edited: [],
    });
  });

  test("an edit of the input holds for later jobs until a reset, and for none of a schedule that makes flows", async () => {
    const inputs: string[] = [];
    await v.run(v.mill.work([handler(report, ({ input }) => void inputs.push(input.day))]));
    await v.run(v.mill.schedule("s", report, { day: "x" }, { every: "1m" }));
    const edited = await v.run(v.mill.schedules.edit("s", { input: { day: "y" } }));
    expect(edited).toMatchObject({ edited: ["input"], job: { input: { day: "y" } } });
    await v.advance(60_000);
    // The same definition again leaves the edit alone.
    await v.run(v.mill.schedule("s", report, { day: "x" }, { every: "1m" }));
    await v.advance(60_000);
    await v.run(v.mill.schedules.reset("s"));
    await v.advance(60_000);
    expect(inputs).toEqual(["y", "y", "x"]);
    const given = flow("given");
    given.add("one", report, { day: "x" });
    await v.run(v.mill.schedule("f", given, { every: "1h" }));
    await expect(v.run(v.mill.schedules.edit("f", { input: 1 }))).rejects.toMatchObject({
      code: "invalid-option",
    });
  });

  test("a pause holds until a resume, and missed ticks are not made up for", async () => {
    const { ticks, handlers } = record();
    await v.run(v.mill.work(handlers));
    await v.run(v.mill.schedule("s", report, { day: "x" }, { every: "10s" }));
    await v.advance(10_000);
    expect(await v.run(v.mill.schedules.pause("s"))).toMatchObject({ status: "paused", next: null });
    await v.advance(100_000);
    expect(ticks).toHaveLength(1);
    await v.run(v.mill.schedules.resume("s"));
    await v.advance(20_000);
    expect(ticks).toHaveLength(3);
  });

  test("a run by hand makes a job without a tick, and the tick goes on", async () => {
    const { ticks, handlers } = record();
    await v.run(v.mill.work(handlers));
    await v.run(v.mill.schedule("s", report, { day: "x" }, { every: "1h" }));
    const id = await v.run(v.mill.schedules.runNow("s"));
    await v.advance(1000);
    expect(ticks).toEqual([-1]);
    expect(await v.run(v.mill.jobs.get(id))).toMatchObject({ schedule: { name: "s", tick: null } });
    await v.advance(hour);
    expect(ticks).toHaveLength(2);
  });

  test("a deleted schedule fires no more and can be defined again", async () => {
    await v.run(v.mill.schedule("s", report, { day: "x" }, { every: "1h" }));
    expect(await v.run(v.mill.schedules.delete("s"))).toBe(true);
    expect(await v.run(v.mill.schedules.delete("s"))).toBe(false);
    expect(await v.run(v.mill.schedules.list())).toEqual([]);
    await v.run(v.mill.schedule("s", report, { day: "y" }, { every: "2h" }));
    expect(await v.run(v.mill.schedules.list())).toMatchObject([{ name: "s", rule: { every: 2 * hour } }]);
  });

  test("next returns the ticks to come, up to the limit", async () => {
    await v.run(v.mill.schedule("s", report, { day: "x" }, { every: "1h", limit: 2 }));
    const ticks = await v.run(v.mill.schedules.next("s", 5));
    expect(ticks).toHaveLength(2);
    expect((ticks[1]?.getTime() ?? 0) - (ticks[0]?.getTime() ?? 0)).toBe(hour);
    await expect(v.run(v.mill.schedules.next("ghost"))).rejects.toMatchObject({ code: "unknown-schedule" });
  });

  test("schedules declared with a worker are defined before it starts; two of one name are refused", async () => {
    const { ticks, handlers } = record();
    const every = (name: string, day = name) => schedule(name, report, { day }, { every: "1m" });
    const conflict = v.run(v.mill.work(handlers, { schedules: [every("a"), every("a", "another")] }));
    await expect(conflict).rejects.toMatchObject({
      code: "schedule-conflict",
      message: expect.stringMatching(
        /schedules\.test\.ts:\d+:\d+.*, and .*schedules\.test\.ts:\d+:\d+/,
      ) as string,
    });
    const declared = { day: "a" };
    await v.run(v.mill.work(handlers, { schedules: [schedule("c", report, declared, { every: "1h" })] }));
    const second = v.run(
      v.mill.work(handlers, { schedules: [schedule("c", report, declared, { every: "2h" })] }),
    );
    await expect(second).rejects.toMatchObject({
      code: "schedule-conflict",
      message: expect.stringMatching(
        /schedules\.test\.ts:\d+:\d+, and .*schedules\.test\.ts:\d+:\d+/,
      ) as string,
    });
    // One at run time takes the place of a declared one.
    await v.run(v.mill.schedule("a", report, { day: "other" }, { every: "5m" }));
    await v.run(v.mill.work(handlers, { schedules: [every("a"), every("b")] }));
    await v.advance(60_000);
    expect(ticks).toHaveLength(2);
  });

  test.each(["skip", "queue-one", "cancel-previous", "allow"] as const)(
    "overlap %s decides what a tick does while the job before it runs",
    async (overlap) => {
      const ends: (() => void)[] = [];
      const aborted: number[] = [];
      const run = async ({ signal }: { signal: AbortSignal }): Promise<void> => {
        const { promise, resolve, reject } = deferred();
        const number = ends.push(resolve);
        signal.addEventListener("abort", () => {
          aborted.push(number);
          reject(signal.reason);
        });
        return promise;
      };
      await v.run(v.mill.work([handler(report, run)]));
      await v.run(v.mill.schedule("s", report, { day: "x" }, { every: "1m", overlap }));
      await v.advance(3 * 60_000 + 2000);
      const started = { skip: 1, "queue-one": 1, "cancel-previous": 3, allow: 3 }[overlap];
      expect(ends).toHaveLength(started);
      expect(aborted).toEqual(overlap === "cancel-previous" ? [1, 2] : []);
      ends.at(-1)?.();
      await v.advance(5000);
      expect(ends).toHaveLength(overlap === "queue-one" ? 2 : started);
      for (const end of ends) end();
    },
  );

  test("jobs with a limit lie where the limit lies, and so does their schedule, also after a move there", async () => {
    const slack = limit("slack", { concurrency: 1 });
    const { ticks, handlers } = record();
    await v.run(v.mill.work(handlers));
    for (let n = 0; n < 8; n++) await v.run(v.mill.schedule(`s${n}`, report, { day: "x" }, { every: "1m" }));
    await v.advance(60_100);
    expect(ticks).toHaveLength(8);
    const other = millOn(v.store, {}, v.platform);
    for (let n = 0; n < 8; n++)
      await v.run(other.schedule(`s${n}`, report, { day: "x" }, { every: "1m", limits: [slack] }));
    expect((await v.run(other.schedules.list())).map(({ name, fired }) => [name, fired])).toEqual(
      Array.from({ length: 8 }, (_, n) => [`s${n}`, 1]),
    );
    await v.advance(60_100);
    expect(ticks).toHaveLength(16);
    expect(await v.run(other.schedules.runNow("s3"))).toEqual(expect.any(String));
  });

  test("a backfill fires each tick of its range once, up to N at a time, and reports its progress", async () => {
    const ticks: number[] = [];
    let [running, most] = [0, 0];
    const run = async ({ schedule: by }: { schedule: { tick: Date | null } | null }): Promise<void> => {
      most = Math.max(most, ++running);
      ticks.push(by?.tick?.getTime() ?? -1);
      await new Promise<void>((resolve) => v.platform.setTimer(500, resolve));
      running -= 1;
    };
    await v.run(v.mill.work([handler(report, run)], { concurrency: 50 }));
    await v.run(v.mill.schedule("s", report, { day: "x" }, { every: "1h" }));
    await v.advance(hour + 1000);
    expect(ticks).toHaveLength(1);
    const to = v.platform.now();
    const range = { from: to - 20 * hour, to, atOnce: 4 };
    expect(await v.run(v.mill.schedules.backfill("s", range))).toMatchObject({
      total: 20,
      fired: 0,
      done: false,
    });
    await expect(v.run(v.mill.schedules.backfill("s", range))).rejects.toMatchObject({
      code: "backfill-running",
    });
    await v.advance(30_000);
    expect(await v.run(v.mill.schedules.backfillProgress("s"))).toMatchObject({
      total: 20,
      fired: 20,
      running: 0,
      done: true,
    });
    expect([new Set(ticks).size, ticks.length, most]).toEqual([20, 20, 4]);
    await expect(v.run(v.mill.schedules.backfill("s", { from: 0, to }))).rejects.toMatchObject({
      code: "invalid-option",
    });
  });

  test("an unreadable schedule is shown as such, and the others fire", async () => {
    const { ticks, handlers } = record();
    await v.run(v.mill.work(handlers));
    const bad = { kind: "schedule", due: { inMs: 0 } };
    await v.run(v.store.putDocs([aDoc("bad", "{}", bad), aDoc("worse", "no json", bad)]));
    await v.run(v.store.putDocs([aDoc("s", "no backfill", { ...bad, kind: "backfill" })]));
    await v.run(v.mill.schedule("s", report, { day: "x" }, { every: "1m" }));
    await v.advance(60_000);
    expect(ticks).toHaveLength(1);
    expect((await v.run(v.mill.schedules.list())).map(({ name, status }) => [name, status])).toEqual([
      ["bad", "unreadable"],
      ["s", "active"],
      ["worse", "unreadable"],
    ]);
    await expect(v.run(v.mill.schedules.pause("bad"))).rejects.toMatchObject({ code: "schedule-unreadable" });
    await expect(v.run(v.mill.schedules.backfillProgress("s"))).rejects.toMatchObject({
      code: "schedule-unreadable",
    });
    expect(await v.run(v.mill.schedules.stopBackfill("s"))).toBe(true);
    expect(await v.run(v.mill.schedules.delete("bad"))).toBe(true);
  });

  test("a queue with a closed intake skips ticks, and the schedule goes on after it", async () => {
    const { ticks, handlers } = record();
    await v.run(v.mill.work(handlers));
    await v.run(v.mill.schedule("s", report, { day: "x" }, { every: "1m" }));
    await v.run(v.mill.queues.closeIntake("default"));
    await v.advance(2 * 60_000 + 100);
    expect(await v.run(v.mill.schedules.get("s"))).toMatchObject({ status: "active", fired: 0, skipped: 2 });
    await v.run(v.mill.queues.openIntake("default"));
    await v.advance(60_000);
    expect(ticks).toHaveLength(1);
  });

  test.each([
    ["once", 1],
    ["skip", 0],
    [{ all: 3 }, 3],
  ] as const)("ticks that were due while no process ran: %j", async (missed, count) => {
    await v.run(v.mill.schedule("s", report, { day: "x" }, { every: "1m", missed }));
    await v.advance(10 * 60_000 + 30_000);
    const { ticks, handlers } = record();
    await v.run(v.mill.work(handlers));
    await v.advance(1000);
    expect(ticks).toHaveLength(count);
    await v.advance(60_000);
    expect(ticks).toHaveLength(count + 1);
  });

  test("a schedule without a handler goes on making jobs, which are visible", async () => {
    v.mill.duties.start();
    await v.run(v.mill.schedule("s", report, { day: "x" }, { every: "1m" }));
    await v.advance(3 * 60_000);
    expect(await v.run(v.mill.jobs.counts())).toMatchObject({ default: { ready: 3 } });
  });

  test.each([
    [{}, "invalid-option"],
    [{ cron: "61 * * * *" }, "invalid-schedule"],
    [{ every: "0s" }, "invalid-schedule"],
    [{ cron: "0 0 30 2 *" }, "invalid-schedule"],
    [{ cron: "* * * * *", zone: "Mars/Olympus" }, "invalid-schedule"],
    [{ every: "1m", delay: "1s" }, "invalid-option"],
    [{ every: "1m", speed: 1 }, "invalid-option"],
  ])("%j is refused before any write, as %s", async (options, code) => {
    await expect(
      v.run(v.mill.schedule("s", report, { day: "x" }, options as { every: "1m" })),
    ).rejects.toMatchObject({ code });
    expect(await v.run(v.mill.schedules.list())).toEqual([]);
  });
});

describe("a schedule whose input is encrypted", () => {
  const encryption = { current: "k", keys: { k: new Uint8Array(32).fill(7) } };
  const v = useVirtualMill({ encryption });

  test("is the same definition in every process, although its encrypted text differs each time", async () => {
    const define = (mill = v.mill, day = "x"): Promise<unknown> =>
      v.run(mill.schedule("s", report, { day }, { every: "1h" }));
    await define();
    await v.run(v.mill.schedules.edit("s", { every: "2h" }));
    await define();
    await define(millOn(v.store, { encryption }, v.platform));
    expect(await v.run(v.mill.schedules.get("s"))).toMatchObject({
      edited: ["rule"],
      job: { input: { day: "x" } },
    });
    const { docs } = await v.run(v.store.readDocs({ kind: "schedule", ids: ["s"] }));
    expect(docs[0]?.body).not.toContain("day");
    await define(millOn(v.store, { encryption }, v.platform), "y");
    expect(await v.run(v.mill.schedules.get("s"))).toMatchObject({
      edited: [],
      job: { input: { day: "y" } },
    });
  });
});
