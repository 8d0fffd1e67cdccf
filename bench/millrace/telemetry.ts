/**
 * Telemetry as an application has it: the API alone, or an SDK that records every span and hands them in batches to an
 * exporter that throws them away. What sending them would cost is the exporter's.
 */
import { context, propagation, trace } from "@opentelemetry/api";
import { AsyncLocalStorageContextManager } from "@opentelemetry/context-async-hooks";
import { W3CTraceContextPropagator } from "@opentelemetry/core";
import { BatchSpanProcessor, TracerProvider } from "@opentelemetry/sdk-trace";
import type { SpanExporter } from "@opentelemetry/sdk-trace";
import type { Telemetry } from "../../src/engine/attempts/telemetry.ts";
import { openTelemetry } from "../../src/opentelemetry/index.ts";

const exporter: SpanExporter = {
  export: (_spans, exported) => exported({ code: 0 }),
  shutdown: async () => {},
};

export function telemetryOf(mode: "api-only" | "sdk"): Telemetry {
  if (mode === "sdk") {
    context.setGlobalContextManager(new AsyncLocalStorageContextManager().enable());
    propagation.setGlobalPropagator(new W3CTraceContextPropagator());
    const spanProcessors = [new BatchSpanProcessor({ exporter })];
    trace.setGlobalTracerProvider(new TracerProvider({ spanProcessors }));
  }
  return openTelemetry();
}
