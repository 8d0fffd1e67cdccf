/**
 * Spans of attempts: `process`, from the call of the handler until the store has the attempt's end, so that it says how
 * the attempt ended. The call is made inside the span's context, so that spans of the handler's own lie below it.
 *
 *   one job   a span of its own, in the trace of the job, or in a trace of its own that links to it
 *   a batch   one span with a link to each job; an event for each that did not complete
 *   a step    of a durable run, whose code is called: a span below that of the attempt; waits are events of the latter
 *
 * An attempt whose handler was not called, because its input was refused, has a span all the same.
 */
import { endedAs } from "../engine/attempts/attempt-observer.ts";
import type { EndedAs, ObservedAttempt } from "../engine/attempts/attempt-observer.ts";
import type { RunningAttempt, RunningStep, RunNote } from "../engine/attempts/telemetry.ts";
import { controlOf } from "../worker/control.ts";
import { ROOT_CONTEXT, SpanKind, SpanStatusCode, context, trace } from "./api.ts";
import type { Attributes, Context, Span } from "./api.ts";
import { guarded } from "./guarded.ts";
import type { Instruments } from "./instruments.ts";
import {
  attributeNames,
  errorTypeOf,
  metricAttributes,
  scheduleAttributes,
  spanAttributes,
} from "./naming.ts";
import type { Spans } from "./spans.ts";
import { contextOf, linkTo } from "./trace-context.ts";

interface Running {
  readonly span: Span;
  /** What else travels with the job, such as baggage: the handler is called in it. */
  readonly from: Context;
  readonly isBatch: boolean;
  /** Attempts that have not ended. */
  left: number;
  /** Of each attempt: what its handler threw, or gave back as an error. */
  readonly errors: Map<RunningAttempt, unknown>;
}

const failures: ReadonlySet<EndedAs> = new Set(["failed", "retry-scheduled", "expired", "lost"]);

export class AttemptSpans {
  readonly #spans: Spans;
  readonly #instruments: () => Instruments;
  readonly #isLinked: boolean;
  readonly #running = new WeakMap<RunningAttempt, Running>();

  constructor(spans: Spans, instruments: () => Instruments, isLinked: boolean) {
    this.#spans = spans;
    this.#instruments = instruments;
    this.#isLinked = isLinked;
  }

  spanOf(attempt: RunningAttempt): Span | undefined {
    return this.#running.get(attempt)?.span;
  }

  run<Value>(
    attempts: readonly RunningAttempt[],
    isBatch: boolean,
    call: () => Value | Promise<Value>,
  ): Value | Promise<Value> {
    const [first] = attempts;
    // Middleware that calls the joint handler once more for its job does so within the same attempt.
    const known = first === undefined ? undefined : this.#running.get(first);
    const running = known ?? guarded("the span of an attempt", () => this.#begin(attempts, isBatch));
    if (running === null) return call();
    let called: Promise<Value> | null = null;
    guarded("the context of an attempt", () =>
      context.with(trace.setSpan(running.from, running.span), () => {
        // What it throws is the handler's, and none of the guard's business.
        called = (async () => call())();
      }),
    );
    const outcome: Promise<Value> = called ?? (async () => call())();
    return outcome.then(
      (value) => (note(running, attempts, isBatch ? value : [value]), value),
      (error: unknown) => {
        for (const attempt of attempts) running.errors.set(attempt, error);
        throw error;
      },
    );
  }

  async step<Value>(
    attempt: RunningAttempt,
    { step, name, kind, attempt: tried }: RunningStep,
    call: () => Promise<Value>,
  ): Promise<Value> {
    const running = this.#running.get(attempt);
    if (running === undefined) return call();
    const parent = trace.setSpan(running.from, running.span);
    const span = guarded("the span of a step", () =>
      this.#spans.startStep(name, {
        kind: SpanKind.INTERNAL,
        attributes: {
          ...jobAttributes(attempt),
          [attributeNames.job]: attempt.title.name,
          [attributeNames.step]: step,
          [attributeNames.stepKind]: kind,
          [attributeNames.stepAttempt]: tried,
        },
        from: parent,
      }),
    );
    if (span === null) return call();
    let called: Promise<Value> | null = null;
    guarded("the context of a step", () =>
      context.with(trace.setSpan(parent, span), () => {
        called = call();
      }),
    );
    try {
      return await (called ?? call());
    } catch (error) {
      guarded("the failure of a step", () => fail(span, errorTypeOf(error), error));
      throw error;
    } finally {
      guarded("the end of a step's span", () => span.end());
    }
  }

  noted(attempt: RunningAttempt, { what, step, signal }: RunNote): void {
    guarded("an event of a run", () =>
      this.#running.get(attempt)?.span.addEvent(what, {
        [attributeNames.step]: step,
        ...(signal === null ? {} : { [attributeNames.signal]: signal }),
      }),
    );
  }

  ended(attempt: ObservedAttempt): void {
    const outcome = endedAs(attempt);
    const reason = attempt.settled !== null && "reason" in attempt.settled ? attempt.settled.reason : null;
    const error = errorOf(this.#running.get(attempt)?.errors.get(attempt));
    const failure = error === null ? (reason ?? outcome) : errorTypeOf(error);
    const errorType = failures.has(outcome) ? failure : null;
    guarded("the metrics of an attempt", () => this.#measure(attempt, errorType));
    guarded("the end of an attempt's span", () => {
      const running = this.#running.get(attempt) ?? this.#begin([attempt], false);
      record(running, attempt, { outcome, reason, error, errorType });
      running.left -= 1;
      if (running.left === 0) running.span.end();
    });
  }

  #begin(attempts: readonly RunningAttempt[], isBatch: boolean): Running {
    const [first] = attempts as readonly [RunningAttempt, ...RunningAttempt[]];
    const contexts = attempts.map(({ job }) => contextOf(job.meta));
    const made = isBatch ? ROOT_CONTEXT : (contexts[0] as Context);
    const from = this.#isLinked ? ROOT_CONTEXT : made;
    const span = this.#spans.start("process", first.title, {
      kind: SpanKind.CONSUMER,
      attributes: {
        ...spanAttributes("process", first.title),
        [attributeNames.clientId]: first.owner,
        ...(isBatch ? { [attributeNames.batchSize]: attempts.length } : jobAttributes(first)),
      },
      links: contexts.flatMap(linkTo),
      from,
    });
    const running: Running = { span, from: made, isBatch, left: attempts.length, errors: new Map() };
    for (const attempt of attempts) this.#running.set(attempt, running);
    return running;
  }

  #measure({ title, waitedUs, ranUs }: ObservedAttempt, errorType: string | null): void {
    const attributes = metricAttributes("process", title, errorType);
    const { consumed, processDuration, waitDuration } = this.#instruments();
    consumed.add(1, attributes);
    processDuration.record(ranUs / 1e6, attributes);
    waitDuration.record(waitedUs / 1e6, metricAttributes("process", title, null));
  }
}

interface End {
  readonly outcome: EndedAs;
  readonly reason: string | null;
  readonly error: Error | null;
  readonly errorType: string | null;
}

function record({ span, isBatch }: Running, { job, settled }: ObservedAttempt, end: End): void {
  const { outcome, reason, error, errorType } = end;
  const about: Attributes = {
    ...(isBatch ? { [attributeNames.messageId]: job.id, [attributeNames.attempt]: job.attempt } : {}),
    ...(reason === null ? {} : { [attributeNames.reason]: reason }),
  };
  if (!isBatch) span.setAttribute(attributeNames.outcome, outcome);
  if (outcome !== "completed") {
    const due =
      settled !== null && settled.to === "scheduled" && "inMs" in settled.due ? settled.due.inMs : null;
    span.addEvent(outcome, { ...about, ...(due === null ? {} : { [attributeNames.retryDelay]: due }) });
  }
  if (errorType !== null) fail(span, errorType, error, reason ?? outcome);
}

function fail(span: Span, errorType: string, error: unknown, otherwise = errorType): void {
  const thrown = error instanceof Error ? error : null;
  if (thrown !== null) span.recordException(thrown);
  span.setAttribute(attributeNames.errorType, errorType);
  span.setStatus({ code: SpanStatusCode.ERROR, message: thrown?.message ?? otherwise });
}

/** A returned error counts as thrown, as the worker counts it. */
function note(running: Running, attempts: readonly RunningAttempt[], values: unknown): void {
  if (!Array.isArray(values)) return;
  for (const [at, attempt] of attempts.entries())
    if (errorOf(values[at]) !== null) running.errors.set(attempt, values[at]);
}

/** A control outcome says what shall happen next, not that something broke. */
function errorOf(thrown: unknown): Error | null {
  try {
    const isSteering = ["snooze", "throttled", "cancel", "suspended"].includes(controlOf(thrown)?.kind ?? "");
    return thrown instanceof Error && !isSteering ? thrown : null;
  } catch {
    return null;
  }
}

function jobAttributes({ job }: RunningAttempt): Attributes {
  return {
    [attributeNames.messageId]: job.id,
    [attributeNames.attempt]: job.attempt,
    ...scheduleAttributes(job.meta),
  };
}
