// Metrics as people read them, and as Prometheus does: a strict parser reads its text.
import { describe, expect, test } from "vitest";
import { parsePrometheus } from "../../../test/support/parse-prometheus.ts";
import type { ParsedFamily } from "../../../test/support/parse-prometheus.ts";
import { useVirtualMill } from "../../../test/support/virtual/use-virtual-mill.ts";
import { job } from "../../engine/submit/job-definition.ts";
import { limit } from "../../engine/limits/limit-definition.ts";
import { MetricTotals } from "../../model/metrics/metric-totals.ts";
import { Throttled } from "../../worker/control.ts";
import { handler } from "../../worker/handler.ts";
import { metricKind } from "../../engine/metrics/metric-docs.ts";
import { metricFamilies } from "./metric-families.ts";

const v = useVirtualMill();
const minuteMs = 60_000;

const send = job<number>("send", { queue: "mail" });

/** Works on `send`: with an input of n the handler runs for n milliseconds. */
async function work(): Promise<void> {
  const wait = (ms: number): Promise<void> =>
    new Promise<void>((resolve) => void v.platform.setTimer(ms, resolve));
  await v.run(v.mill.work([handler(send, ({ input }) => wait(input))], { concurrency: 50 }));
}

async function runMany(inputs: readonly number[]): Promise<void> {
  const handles = await v.run(v.mill.enqueueMany(inputs.map((input) => send.with(input))));
  await v.run(Promise.all(handles.map((handle) => handle.result())));
}

describe("read", () => {
  test("the last attempts of a worker are there once it has stopped", async () => {
    const worker = await v.run(v.mill.work([handler(send, () => undefined)]));
    await runMany([1, 2, 3]);
    await v.run(worker.stop());
    const { docs } = await v.run(v.store.readDocs({ kind: metricKind, prefix: "", after: null, max: 10 }));
    expect(docs.length).toBeGreaterThan(0);
  });

  test("percentiles of a long period are those of all its attempts, not averages of its minutes", async () => {
    await work();
    // First a minute of many quick jobs, then one of few slow jobs.
    await runMany(Array.from({ length: 90 }, () => 20));
    await v.advance(2 * minuteMs);
    await runMany(Array.from({ length: 10 }, () => 1000));
    const { all, series } = await v.run(v.mill.metrics.read({ step: "1m" }));
    expect(series[0]?.points.map(({ run }) => Math.round(run!.p50Ms / 20))).toEqual([1, 50]);
    expect(all.run).toMatchObject({ count: 100, maxMs: 1000 });
    expect(Math.abs(all.run!.p50Ms - 20)).toBeLessThan(0.3);
    expect(Math.abs(all.run!.p90Ms - 20)).toBeLessThan(0.3);
    expect(Math.abs(all.run!.p95Ms - 1000)).toBeLessThan(11);
    expect(all.run!.meanMs).toBeCloseTo(118, 0);
  });

  test("points begin at multiples of the step, and a queue or a name can be read alone", async () => {
    await work();
    const other = job<null>("other", { queue: "reports" });
    await v.run(v.mill.work([handler(other, () => undefined)]));
    await runMany([5]);
    await v.run((await v.run(v.mill.enqueue(other, null))).result());
    const { series, stepMs } = await v.run(v.mill.metrics.read({ step: "15m" }));
    expect(series.map(({ queue, name }) => [queue, name])).toEqual([
      ["mail", "send"],
      ["reports", "other"],
    ]);
    expect(stepMs).toBe(15 * minuteMs);
    for (const { points } of series) expect(points[0]!.at.getTime() % stepMs).toBe(0);
    const ofQueue = await v.run(v.mill.metrics.read({ queue: "mail" }));
    const ofName = await v.run(v.mill.metrics.read({ name: "other" }));
    expect(ofQueue.series.map(({ queue }) => queue)).toEqual(["mail"]);
    expect(ofName.series.map(({ queue }) => queue)).toEqual(["reports"]);
    expect(ofName.all.enqueued).toBe(1);
  });

  test("answers stay the same while minutes are rolled up, and are the same from another process", async () => {
    await work();
    await runMany([5, 10, 15]);
    await v.advance(90_000);
    const options = { from: v.platform.now() - 10 * minuteMs, to: v.platform.now() };
    const before = await v.run(v.mill.metrics.read(options));
    await v.advance(20 * minuteMs);
    await v.run(v.mill.duties.run("metrics"));
    const { calls: _, ...after } = await v.run(v.mill.metrics.read(options));
    expect(before).toMatchObject(after);
    expect(after.all).toMatchObject({ enqueued: 3, attempts: 3 });
  });

  test("the calls to the store are counted with their times", async () => {
    await work();
    // Counting begins with the first job, after it was made and claimed.
    await runMany([5]);
    await runMany([5]);
    const { calls } = await v.run(v.mill.metrics.read());
    expect(calls.map(({ operation }) => operation)).toEqual(
      expect.arrayContaining(["claim", "settleIfLeased"]),
    );
    expect(calls.every(({ failed, took }) => failed === 0 && took!.count > 0)).toBe(true);
  });

  test.each([
    ["an unknown option", { since: 1 }, "invalid-option"],
    ["no instant", { from: "yesterday" }, "invalid-option"],
    ["an end before its beginning", { from: 2_000_000, to: 1_000_000 }, "invalid-option"],
    ["a step below a minute", { step: "10s" }, "invalid-option"],
    ["a step of a minute and a half", { step: "90s" }, "invalid-option"],
    ["a step that is not a duration", { step: "soon" }, "invalid-duration"],
    ["too many steps", { from: 0, to: 4_000_000_000_000 }, "invalid-option"],
    ["a queue that is not a name", { queue: "" }, "invalid-name"],
    ["a name that is not a text", { name: 7 }, "invalid-name"],
  ])("%s is refused", async (_, options, code) => {
    await expect(v.run(v.mill.metrics.read(options as object))).rejects.toMatchObject({ code });
  });
});

describe("queues", () => {
  test("gauges show depth, workers, slots, busy slots, pauses and cooling limits as they are", async () => {
    const slack = limit("slack", { concurrency: 5 });
    const post = job<null>("post", { queue: "chat", limits: [slack] });
    const ends: (() => void)[] = [];
    const hold = (): Promise<void> => new Promise<void>((resolve) => void ends.push(resolve));
    await v.run(
      v.mill.work([handler(send, hold), handler(post, () => new Throttled(slack, { retryAfter: "1h" }))], {
        queues: { mail: 2, chat: 1 },
      }),
    );
    await v.run(v.mill.enqueueMany([1, 2, 3].map((n) => send.with(n))));
    await v.run(v.mill.enqueue(post, null));
    await v.run(v.mill.enqueue(send, 4, { delay: "1h" }));
    await v.run(v.mill.queues.pause("mail"));
    await v.advance(3000);
    expect(await v.run(v.mill.metrics.queues())).toEqual([
      {
        queue: "chat",
        jobs: { ready: 1 },
        oldestReadyMs: 3000,
        ...{ held: 1, workers: 1, slots: 1, busy: 0, paused: false, intakeClosed: false, cooling: 1 },
      },
      {
        queue: "mail",
        jobs: { running: 2, ready: 1, scheduled: 1 },
        oldestReadyMs: 3000,
        ...{ held: 1, workers: 1, slots: 2, busy: 2, paused: true, intakeClosed: false, cooling: 0 },
      },
    ]);
    for (const end of ends) end();
  });
});

describe("prometheus", () => {
  const read = async (): Promise<readonly ParsedFamily[]> =>
    parsePrometheus(await v.run(v.mill.metrics.prometheus()));
  const named = (families: readonly ParsedFamily[], name: string): ParsedFamily["samples"] =>
    families.find((family) => family.name === name)?.samples ?? [];

  test("a strict parser reads counters, histograms and gauges out of its text", async () => {
    await work();
    await runMany([1, 20, 300, 4000]);
    const families = await read();
    const labels = { queue: "mail", name: "send" };
    expect(named(families, "millrace_enqueued_total")).toMatchObject([{ labels, value: 4 }]);
    expect(named(families, "millrace_attempts_total")).toMatchObject([
      { labels: { ...labels, outcome: "completed" }, value: 4 },
    ]);
    const [run] = named(families, "millrace_job_run_seconds");
    expect(run).toMatchObject({ labels, count: 4 });
    expect(run!.sum).toBeCloseTo(4.321, 2);
    expect([0.025, 0.5, 5, Infinity].map((bound) => run!.buckets.get(bound))).toEqual([2, 3, 4, 4]);
    expect(named(families, "millrace_queue_slots")).toMatchObject([{ labels: { queue: "mail" }, value: 50 }]);
    expect(named(families, "millrace_queue_jobs")).toMatchObject([
      { labels: { queue: "mail", state: "completed" }, value: 4 },
    ]);
  });

  test("any name of a queue or job comes back unchanged", async () => {
    const hostile = [
      "é🙂",
      "a b",
      "a,b",
      "a=b",
      "'",
      'a"b',
      "a\\",
      "a\\n",
      "a{b}",
      'x"} 1',
      "__proto__",
      "# HELP me",
      "le",
    ];
    for (const name of hostile) await v.run(v.mill.enqueue(job<null>(name, { queue: name }), null));
    const families = await read();
    for (const family of ["millrace_enqueued_total", "millrace_job_wait_seconds", "millrace_queue_jobs"])
      expect(new Set(named(families, family).map(({ labels }) => labels["queue"]))).toEqual(new Set(hostile));
  });

  test("counters never fall while minutes are rolled up and added up", async () => {
    await work();
    const count = async (): Promise<number> => named(await read(), "millrace_job_wait_seconds")[0]!.count;
    for (let round = 1; round <= 6; round++) {
      await runMany([5]);
      for (const ms of [1000, 20_000, 9 * minuteMs]) {
        await v.advance(ms);
        await v.run(v.mill.duties.run("metrics"));
        expect(await count()).toBe(round);
      }
    }
  });

  test("names follow the conventions: a unit at the end, counters and only counters end in total", () => {
    const totals = new MetricTotals();
    for (const { name, type } of metricFamilies({
      totals,
      queues: [],
      servers: [],
      processes: [],
      requests: null,
    })) {
      expect(name).toMatch(/^millrace_[a-z_]+$/);
      expect(name.endsWith("_total")).toBe(type === "counter");
      if (type === "histogram") expect(name).toMatch(/_seconds$/);
    }
  });
});
