/**
 * A process of the tests of traces, with the SDK of OpenTelemetry as an application registers it: a worker of one job,
 * which may ask for a follow-up that another process runs. It writes each span that ends, as a line.
 */
import { writeSync } from "node:fs";
import { context, propagation, trace } from "@opentelemetry/api";
import { AsyncLocalStorageContextManager } from "@opentelemetry/context-async-hooks";
import { W3CTraceContextPropagator } from "@opentelemetry/core";
import { TracerProvider } from "@opentelemetry/sdk-trace";
import type { ReadableSpan } from "@opentelemetry/sdk-trace";
import { handler, job, Millrace } from "millrace";
import { openTelemetry } from "millrace/opentelemetry";

export interface TracedLine {
  readonly name: string;
  readonly traceId: string;
  readonly spanId: string;
  readonly parentId: string | null;
}

export const lineOf = (span: ReadableSpan): TracedLine => ({
  name: span.name,
  traceId: span.spanContext().traceId,
  spanId: span.spanContext().spanId,
  parentId: span.parentSpanContext?.spanId ?? null,
});

export const order = job<number, void>("order", { queue: "orders" });
export const ship = job<number, void>("ship", { queue: "shipping" });

if (process.argv[1] === import.meta.filename) {
  const [role = "", url = ""] = process.argv.slice(2);
  context.setGlobalContextManager(new AsyncLocalStorageContextManager().enable());
  propagation.setGlobalPropagator(new W3CTraceContextPropagator());
  const recorder = {
    onStart() {},
    onEnd: (span: ReadableSpan) => void writeSync(1, `${JSON.stringify(lineOf(span))}\n`),
    forceFlush: async () => {},
    shutdown: async () => {},
  };
  trace.setGlobalTracerProvider(new TracerProvider({ spanProcessors: [recorder] }));
  const mill = await Millrace.open(url, { log: false, telemetry: openTelemetry() });
  const work =
    role === "orders"
      ? handler(order, async (context) => void context.enqueue(ship, context.input))
      : handler(ship, async () => trace.getTracer("app").startSpan("label").end());
  await mill.work([work], { signals: true });
}
