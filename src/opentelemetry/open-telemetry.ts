/**
 * `Millrace.open(url, { telemetry: openTelemetry() })`: the enqueues and attempts of a process as spans and metrics of
 * whichever SDK is registered. Without one, a job pays for the question whether there is one.
 */
import type { Telemetry } from "../engine/attempts/telemetry.ts";
import { MillraceError } from "../model/error.ts";
import { checkBoolean, checkOptions } from "../model/option.ts";
import type { MeterProvider, TracerProvider } from "./api.ts";
import { AttemptSpans } from "./attempt-spans.ts";
import { EnqueueSpans } from "./enqueue-spans.ts";
import { guarded } from "./guarded.ts";
import { lazyInstruments } from "./instruments.ts";
import { sdkPresence } from "./sdk-presence.ts";
import { Spans } from "./spans.ts";

export interface OpenTelemetryOptions {
  /** Where the span of an attempt belongs: below the span that made its job ("child", the default), or into a trace of
   * its own that links to it ("link"), for jobs that run long after their enqueue. A batch is always linked. */
  attempts?: "child" | "link";
  /**
   * What spans are named after, in addition to their operation: the queue, as the conventions say (default), or the
   * job.
   */
  spanNames?: "queue" | "job";
  /**
   * Whether each job of an enqueue of many gets a span of its own; true by default. Else all carry that of the enqueue.
   */
  createSpans?: boolean;
  /** Instead of the global ones. */
  tracerProvider?: TracerProvider;
  meterProvider?: MeterProvider;
}

export function openTelemetry(options: OpenTelemetryOptions = {}): Telemetry {
  const what = "openTelemetry";
  checkOptions(options, what, ["attempts", "spanNames", "createSpans", "tracerProvider", "meterProvider"]);
  const {
    attempts = "child",
    spanNames = "queue",
    createSpans = true,
    tracerProvider,
    meterProvider,
  } = options;
  oneOf(attempts, "attempts", ["child", "link"]);
  oneOf(spanNames, "spanNames", ["queue", "job"]);
  checkBoolean(createSpans, `${what}: createSpans`);
  const spans = new Spans(tracerProvider, spanNames);
  const instruments = lazyInstruments(meterProvider);
  const enqueues = new EnqueueSpans(spans, instruments, createSpans);
  const running = new AttemptSpans(spans, instruments, attempts === "link");
  const presence = sdkPresence(tracerProvider !== undefined || meterProvider !== undefined);
  const isHeard = (): boolean => guarded("asking for an SDK", presence) ?? false;
  return {
    submit: (unit, send) => (isHeard() ? enqueues.submit(unit, send) : send(unit)),
    followUp: (job, attempt) =>
      isHeard()
        ? (guarded("the span of a follow-up", () =>
            enqueues.followUp(job, running.spanOf(attempt), attempt.job.meta),
          ) ?? job)
        : job,
    run: (of, isBatch, call) => (isHeard() ? running.run(of, isBatch, call) : call()),
    step: (attempt, step, call) => (isHeard() ? running.step(attempt, step, call) : call()),
    noted: (attempt, note) => {
      if (isHeard()) running.noted(attempt, note);
    },
    ended: (attempt) => {
      if (isHeard()) running.ended(attempt);
    },
  };
}

function oneOf(value: unknown, name: string, allowed: readonly string[]): void {
  if (allowed.includes(value as string)) return;
  const list = allowed.map((each) => JSON.stringify(each)).join(" or ");
  throw new MillraceError("invalid-option", `openTelemetry: ${name} must be ${list}.`);
}
