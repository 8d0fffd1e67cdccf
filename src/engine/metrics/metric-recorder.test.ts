// What a process counts is written as parts, which anybody can read, and nothing is written by who counted nothing.
import { expect, test } from "vitest";
import { z } from "zod";
import { openVirtualMill } from "../../../test/support/virtual/virtual-mill.ts";
import type { VirtualMill } from "../../../test/support/virtual/virtual-mill.ts";
import type { MillraceOptions } from "../../client/millrace-options.ts";
import { MillraceError } from "../../model/error.ts";
import { handler } from "../../worker/handler.ts";
import { job } from "../submit/job-definition.ts";
import { metricKind, partPrefix } from "./metric-docs.ts";

const send = job<number>("send", {
  queue: "mail",
  retry: { attempts: 2, backoff: { kind: "fixed", delay: "1s", jitter: "none" } },
});

async function readParts(v: VirtualMill): Promise<readonly string[]> {
  const { docs } = await v.run(
    v.store.readDocs({ kind: metricKind, prefix: partPrefix, after: null, max: 500 }),
  );
  return docs.map(({ id }) => id);
}

/** A mill that works on `send`: an input of n runs for n milliseconds, a negative one fails. */
async function working(options: MillraceOptions = {}): Promise<VirtualMill> {
  const v = await openVirtualMill(options);
  const work = handler(send, async ({ input }) => {
    if (input < 0) throw new Error("no");
    await new Promise<void>((resolve) => v.platform.setTimer(input, resolve));
  });
  await v.run(v.mill.work([work]));
  return v;
}

test("attempts, their outcomes and their times are counted by queue and name", async () => {
  const v = await working();
  const handles = await v.run(v.mill.enqueueMany([send.with(100), send.with(200), send.with(-1)]));
  await v.run(Promise.allSettled(handles.map((handle) => handle.result())));
  const { all, series } = await v.run(v.mill.metrics.read());
  expect(series.map(({ queue, name }) => [queue, name])).toEqual([["mail", "send"]]);
  expect(all).toMatchObject({
    enqueued: 3,
    attempts: 4,
    outcomes: { completed: 2, failed: 1, "retry-scheduled": 1 },
    run: { count: 4, maxMs: 200 },
    total: { count: 3 },
  });
  expect(all.run?.p99Ms).toBeGreaterThanOrEqual(99);
  expect(all.total?.maxMs).toBeGreaterThanOrEqual(1000);
  await v.close();
});

test("a process writes its first part after a tenth of a second, so that one that crashes again and again is counted", async () => {
  const v = await working();
  const parts: number[] = [];
  for (const ms of [100, 1000, 4000, 15_000]) {
    await v.run((await v.run(v.mill.enqueue(send, 1))).result());
    await v.advance(ms - 60);
    parts.push((await readParts(v)).length);
    await v.advance(160);
    parts.push((await readParts(v)).length);
  }
  expect(parts).toEqual([0, 1, 1, 2, 2, 3, 3, 4]);
  await v.close();
});

test("a part is written within a quarter of a minute, and belongs to the minute in which its jobs ended", async () => {
  const v = await working();
  await v.run((await v.run(v.mill.enqueue(send, 1))).result());
  expect(await readParts(v)).toEqual([]);
  await v.advance(15_100);
  expect(await readParts(v)).toHaveLength(1);
  const first = await v.run(v.mill.metrics.read());
  await v.advance(120_000);
  await v.run((await v.run(v.mill.enqueue(send, 1))).result());
  await v.advance(15_100);
  const { series, stepMs } = await v.run(v.mill.metrics.read());
  expect(stepMs).toBe(60_000);
  const [one, other] = series[0]!.points;
  expect(one).toEqual(first.series[0]!.points[0]);
  expect(other!.at.getTime() - one!.at.getTime()).toBeGreaterThanOrEqual(120_000);
  await v.close();
});

test("a process without jobs writes nothing, whatever calls it makes", async () => {
  const v = await working();
  await v.advance(3_600_000);
  expect(await readParts(v)).toEqual([]);
  await v.close();
});

test("what was counted last is written when the mill closes, behind the last handler", async () => {
  const v = await openVirtualMill();
  await v.run(v.mill.work([handler(send, () => undefined)]));
  const put: string[] = [];
  const putDocs = v.store.putDocs.bind(v.store);
  v.store.putDocs = (puts) => {
    put.push(...puts.filter(({ kind }) => kind === metricKind).map(({ body }) => body ?? ""));
    return putDocs(puts);
  };
  await v.run((await v.run(v.mill.enqueue(send, 1))).result());
  expect(put).toEqual([]);
  await v.close();
  expect(put).toHaveLength(1);
  expect(put[0]).toContain('"mail","send"');
});

test("parts that could not be written are written once the store is back, and counted once", async () => {
  const v = await working();
  const putDocs = v.store.putDocs.bind(v.store);
  let isLost = true;
  v.store.putDocs = async (puts) => {
    const isPart = puts.some(({ kind }) => kind === metricKind);
    if (!isPart) return putDocs(puts);
    // Once the reply is lost behind the write, then the store does not answer at all.
    if (isLost) await putDocs(puts);
    isLost = false;
    throw new Error("away");
  };
  await v.run((await v.run(v.mill.enqueue(send, 1))).result());
  await v.advance(20_000);
  await v.run((await v.run(v.mill.enqueue(send, 1))).result());
  await v.advance(60_000);
  v.store.putDocs = putDocs;
  await v.advance(30_000);
  expect((await v.run(v.mill.metrics.read())).all).toMatchObject({ enqueued: 2, attempts: 2 });
  await v.close();
});

test("what a fenced process could not write is lost, said once and not tried again", async () => {
  const lines: string[] = [];
  const log = { error: String, warn: (line: string) => void lines.push(line), info: String, debug: String };
  const v = await working({ log });
  let tries = 0;
  const putDocs = v.store.putDocs.bind(v.store);
  v.store.putDocs = async (puts) => {
    if (!puts.some(({ kind }) => kind === metricKind)) return putDocs(puts);
    tries += 1;
    throw new MillraceError("store-fenced", "Another process writes.");
  };
  await v.run((await v.run(v.mill.enqueue(send, 1))).result());
  await v.advance(200_000);
  expect(tries).toBe(1);
  expect(lines.filter((line) => line.includes("metrics"))).toEqual([
    "the last metrics of this process are lost",
  ]);
  await v.close();
});

test("metrics: false counts and writes nothing, and still reads what others have counted", async () => {
  const v = await working({ metrics: false });
  await v.run((await v.run(v.mill.enqueue(send, 1))).result());
  await v.advance(120_000);
  expect(await readParts(v)).toEqual([]);
  expect((await v.run(v.mill.metrics.read())).series).toEqual([]);
  await expect(openVirtualMill({ metrics: "yes" as never })).rejects.toMatchObject({
    code: "invalid-option",
  });
  await v.close();
});

test("a usual minute of a process takes a few kilobytes", async () => {
  const v = await working();
  const jobs = Array.from({ length: 400 }, (_, at) => send.with(5 + (at % 60)));
  const handles = await v.run(v.mill.enqueueMany(jobs));
  await v.run(Promise.all(handles.map((handle) => handle.result())));
  await v.advance(60_000);
  const { docs } = await v.run(
    v.store.readDocs({ kind: metricKind, prefix: partPrefix, after: null, max: 9 }),
  );
  expect(docs.reduce((sum, { body }) => sum + body.length, 0)).toBeLessThan(3000);
  await v.close();
});

test("steps of durable runs are counted once, and a suspend is an end of an attempt but none of its job", async () => {
  const order = job("order", { queue: "orders", signals: { go: z.string() }, durable: { version: 1 } });
  const v = await openVirtualMill();
  const work = handler(order, async ({ step }) => {
    await step.run("reserve", () => new Promise<void>((resolve) => v.platform.setTimer(70, resolve)));
    const { value } = await step.waitFor("go");
    return step.run("charge", ({ attempt }) => {
      if (attempt === 1) throw new Error("no");
      return value;
    });
  });
  await v.run(v.mill.work([work]));
  const handle = await v.run(v.mill.enqueue(order, null));
  await v.advance(5000);
  await v.run(v.mill.signal(order, handle.id, "go", "now"));
  await v.run(handle.result());
  const { all } = await v.run(v.mill.metrics.read());
  expect(all).toMatchObject({
    outcomes: { completed: 1, suspended: 1 },
    total: { count: 1 },
    steps: { completed: 2, failed: 1, run: { count: 3, maxMs: 70 } },
  });
  await v.advance(120_000);
  const text = await v.run(v.mill.metrics.prometheus());
  expect(text).toContain('millrace_steps_total{queue="orders",name="order",outcome="completed"} 2');
  expect(text).toContain('millrace_steps_total{queue="orders",name="order",outcome="failed"} 1');
  expect(text).toContain('millrace_step_run_seconds_count{queue="orders",name="order"} 3');
  await v.close();
});
