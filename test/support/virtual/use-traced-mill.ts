/** A Millrace on virtual time with the real SDK of OpenTelemetry for each case of a file, and the jobs it runs. */
import type { Span } from "@opentelemetry/api";
import { afterEach, beforeEach } from "vitest";
import { handler, job } from "../../../src/index.ts";
import { openTelemetry } from "../../../src/opentelemetry/index.ts";
import type { OpenTelemetryOptions } from "../../../src/opentelemetry/index.ts";
import { recordTelemetry, useOpenTelemetry } from "./recorded-telemetry.ts";
import type { RecordedTelemetry } from "./recorded-telemetry.ts";
import { openVirtualMill } from "./virtual-mill.ts";
import type { VirtualMill } from "./virtual-mill.ts";

export const greet = job<{ name: string }, string>("greet", {
  queue: "mail",
  retry: { attempts: 2, backoff: 0 },
});
export const after = job<number, void>("after", { queue: "later" });

interface TracedMill {
  readonly recorded: RecordedTelemetry;
  readonly v: VirtualMill;
  /** Another one for the rest of the case; null for the global providers. */
  reopen(options: OpenTelemetryOptions | null): Promise<void>;
  /** Has a worker that greets. */
  serve(): Promise<unknown>;
  /** Runs within a span of the application. */
  within<Value>(name: string, run: (span: Span) => Promise<Value>): Promise<Value>;
}

export function useTracedMill(): TracedMill {
  useOpenTelemetry();
  let recorded: RecordedTelemetry;
  let v: VirtualMill;
  const open = async (options: OpenTelemetryOptions | null): Promise<void> => {
    const { tracerProvider, meterProvider } = recorded;
    const given = options === null ? {} : { tracerProvider, meterProvider, ...options };
    v = await openVirtualMill({ telemetry: openTelemetry(given) });
  };
  beforeEach(async () => {
    recorded = recordTelemetry();
    await open({});
  });
  afterEach(() => v.close());
  return {
    get recorded() {
      return recorded;
    },
    get v() {
      return v;
    },
    async reopen(options) {
      await v.close();
      await open(options);
    },
    serve: () => v.run(v.mill.work([handler(greet, async ({ input }) => `hello ${input.name}`)])),
    within: (name, run) =>
      recorded.tracerProvider.getTracer("app").startActiveSpan(name, async (span) => {
        try {
          return await v.run(run(span));
        } finally {
          span.end();
        }
      }),
  };
}

interface Identified {
  spanContext(): { readonly traceId: string; readonly spanId: string };
}

export const traceIdOf = (span: Identified): string => span.spanContext().traceId;
export const spanIdOf = (span: Identified): string => span.spanContext().spanId;
