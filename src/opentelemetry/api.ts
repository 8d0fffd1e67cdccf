/** The one place that loads the optional peer `@opentelemetry/api`. */
export {
  ROOT_CONTEXT,
  SpanKind,
  SpanStatusCode,
  context,
  createNoopMeter,
  diag,
  metrics,
  propagation,
  trace,
} from "@opentelemetry/api";
export type {
  Attributes,
  Context,
  Counter,
  Histogram,
  Link,
  MeterProvider,
  Span,
  Tracer,
  TracerProvider,
} from "@opentelemetry/api";
