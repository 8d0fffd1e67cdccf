// onAttempt: every attempt that ran is reported once, after its end, and nothing that the sink does affects a job.
import { expect, test } from "vitest";
import { openVirtualMill } from "../../../test/support/virtual/virtual-mill.ts";
import { Snooze } from "../../worker/control.ts";
import { handler } from "../../worker/handler.ts";
import type { ObservedAttempt } from "./attempt-observer.ts";
import { observerOfSink, sinkPendingMax } from "./attempt-sink.ts";
import type { AttemptReport, OnAttempt } from "./attempt-sink.ts";
import { job } from "../submit/job-definition.ts";

const work = job<null>("work", {
  queue: "q",
  retry: { attempts: 3, backoff: { kind: "fixed", delay: "1s", jitter: "none" } },
});

async function openWith(
  onAttempt: OnAttempt,
): Promise<{ v: Awaited<ReturnType<typeof openVirtualMill>>; lines: string[] }> {
  const lines: string[] = [];
  const say = (message: string): void => void lines.push(message);
  const v = await openVirtualMill({ onAttempt, log: { debug() {}, info() {}, warn: say, error: say } });
  return { v, lines };
}

test("onAttempt reports retries, snoozes and ends, with names and times", async () => {
  const reported: AttemptReport[] = [];
  const { v } = await openWith((report) => void reported.push(report));
  let calls = 0;
  const worker = await v.run(
    v.mill.work([
      handler(work, () => {
        calls += 1;
        if (calls === 1) throw new Error("not yet");
        if (calls === 2) throw new Snooze("1s");
        return calls;
      }),
    ]),
  );
  const handle = await v.run(v.mill.enqueue(work, null));
  await v.run(handle.result());
  await v.run(v.mill.close());
  expect(reported.map(({ outcome, state, attempt }) => [outcome, state, attempt])).toEqual([
    ["retry-scheduled", "scheduled", 1],
    ["snoozed", "scheduled", 2],
    ["completed", "completed", 2],
  ]);
  expect(reported[2]).toEqual({
    id: handle.id,
    name: "work",
    queue: "q",
    attempt: 2,
    worker: worker.id,
    outcome: "completed",
    state: "completed",
    reason: null,
    waitedMs: expect.any(Number),
    ranMs: expect.any(Number),
  });
});

test("a sink that throws or rejects is logged, and every job still completes", async () => {
  const sinks: OnAttempt[] = [
    () => {
      throw new Error("meter away");
    },
    () => Promise.reject(new Error("meter away")),
  ];
  for (const sink of sinks) {
    const { v, lines } = await openWith(sink);
    await v.run(v.mill.work([handler(work, () => 1)]));
    for (let each = 0; each < 3; each++)
      expect(await v.run((await v.run(v.mill.enqueue(work, null))).result())).toBe(1);
    await v.run(v.mill.close());
    expect(lines).toEqual(["onAttempt failed; the job is not affected"]);
  }
});

test("a sink whose promises never settle gets a bounded number of attempts", async () => {
  let reported = 0;
  const { v, lines } = await openWith(() => {
    reported += 1;
    return new Promise(() => undefined);
  });
  await v.run(v.mill.work([handler(work, () => 1)], { concurrency: 100 }));
  const many = Array.from({ length: sinkPendingMax + 50 }, () => work.with(null));
  const handles = await v.run(v.mill.enqueueMany(many));
  await v.run(Promise.all(handles.map((handle) => handle.result())));
  await v.run(v.mill.close());
  expect(reported).toBe(sinkPendingMax);
  expect(lines).toEqual(["onAttempt does not keep up; it misses attempts until it does"]);
});

test("a sink that blocks the event loop is logged from its third slow call in a row on", () => {
  let clockUs = 0;
  const lines: string[] = [];
  let nextMs = 0;
  const observe = observerOfSink(
    {
      platform: { monotonicUs: () => clockUs },
      repeated: { say: (_level: string, message: string) => lines.push(message) },
    } as unknown as Parameters<typeof observerOfSink>[0],
    () => void (clockUs += nextMs * 1000),
  );
  const attempt = { job: {}, title: {}, settled: null } as unknown as ObservedAttempt;
  const said = [80, 80, 10, 80, 80, 80, 80].map((tookMs) => {
    nextMs = tookMs;
    observe(attempt);
    return lines.splice(0).length;
  });
  expect(said).toEqual([0, 0, 0, 0, 0, 1, 1]);
});

test("an attempt that loses its lease is reported once, as lost", async () => {
  const reported: AttemptReport[] = [];
  const { v } = await openWith((report) => void reported.push(report));
  let runs = 0;
  const slow = job<null>("slow", { timeout: "1h" });
  await v.run(
    v.mill.work([
      handler(slow, async ({ id, signal }) => {
        runs += 1;
        if (runs > 1) return;
        await v.mill.jobs.revoke(id);
        await new Promise((resolve) => signal.addEventListener("abort", resolve));
      }),
    ]),
  );
  await v.run((await v.run(v.mill.enqueue(slow, null))).result());
  await v.run(v.mill.close());
  expect(reported.map(({ outcome, state }) => [outcome, state])).toEqual([
    ["lost", null],
    ["completed", "completed"],
  ]);
});

test("a sink that is not a function is refused when the store is opened", async () => {
  await expect(openVirtualMill({ onAttempt: 1 as never })).rejects.toMatchObject({ code: "invalid-option" });
});
