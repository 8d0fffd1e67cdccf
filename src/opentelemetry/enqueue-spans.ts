/**
 * Spans of jobs on their way into the store:
 *
 *   enqueue                one span `enqueue`, whose context travels with the job
 *   several jobs at once   a span `create` for each, whose context rides with it, and one `enqueue` that links to them
 *   a follow-up            a span `create`: it is sent with the end of its attempt
 *
 * A job that a schedule fires has no caller: its trace begins here, whatever was going on when the duties were started.
 */
import { parseMeta } from "../model/job/job-meta.ts";
import { nodePlatform } from "../platform/node-platform.ts";
import type { SubmitAnswer, SubmitUnit } from "../store/operations.ts";
import type { NewJob } from "../store/records.ts";
import { ROOT_CONTEXT, SpanKind, SpanStatusCode, context, trace } from "./api.ts";
import type { Context, Link, Span } from "./api.ts";
import { guarded } from "./guarded.ts";
import type { Instruments } from "./instruments.ts";
import {
  attributeNames,
  errorTypeOf,
  metricAttributes,
  scheduleAttributes,
  spanAttributes,
} from "./naming.ts";
import type { Title } from "./naming.ts";
import type { Spans } from "./spans.ts";
import { contextOf, linkTo, traceOf, withTrace } from "./trace-context.ts";

/** More links than that are dropped by SDKs as a rule. */
const linksMax = 128;

interface Sending {
  readonly unit: SubmitUnit;
  readonly span: Span;
  /** What all jobs of the unit have in common. */
  readonly title: Partial<Title>;
}

export class EnqueueSpans {
  readonly #spans: Spans;
  readonly #instruments: () => Instruments;
  readonly #createsSpans: boolean;

  constructor(spans: Spans, instruments: () => Instruments, createsSpans: boolean) {
    this.#spans = spans;
    this.#instruments = instruments;
    this.#createsSpans = createsSpans;
  }

  async submit(unit: SubmitUnit, send: (unit: SubmitUnit) => Promise<SubmitAnswer>): Promise<SubmitAnswer> {
    const sending = unit.jobs.length === 0 ? null : guarded("a span of an enqueue", () => this.#begin(unit));
    if (sending === null) return send(unit);
    const beganUs = nodePlatform.monotonicUs();
    try {
      const answer = await send(sending.unit);
      guarded("the end of an enqueue's span", () => this.#answered(sending, answer, beganUs));
      return answer;
    } catch (error) {
      guarded("the end of an enqueue's span", () => this.#failed(sending, error, beganUs));
      throw error;
    }
  }

  /**
   * @param running the span of the attempt, for a handler that lost the context it was called in.
   * @param meta that of the attempt's job: what makes the items of a map calls no handler and has no span of its own.
   */
  followUp(job: NewJob, running: Span | undefined, meta: string | null): NewJob {
    const active = context.active();
    if (trace.getSpan(active) !== undefined) return this.#create(job, active);
    return this.#create(job, running === undefined ? contextOf(meta) : trace.setSpan(active, running));
  }

  #begin(unit: SubmitUnit): Sending {
    const { jobs } = unit;
    const [first] = jobs as readonly [NewJob, ...NewJob[]];
    const from = isFiring(first) ? ROOT_CONTEXT : context.active();
    const title = commonTitle(jobs);
    const isSingle = jobs.length === 1;
    const hasCreates = !isSingle && this.#createsSpans;
    const created = hasCreates ? jobs.map((job) => this.#create(job, from)) : jobs;
    const span = this.#spans.start("enqueue", title, {
      kind: hasCreates ? SpanKind.CLIENT : SpanKind.PRODUCER,
      links: created.slice(0, linksMax).flatMap(({ meta }) => linksTo(meta)),
      attributes: {
        ...spanAttributes("enqueue", title),
        ...(isSingle
          ? { [attributeNames.messageId]: first.id, ...scheduleAttributes(first.meta) }
          : { [attributeNames.batchSize]: jobs.length }),
      },
      from,
    });
    const carrying = hasCreates ? created : jobs.map((job) => withTrace(job, from, span));
    return { unit: { ...unit, jobs: carrying }, span, title };
  }

  #create(job: NewJob, from: Context): NewJob {
    if (traceOf(job.meta) !== undefined) return job;
    const span = this.#spans.start("create", job, {
      kind: SpanKind.PRODUCER,
      attributes: {
        ...spanAttributes("create", job),
        [attributeNames.messageId]: job.id,
        ...scheduleAttributes(job.meta),
      },
      from,
    });
    const carrying = withTrace(job, from, span);
    span.end();
    return carrying;
  }

  #answered({ unit, span, title }: Sending, answer: SubmitAnswer, beganUs: number): void {
    if (answer.kind === "refused") {
      span.setStatus({ code: SpanStatusCode.ERROR, message: answer.reason });
      return this.#end(span, unit, title, answer.reason, beganUs);
    }
    if (unit.jobs.length === 1) {
      const [id = ""] = answer.ids;
      const [how = ""] = answer.hows;
      span.setAttributes({ [attributeNames.messageId]: id, [attributeNames.how]: how });
    }
    this.#end(span, unit, title, null, beganUs);
  }

  #failed({ unit, span, title }: Sending, error: unknown, beganUs: number): void {
    span.recordException(error instanceof Error ? error : String(error));
    span.setStatus({ code: SpanStatusCode.ERROR, message: error instanceof Error ? error.message : "" });
    this.#end(span, unit, title, errorTypeOf(error), beganUs);
  }

  #end(
    span: Span,
    { jobs }: SubmitUnit,
    title: Partial<Title>,
    errorType: string | null,
    beganUs: number,
  ): void {
    if (errorType !== null) span.setAttribute(attributeNames.errorType, errorType);
    span.end();
    const attributes = metricAttributes("enqueue", title, errorType);
    const { operationDuration, sent } = this.#instruments();
    operationDuration.record((nodePlatform.monotonicUs() - beganUs) / 1e6, attributes);
    sent.add(jobs.length, attributes);
  }
}

function linksTo(meta: string | null): readonly Link[] {
  return traceOf(meta) === undefined ? [] : linkTo(contextOf(meta));
}

/** What is the same for all of them. */
function commonTitle(jobs: readonly NewJob[]): Partial<Title> {
  const [{ queue, name }] = jobs as readonly [NewJob, ...NewJob[]];
  return {
    ...(jobs.every((job) => job.queue === queue) ? { queue } : {}),
    ...(jobs.every((job) => job.name === name) ? { name } : {}),
  };
}

/** A run by hand has a caller. */
function isFiring({ meta }: NewJob): boolean {
  const tick = meta === null ? undefined : parseMeta(meta)?.schedule?.tick;
  return tick !== undefined && tick !== null;
}
