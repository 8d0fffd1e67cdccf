// Spans of durable runs, with the real SDK: one for each call of a step's code, and waits as events of the attempt.
import { SpanKind, SpanStatusCode } from "@opentelemetry/api";
import { expect, test } from "vitest";
import { z } from "zod";
import { spanIdOf, traceIdOf, useTracedMill } from "../../test/support/virtual/use-traced-mill.ts";
import { job } from "../engine/submit/job-definition.ts";
import { handler } from "../worker/handler.ts";

const m = useTracedMill();

const order = job("order", { queue: "orders", signals: { go: z.string() }, durable: { version: 1 } });

test("each call of a step's code is a span below its attempt, and a replayed step has none", async () => {
  const tracer = m.recorded.tracerProvider.getTracer("app");
  await m.v.run(
    m.v.mill.work([
      handler(order, async ({ step }) => {
        const held = await step.run("reserve", async () => {
          await Promise.resolve();
          tracer.startSpan("query").end();
          return 1;
        });
        const { value } = await step.waitFor("go", { timeout: "2d" });
        const [item] = await step.each("pack", [7], String, (n, inner) => inner.run("box", () => n));
        return `${held} ${value} ${item}`;
      }),
    ]),
  );
  const handle = await m.v.run(m.v.mill.enqueue(order, null));
  await m.v.advance(10_000);
  await m.v.run(m.v.mill.signal(order, handle.id, "go", "now"));
  expect(await m.v.run(handle.result())).toBe("1 now 7");
  await m.v.advance(1000);
  const [first, second, ...more] = m.recorded.named("process orders");
  expect(more).toEqual([]);
  const reserve = m.recorded.single("step reserve");
  expect(reserve).toMatchObject({
    kind: SpanKind.INTERNAL,
    parentSpanContext: { spanId: spanIdOf(first!) },
    attributes: {
      "messaging.message.id": handle.id,
      "messaging.millrace.job.name": "order",
      "messaging.millrace.step.name": "reserve#1",
      "messaging.millrace.step.kind": "run",
      "messaging.millrace.step.attempt": 1,
    },
  });
  expect(m.recorded.single("query").parentSpanContext?.spanId).toBe(spanIdOf(reserve));
  expect(m.recorded.single("step box")).toMatchObject({
    parentSpanContext: { spanId: spanIdOf(second!) },
    attributes: { "messaging.millrace.step.name": "pack#1[7]/box#1" },
  });
  expect(new Set(m.recorded.spans.map(traceIdOf)).size).toBe(1);
  expect(first!.events).toMatchObject([
    {
      name: "wait-began",
      attributes: { "messaging.millrace.step.name": "?go#1", "messaging.millrace.signal.name": "go" },
    },
    { name: "suspended" },
  ]);
  expect(first!.attributes["messaging.millrace.job.outcome"]).toBe("suspended");
  expect(first!.status.code).toBe(SpanStatusCode.UNSET);
  expect(second!.events).toMatchObject([{ name: "signal-arrived" }]);
});

test("a try of a step that fails is a span with its error, and the attempt goes on without one", async () => {
  await m.v.run(
    m.v.mill.work([
      handler(order, async ({ step }) =>
        step.run("charge", ({ attempt }) => {
          if (attempt === 1) throw new RangeError("no funds");
          return attempt;
        }),
      ),
    ]),
  );
  const handle = await m.v.run(m.v.mill.enqueue(order, null));
  expect(await m.v.run(handle.result())).toBe(2);
  await m.v.advance(1000);
  const [failed, done, ...more] = m.recorded.named("step charge");
  expect(more).toEqual([]);
  expect(failed).toMatchObject({
    status: { code: SpanStatusCode.ERROR, message: "no funds" },
    attributes: { "error.type": "RangeError", "messaging.millrace.step.attempt": 1 },
    events: [{ name: "exception" }],
  });
  expect(done).toMatchObject({
    status: { code: SpanStatusCode.UNSET },
    attributes: { "messaging.millrace.step.attempt": 2 },
  });
  for (const attempt of m.recorded.named("process orders"))
    expect(attempt.status.code).toBe(SpanStatusCode.UNSET);
});

test("a tracer that throws harms no step", async () => {
  const { tracerProvider } = m.recorded;
  const tracer = tracerProvider.getTracer("millrace");
  const broken = {
    getTracer: () => ({
      ...{ startActiveSpan: tracer.startActiveSpan.bind(tracer) },
      startSpan: (...given: Parameters<typeof tracer.startSpan>) => {
        if (given[0].startsWith("step")) throw new Error("broken");
        return tracer.startSpan(...given);
      },
    }),
  };
  await m.reopen({ tracerProvider: broken as never });
  let calls = 0;
  await m.v.run(m.v.mill.work([handler(order, async ({ step }) => step.run("once", () => (calls += 1)))]));
  const handle = await m.v.run(m.v.mill.enqueue(order, null));
  expect(await m.v.run(handle.result())).toBe(1);
  expect(calls).toBe(1);
});
