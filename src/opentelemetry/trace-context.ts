/**
 * The trace context that travels with a job: what the propagators of the process make of a span, in the meta of the
 * job, and back. A context that the caller gave (`trace` of an enqueue) is left as it is.
 */
import { parseMeta, writeMeta } from "../model/job/job-meta.ts";
import type { NewJob } from "../store/records.ts";
import { ROOT_CONTEXT, propagation, trace } from "./api.ts";
import type { Context, Link, Span } from "./api.ts";

/** As much as `trace` of an enqueue may hold. */
const entriesMax = 64;
const charsMax = 4096;

type Carrier = Readonly<Record<string, string>>;

export function traceOf(meta: string | null): Carrier | undefined {
  return meta === null ? undefined : parseMeta(meta)?.trace;
}

/** The job with the context of the span; the same job if nothing has to be added. */
export function withTrace(job: NewJob, from: Context, span: Span): NewJob {
  const meta = parseMeta(job.meta);
  if (meta === null || meta.trace !== undefined) return job;
  const carrier: Record<string, unknown> = {};
  propagation.inject(trace.setSpan(from, span), carrier);
  const fitting = Object.entries(carrier).filter(
    (entry): entry is [string, string] => typeof entry[1] === "string" && entry[1].length <= charsMax,
  );
  if (fitting.length === 0) return job;
  return { ...job, meta: writeMeta({ ...meta, trace: Object.fromEntries(fitting.slice(0, entriesMax)) }) };
}

/** The context in which the job was made, with its baggage; the root if it carries none. */
export function contextOf(meta: string | null): Context {
  const carrier = traceOf(meta);
  return carrier === undefined ? ROOT_CONTEXT : propagation.extract(ROOT_CONTEXT, { ...carrier });
}

export function linkTo(from: Context): readonly Link[] {
  const made = trace.getSpanContext(from);
  return made === undefined ? [] : [{ context: made }];
}
