/**
 * The real SDK of OpenTelemetry, kept in memory: a context manager and propagators for the whole test file, and
 * providers whose spans and metrics a test can read.
 */
import { context, propagation } from "@opentelemetry/api";
import { AsyncLocalStorageContextManager } from "@opentelemetry/context-async-hooks";
import { CompositePropagator, W3CBaggagePropagator, W3CTraceContextPropagator } from "@opentelemetry/core";
import { AggregationTemporality, InMemoryMetricExporter, MeterProvider } from "@opentelemetry/sdk-metrics";
import { PeriodicExportingMetricReader } from "@opentelemetry/sdk-metrics";
import type { DataPoint } from "@opentelemetry/sdk-metrics";
import { TracerProvider } from "@opentelemetry/sdk-trace";
import type { ReadableSpan } from "@opentelemetry/sdk-trace";
import { afterAll, beforeAll } from "vitest";

export interface RecordedTelemetry {
  readonly tracerProvider: TracerProvider;
  readonly meterProvider: MeterProvider;
  /** Ended spans, in the order of their ends. */
  readonly spans: ReadableSpan[];
  named(name: string): readonly ReadableSpan[];
  single(name: string): ReadableSpan;
  /** The points of a metric. */
  points(metric: string): Promise<readonly DataPoint<unknown>[]>;
}

export function useOpenTelemetry(): void {
  beforeAll(() => {
    context.setGlobalContextManager(new AsyncLocalStorageContextManager().enable());
    const propagators = [new W3CTraceContextPropagator(), new W3CBaggagePropagator()];
    propagation.setGlobalPropagator(new CompositePropagator({ propagators }));
  });
  afterAll(() => {
    context.disable();
    propagation.disable();
  });
}

export function recordTelemetry(): RecordedTelemetry {
  const spans: ReadableSpan[] = [];
  const recorder = {
    onStart() {},
    onEnd: (span: ReadableSpan) => void spans.push(span),
    forceFlush: async () => {},
    shutdown: async () => {},
  };
  const exporter = new InMemoryMetricExporter(AggregationTemporality.CUMULATIVE);
  const reader = new PeriodicExportingMetricReader({ exporter, exportIntervalMillis: 3_600_000 });
  const named = (name: string): readonly ReadableSpan[] => spans.filter((span) => span.name === name);
  return {
    tracerProvider: new TracerProvider({ spanProcessors: [recorder] }),
    meterProvider: new MeterProvider({ readers: [reader] }),
    spans,
    named,
    single(name) {
      const [span, ...more] = named(name);
      if (span === undefined || more.length > 0)
        throw new Error(
          `${more.length + (span === undefined ? 0 : 1)} spans ${name}: ${spans.map((each) => each.name).join(", ")}`,
        );
      return span;
    },
    async points(metric) {
      const { resourceMetrics } = await reader.collect();
      const all = resourceMetrics.scopeMetrics.flatMap((scope) => scope.metrics);
      return all.find(({ descriptor }) => descriptor.name === metric)?.dataPoints ?? [];
    },
  };
}
