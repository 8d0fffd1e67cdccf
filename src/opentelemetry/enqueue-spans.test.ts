// Spans of jobs on their way into the store, with the real SDK.
import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { DatabaseSync } from "node:sqlite";
import { SpanKind, SpanStatusCode } from "@opentelemetry/api";
import { describe, expect, onTestFinished, test } from "vitest";
import {
  after,
  greet,
  spanIdOf,
  traceIdOf,
  useTracedMill,
} from "../../test/support/virtual/use-traced-mill.ts";
import { openMillrace } from "../open.ts";
import { handler } from "../worker/handler.ts";
import { openTelemetry } from "./open-telemetry.ts";
import { hangMs } from "../../test/support/hang-ms.ts";

const m = useTracedMill();

describe("an enqueue", () => {
  test("is a producer's span below the caller's, and its attempt a consumer's below that", async () => {
    await m.serve();
    const handle = await m.within("request", () => m.v.mill.enqueue(greet, { name: "Ann" }));
    expect(await m.v.run(handle.result())).toBe("hello Ann");
    const [request, sent, processed] = ["request", "enqueue mail", "process mail"].map((name) =>
      m.recorded.single(name),
    );
    expect(sent).toMatchObject({
      kind: SpanKind.PRODUCER,
      parentSpanContext: { spanId: spanIdOf(request!) },
      attributes: {
        "messaging.system.name": "millrace",
        "messaging.system": "millrace",
        "messaging.operation.name": "enqueue",
        "messaging.operation.type": "send",
        "messaging.destination.name": "mail",
        "messaging.message.id": handle.id,
        "messaging.millrace.job.name": "greet",
        "messaging.millrace.enqueue.how": "created",
      },
      status: { code: SpanStatusCode.UNSET },
    });
    expect(processed).toMatchObject({
      kind: SpanKind.CONSUMER,
      parentSpanContext: { spanId: spanIdOf(sent!), isRemote: true },
      links: [{ context: { spanId: spanIdOf(sent!) } }],
      attributes: {
        "messaging.operation.name": "process",
        "messaging.operation.type": "process",
        "messaging.destination.name": "mail",
        "messaging.message.id": handle.id,
        "messaging.millrace.job.attempt": 1,
        "messaging.millrace.job.outcome": "completed",
      },
      status: { code: SpanStatusCode.UNSET },
      events: [],
    });
    expect(new Set([request, sent, processed].map((span) => traceIdOf(span!))).size).toBe(1);
    const view = await m.v.run(m.v.mill.jobs.get(handle.id));
    expect(view?.trace["traceparent"]).toBe(`00-${traceIdOf(sent!)}-${spanIdOf(sent!)}-01`);
  });

  test("of many has a span for each job, and one that links to them", async () => {
    await m.serve();
    const handles = await m.within("request", () =>
      m.v.mill.enqueueMany([greet.with({ name: "a" }), greet.with({ name: "b" }), after.with(1)]),
    );
    await m.v.run(Promise.all([handles[0].result(), handles[1].result()]));
    const created = [...m.recorded.named("create mail"), ...m.recorded.named("create later")];
    expect(created.map(({ kind }) => kind)).toEqual(Array(3).fill(SpanKind.PRODUCER));
    const sent = m.recorded.single("enqueue");
    expect(sent).toMatchObject({ kind: SpanKind.CLIENT, attributes: { "messaging.batch.message_count": 3 } });
    expect(sent.attributes).not.toHaveProperty("messaging.destination.name");
    expect(sent.links.map((link) => link.context.spanId)).toEqual(created.map(spanIdOf));
    expect(m.recorded.named("process mail").map((span) => span.parentSpanContext?.spanId)).toEqual(
      created.slice(0, 2).map(spanIdOf),
    );
  });

  test("of many may do without a span for each job", async () => {
    await m.reopen({ createSpans: false });
    await m.serve();
    const handles = await m.v.run(
      m.v.mill.enqueueMany([greet.with({ name: "a" }), greet.with({ name: "b" })]),
    );
    await m.v.run(Promise.all(handles.map((handle) => handle.result())));
    const sent = m.recorded.single("enqueue mail");
    expect(sent.kind).toBe(SpanKind.PRODUCER);
    expect(m.recorded.named("process mail").map((span) => span.parentSpanContext?.spanId)).toEqual(
      Array(2).fill(spanIdOf(sent)),
    );
    expect(m.recorded.spans).toHaveLength(3);
  });

  test("leaves a trace context that the caller gave as it is, and links to it", async () => {
    await m.serve();
    const traceparent = `00-${"a".repeat(32)}-${"b".repeat(16)}-01`;
    const handle = await m.v.run(m.v.mill.enqueue(greet, { name: "Ann" }, { trace: { traceparent } }));
    await m.v.run(handle.result());
    expect(m.recorded.single("process mail").parentSpanContext).toMatchObject({ spanId: "b".repeat(16) });
    expect(m.recorded.single("enqueue mail").links).toMatchObject([{ context: { spanId: "b".repeat(16) } }]);
  });

  test("that is refused or fails is an error of its span", async () => {
    await m.v.run(m.v.mill.queues.closeIntake("mail"));
    await expect(m.v.run(m.v.mill.enqueue(greet, { name: "Ann" }))).rejects.toThrow("closed its intake");
    m.v.store.submit = () => Promise.reject(new TypeError("broken"));
    await expect(m.v.run(m.v.mill.enqueue(greet, { name: "Ann" }))).rejects.toThrow("broken");
    expect(
      m.recorded
        .named("enqueue mail")
        .map(({ status, attributes }) => [status.code, attributes["error.type"]]),
    ).toEqual([
      [SpanStatusCode.ERROR, "intake-closed"],
      [SpanStatusCode.ERROR, "TypeError"],
    ]);
  });

  test("of a job that exists says so, and names that job", async () => {
    const first = await m.v.run(m.v.mill.enqueue(greet, { name: "a" }, { unique: "k" }));
    await m.v.run(m.v.mill.enqueue(greet, { name: "b" }, { unique: "k" }));
    expect(m.recorded.named("enqueue mail")[1]?.attributes).toMatchObject({
      "messaging.message.id": first.id,
      "messaging.millrace.enqueue.how": "existing",
    });
  });

  test("in the caller's own transaction is traced too", async () => {
    const folder = mkdtempSync(join(tmpdir(), "millrace-"));
    onTestFinished(() => rmSync(folder, { recursive: true }));
    const { tracerProvider } = m.recorded;
    const path = join(folder, "app.db");
    const mill = await openMillrace(`sqlite:${path}`, { telemetry: openTelemetry({ tracerProvider }) });
    const db = new DatabaseSync(path, { timeout: 5000 });
    await mill.work([handler(greet, async () => "ok")]);
    db.exec("BEGIN");
    const handle = await mill.in(db).enqueue(greet, { name: "Ann" });
    const many = await mill.in(db).enqueueMany([greet.with({ name: "a" }), greet.with({ name: "b" })]);
    db.exec("COMMIT");
    for (const each of [handle, ...many]) await each.result({ timeout: hangMs });
    await mill.close();
    db.close();
    const made = [m.recorded.named("enqueue mail")[0]!, ...m.recorded.named("create mail")].map(spanIdOf);
    expect(made).toHaveLength(3);
    expect(new Set(m.recorded.named("process mail").map((span) => span.parentSpanContext?.spanId))).toEqual(
      new Set(made),
    );
  });

  test("by a call is traced like any other", async () => {
    await m.serve();
    await m.within("request", () => m.v.mill.call(greet, { name: "Ann" }));
    expect(traceIdOf(m.recorded.single("process mail"))).toBe(traceIdOf(m.recorded.single("request")));
  });
});

describe("a schedule", () => {
  test("begins a trace with each firing, whatever was going on when the worker was started", async () => {
    await m.within("start", () => m.v.mill.work([handler(greet, async () => "ok")]));
    await m.v.run(m.v.mill.schedule("hourly", greet, { name: "Ann" }, { every: "1h" }));
    await m.v.advance(2 * 3_600_000 + 1000);
    const fired = m.recorded.named("enqueue mail");
    const processed = m.recorded.named("process mail");
    expect(fired.length).toBeGreaterThan(1);
    expect(processed.map((span) => span.parentSpanContext?.spanId)).toEqual(fired.map(spanIdOf));
    expect(new Set([m.recorded.single("start"), ...fired].map(traceIdOf)).size).toBe(fired.length + 1);
    expect(processed[0]?.attributes).toMatchObject({ "messaging.millrace.schedule.name": "hourly" });
  });
});
