// Spans of attempts, with the real SDK: what lies below them, and how they say what became of the attempt.
import { SpanKind, SpanStatusCode, context, propagation } from "@opentelemetry/api";
import { describe, expect, test } from "vitest";
import { z } from "zod";
import {
  after,
  greet,
  spanIdOf,
  traceIdOf,
  useTracedMill,
} from "../../test/support/virtual/use-traced-mill.ts";
import { flow } from "../engine/flows/flow.ts";
import type { Flow } from "../engine/flows/flow.ts";
import { job } from "../engine/submit/job-definition.ts";
import { Cancel, Snooze, Unrecoverable } from "../worker/control.ts";
import { batchHandler, handler } from "../worker/handler.ts";

const m = useTracedMill();

describe("inside a handler", () => {
  test("spans of the handler's own lie below the attempt, and its follow-ups go on with the trace", async () => {
    const tracer = m.recorded.tracerProvider.getTracer("app");
    await m.v.run(
      m.v.mill.work([
        handler(greet, async (job) => {
          await Promise.resolve();
          tracer.startSpan("query").end();
          job.enqueue(after, 1);
          return "ok";
        }),
        handler(after, async () => {}),
      ]),
    );
    await m.v.run((await m.v.run(m.v.mill.enqueue(greet, { name: "Ann" }))).result());
    await m.v.advance(1000);
    const attempt = m.recorded.single("process mail");
    expect(m.recorded.single("query").parentSpanContext?.spanId).toBe(spanIdOf(attempt));
    const created = m.recorded.single("create later");
    expect(created).toMatchObject({
      kind: SpanKind.PRODUCER,
      parentSpanContext: { spanId: spanIdOf(attempt) },
    });
    expect(m.recorded.single("process later").parentSpanContext?.spanId).toBe(spanIdOf(created));
    expect(new Set(m.recorded.spans.map(traceIdOf)).size).toBe(1);
  });

  test("nodes that a handler adds, items of a map and flows that it submits go on with the trace", async () => {
    const small = (): Flow => {
      const given = flow("small");
      given.map("each", after, [2, 3]);
      return given;
    };
    await m.v.run(
      m.v.mill.work([
        handler(greet, async (job) => {
          job.flow?.add("added", after, 1);
          job.submit(small());
          return "ok";
        }),
        handler(after, async () => {}),
      ]),
    );
    const given = flow("whole");
    given.add("greet", greet, { name: "Ann" });
    await m.within("caller", () => m.v.mill.submit(given));
    await m.v.advance(5000);
    const processed = m.recorded.named("process later");
    // One of them makes the items of the map.
    expect(processed).toHaveLength(4);
    const created = new Set(m.recorded.named("create later").map(spanIdOf));
    for (const span of processed) expect(created).toContain(span.parentSpanContext?.spanId);
    expect(new Set(m.recorded.spans.map(traceIdOf)).size).toBe(1);
  });

  test("baggage of the caller is there", async () => {
    let seen: string | undefined;
    await m.v.run(
      m.v.mill.work([
        handler(greet, async () => {
          seen = propagation.getActiveBaggage()?.getEntry("tenant")?.value;
          return "ok";
        }),
      ]),
    );
    const baggage = propagation.createBaggage({ tenant: { value: "acme" } });
    const handle = await context.with(propagation.setBaggage(context.active(), baggage), () =>
      m.v.run(m.v.mill.enqueue(greet, { name: "Ann" })),
    );
    await m.v.run(handle.result());
    expect(seen).toBe("acme");
  });

  test("an attempt may have a trace of its own that links to its job's", async () => {
    await m.reopen({ attempts: "link", spanNames: "job" });
    await m.serve();
    await m.v.run((await m.v.run(m.v.mill.enqueue(greet, { name: "Ann" }))).result());
    const [sent, processed] = [m.recorded.single("enqueue greet"), m.recorded.single("process greet")];
    expect(traceIdOf(processed)).not.toBe(traceIdOf(sent));
    expect(processed.links).toMatchObject([{ context: { spanId: spanIdOf(sent) } }]);
  });

  test("a batch is one span with a link to each job, and an event for each that did not complete", async () => {
    const tracer = m.recorded.tracerProvider.getTracer("app");
    await m.v.run(
      m.v.mill.work([
        batchHandler(greet, { size: 3, wait: "1s" }, async (jobs) => {
          await Promise.resolve();
          tracer.startSpan("bulk insert").end();
          return jobs.map(({ input }) => (input.name === "bad" ? new Unrecoverable("no") : "ok"));
        }),
      ]),
    );
    const handles = await m.v.run(
      m.v.mill.enqueueMany(["a", "bad", "c"].map((name) => greet.with({ name }))),
    );
    await m.v.run(Promise.allSettled(handles.map((handle) => handle.result())));
    const processed = m.recorded.single("process mail");
    expect(processed).toMatchObject({
      kind: SpanKind.CONSUMER,
      attributes: { "messaging.batch.message_count": 3 },
      status: { code: SpanStatusCode.ERROR },
    });
    expect(processed.links.map((link) => link.context.spanId)).toEqual(
      m.recorded.named("create mail").map(spanIdOf),
    );
    expect(processed.events.filter(({ name }) => name !== "exception")).toMatchObject([
      { name: "failed", attributes: { "messaging.message.id": handles[1]!.id } },
    ]);
    expect(m.recorded.single("bulk insert").parentSpanContext?.spanId).toBe(spanIdOf(processed));
  });
});

describe("how an attempt ended", () => {
  async function runAll(run: (attempt: number) => unknown): Promise<void> {
    await m.v.run(m.v.mill.work([handler(greet, async ({ attempt }) => run(attempt) as string)]));
    const handle = await m.v.run(m.v.mill.enqueue(greet, { name: "Ann" }));
    await m.v.run(handle.result().catch(() => {}));
  }
  const ends = (): unknown[] =>
    m.recorded
      .named("process mail")
      .map(({ status, attributes, events }) => [
        attributes["messaging.millrace.job.outcome"],
        status.code === SpanStatusCode.ERROR ? attributes["error.type"] : null,
        events.map(({ name }) => name),
      ]);

  test("an error is its status and an exception, for each attempt", async () => {
    await runAll(() => {
      throw new RangeError("too far");
    });
    expect(ends()).toEqual([
      ["retry-scheduled", "RangeError", ["retry-scheduled", "exception"]],
      ["failed", "RangeError", ["failed", "exception"]],
    ]);
    expect(m.recorded.named("process mail")[1]?.status.message).toBe("too far");
    expect(m.recorded.named("process mail")[1]?.events[0]?.attributes).toMatchObject({
      "messaging.millrace.job.reason": "retries-exhausted",
    });
  });

  test("a snooze is an event and no error", async () => {
    let snoozes = 0;
    await runAll(() => {
      snoozes += 1;
      if (snoozes === 1) throw new Snooze("5s");
      return "ok";
    });
    expect(ends()).toEqual([
      ["snoozed", null, ["snoozed"]],
      ["completed", null, []],
    ]);
    expect(m.recorded.named("process mail")[0]?.events[0]?.attributes).toMatchObject({
      "messaging.millrace.retry.delay_ms": 5000,
    });
  });

  test("a cancel by the handler, returned or thrown, is an event and no error", async () => {
    await runAll(() => new Cancel("not today"));
    expect(ends()).toEqual([["cancelled", null, ["cancelled"]]]);
  });

  test("a timeout and a lost lease are errors of that name", async () => {
    const slow = job<null>("slow", { queue: "mail", timeout: "1s", retry: { attempts: 1 } });
    const revoked = job<null>("revoked", { queue: "mail" });
    let runs = 0;
    const untilAborted = (signal: AbortSignal): Promise<never> =>
      new Promise((_, reject) => signal.addEventListener("abort", () => reject(signal.reason as Error)));
    await m.v.run(
      m.v.mill.work([
        handler(slow, ({ signal }) => untilAborted(signal)),
        handler(revoked, async ({ id, signal }) => {
          runs += 1;
          if (runs > 1) return;
          await m.v.mill.jobs.revoke(id);
          await untilAborted(signal);
        }),
      ]),
    );
    await m.v.run((await m.v.run(m.v.mill.enqueue(slow, null))).result().catch(() => {}));
    await m.v.run((await m.v.run(m.v.mill.enqueue(revoked, null))).result());
    expect(ends()).toEqual([
      ["failed", "timeout", ["failed", "exception"]],
      ["lost", "lease-lost", ["lost", "exception"]],
      ["completed", null, []],
    ]);
  });

  test("an input that is refused has a span although no handler was called", async () => {
    const loose = job<unknown, number>("greet", { queue: "mail" });
    const strict = job("greet", { queue: "mail", input: z.object({ name: z.string() }), result: z.number() });
    await m.v.run(m.v.mill.work([handler(strict, () => 1)]));
    await m.v.run((await m.v.run(m.v.mill.enqueue(loose, 1))).result().catch(() => {}));
    expect(ends()).toEqual([["failed", "invalid-input", ["failed"]]]);
    expect(traceIdOf(m.recorded.single("process mail"))).toBe(traceIdOf(m.recorded.single("enqueue mail")));
  });
});
