import { expect, test } from "vitest";
import { appendAttempt } from "../job/attempt-log.ts";
import { eventOfJob } from "./event.ts";

test("the times of an attempt are milliseconds, and fractions are kept", () => {
  const at = new Date(5000);
  const route = { queue: "q", name: "n" };
  const emitted = { id: "a", state: "completed", attempt: 1, at: 5000, extra: null } as const;
  const completed = { ...emitted, kind: "completed", note: "1 400 1500" } as never;
  expect(eventOfJob("completed", completed, at, route, "c")).toMatchObject({ waitedMs: 0.4, ranMs: 1.5 });
  const note = appendAttempt(null, { attempt: 1, outcome: "failed", at: 5000, waitedUs: 2, ranUs: 0 });
  const failed = { ...emitted, state: "failed", kind: "failed", note } as never;
  expect(eventOfJob("failed", failed, at, route, "c")).toMatchObject({ waitedMs: 0.002, ranMs: 0 });
  const unmeasured = { ...emitted, kind: "completed" } as never;
  expect(eventOfJob("completed", unmeasured, at, route, "c")).toMatchObject({ waitedMs: null, ranMs: null });
});
