/**
 * The metrics of the conventions, and one of Millrace's own: how long jobs waited. Made at their first use, because an
 * SDK that is registered after they were made never gets them.
 */
import { metrics } from "./api.ts";
import type { Counter, Histogram, MeterProvider } from "./api.ts";

export interface Instruments {
  readonly operationDuration: Histogram;
  readonly sent: Counter;
  readonly consumed: Counter;
  readonly processDuration: Histogram;
  readonly waitDuration: Histogram;
}

/** Those that the conventions advise. */
const boundaries = [0.005, 0.01, 0.025, 0.05, 0.075, 0.1, 0.25, 0.5, 0.75, 1, 2.5, 5, 7.5, 10];

export function lazyInstruments(provider: MeterProvider | undefined): () => Instruments {
  let made: Instruments | null = null;
  return () => {
    if (made !== null) return made;
    const meter = (provider ?? metrics).getMeter("millrace");
    const seconds = (name: string, description: string): Histogram =>
      meter.createHistogram(name, {
        description,
        unit: "s",
        advice: { explicitBucketBoundaries: boundaries },
      });
    const messages = (name: string, description: string): Counter =>
      meter.createCounter(name, { description, unit: "{message}" });
    made = {
      operationDuration: seconds("messaging.client.operation.duration", "How long an enqueue took."),
      sent: messages("messaging.client.sent.messages", "Jobs that were enqueued."),
      consumed: messages("messaging.client.consumed.messages", "Attempts whose handler was called."),
      processDuration: seconds("messaging.process.duration", "How long the handler of an attempt ran."),
      waitDuration: seconds(
        "messaging.millrace.wait.duration",
        "From a job's due time until its handler was called.",
      ),
    };
    return made;
  };
}
