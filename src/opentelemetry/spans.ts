/**
 * Starting a span under its conventional name: the operation, and the queue or, if the options say so, the job it acts
 * on.
 */
import { trace } from "./api.ts";
import type { Attributes, Context, Link, Span, SpanKind, Tracer, TracerProvider } from "./api.ts";
import type { Operation, Title } from "./naming.ts";

export interface SpanStart {
  readonly kind: SpanKind;
  readonly attributes: Attributes;
  readonly links?: readonly Link[];
  /** The context whose span is the parent. */
  readonly from: Context;
}

export class Spans {
  readonly #tracer: Tracer;
  readonly #namedAfter: "queue" | "job";

  constructor(provider: TracerProvider | undefined, namedAfter: "queue" | "job") {
    this.#tracer = (provider ?? trace).getTracer("millrace");
    this.#namedAfter = namedAfter;
  }

  /** A step is no operation of messaging: its span has the step's own name. */
  startStep(name: string, { kind, attributes, from }: SpanStart): Span {
    return this.#tracer.startSpan(`step ${name}`, { kind, attributes }, from);
  }

  start(operation: Operation, { queue, name }: Partial<Title>, start: SpanStart): Span {
    const { kind, attributes, links = [], from } = start;
    const destination = this.#namedAfter === "queue" ? queue : name;
    const spanName = destination === undefined ? operation : `${operation} ${destination}`;
    return this.#tracer.startSpan(spanName, { kind, attributes, links: [...links] }, from);
  }
}
