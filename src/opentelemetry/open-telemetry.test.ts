// Metrics of the real SDK, and that an SDK which is not there or breaks touches no job.
import { propagation, trace } from "@opentelemetry/api";
import type { Span } from "@opentelemetry/api";
import { describe, expect, test } from "vitest";
import { after, greet, useTracedMill } from "../../test/support/virtual/use-traced-mill.ts";
import { openVirtualMill } from "../../test/support/virtual/virtual-mill.ts";
import { batchHandler, handler } from "../worker/handler.ts";
import { openTelemetry } from "./open-telemetry.ts";

const m = useTracedMill();

describe("metrics", () => {
  test("count what was sent and consumed, and measure enqueues, handlers and waits", async () => {
    await m.v.run(
      m.v.mill.work([
        handler(greet, async ({ attempt }) => {
          if (attempt === 1) throw new RangeError("no");
          return "ok";
        }),
      ]),
    );
    const handles = await m.v.run(
      m.v.mill.enqueueMany([greet.with({ name: "a" }), greet.with({ name: "b" })]),
    );
    await m.v.run(Promise.all(handles.map((handle) => handle.result())));
    const about = { "messaging.destination.name": "mail", "messaging.millrace.job.name": "greet" };
    expect(await m.recorded.points("messaging.client.sent.messages")).toMatchObject([
      { value: 2, attributes: about },
    ]);
    expect(await m.recorded.points("messaging.client.operation.duration")).toMatchObject([
      { value: { count: 1 }, attributes: { ...about, "messaging.operation.name": "enqueue" } },
    ]);
    const consumed = await m.recorded.points("messaging.client.consumed.messages");
    expect(consumed.map(({ value, attributes }) => [value, attributes["error.type"]])).toEqual([
      [2, "RangeError"],
      [2, undefined],
    ]);
    const processed = await m.recorded.points("messaging.process.duration");
    expect(processed.map(({ value }) => (value as { count: number }).count)).toEqual([2, 2]);
    expect(await m.recorded.points("messaging.millrace.wait.duration")).toMatchObject([
      { value: { count: 4 } },
    ]);
  });
});

describe("without a working SDK", () => {
  test("nothing rides with a job, and it runs", async () => {
    await m.reopen(null);
    await m.serve();
    const handle = await m.v.run(m.v.mill.enqueue(greet, { name: "Ann" }));
    expect(await m.v.run(handle.result())).toBe("hello Ann");
    const [record] = await m.v.store.readJobs([handle.id]);
    expect(record?.meta).toBeNull();
  });

  test("jobs run though everything of it throws", async () => {
    const broken = (): never => {
      throw new Error("the SDK is broken");
    };
    const span = new Proxy({}, { get: () => broken }) as Span;
    const providers = [
      { getTracer: () => ({ startSpan: broken, startActiveSpan: broken }) },
      { getTracer: () => ({ startSpan: () => span, startActiveSpan: broken }) },
      {
        getTracer: () => ({
          startSpan: () =>
            trace.wrapSpanContext(m.recorded.tracerProvider.getTracer("x").startSpan("x").spanContext()),
          startActiveSpan: broken,
        }),
      },
    ];
    propagation.disable();
    propagation.setGlobalPropagator({ inject: broken, extract: broken, fields: () => [] });
    try {
      for (const tracerProvider of providers) {
        await m.reopen({ tracerProvider, meterProvider: { getMeter: broken } });
        await m.v.run(
          m.v.mill.work([
            handler(greet, async (context) => (context.enqueue(after, 1), "ok")),
            batchHandler(after, { size: 2 }, async () => {}),
          ]),
        );
        const traced = { trace: { traceparent: `00-${"a".repeat(32)}-${"b".repeat(16)}-01` } };
        const handle = await m.v.run(m.v.mill.enqueue(greet, { name: "Ann" }, traced));
        expect(await m.v.run(handle.result())).toBe("ok");
        await m.v.run(m.v.mill.enqueueMany([greet.with({ name: "a" }), greet.with({ name: "b" })]));
        await m.v.advance(5000);
        expect(await m.v.run(m.v.mill.jobs.counts())).toEqual({
          mail: { completed: 3 },
          later: { completed: 3 },
        });
      }
    } finally {
      propagation.disable();
    }
  });

  test.each([
    { attempts: "parent" as never },
    { spanNames: 1 as never },
    { createSpans: "yes" as never },
    { sampler: 1 } as never,
  ])("bad options are refused: %o", (options) => {
    expect(() => openTelemetry(options)).toThrow(expect.objectContaining({ code: "invalid-option" }));
  });

  test("something else than telemetry is refused when the store is opened", async () => {
    for (const telemetry of [1, null, {}, m.recorded.tracerProvider])
      await expect(openVirtualMill({ telemetry: telemetry as never })).rejects.toMatchObject({
        code: "invalid-option",
      });
  });
});
