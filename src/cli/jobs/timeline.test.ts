import { describe, expect, test } from "vitest";
import type { JobView } from "../../client/jobs/job-view.ts";
import type { LogLine } from "../../client/jobs/jobs.ts";
import { timelineOf } from "./timeline.ts";

const at = (ms: number): Date => new Date(Date.UTC(2026, 0, 1, 12) + ms);

/** Failed at its second attempt. */
const failed: Partial<JobView> = {
  state: "failed",
  reason: "retries-exhausted",
  attempt: 2,
  worker: "w",
  createdAt: at(0),
  dueAt: at(10),
  claimedAt: at(10),
  startedAt: at(10),
  deadlineAt: null,
  endedAt: at(20),
  attempts: [
    { attempt: 1, outcome: "failed", at: at(10) },
    { attempt: 2, outcome: "failed", at: at(20) },
  ],
};
const aLog = (ms: number): LogLine => ({ number: 1, at: at(ms), level: "info", message: "hello" });

function linesOf(given: Partial<JobView>, logs: readonly LogLine[] = []): readonly string[] {
  const job = { ...failed, ...given } as JobView;
  return timelineOf(job, logs, { wantsStacks: false, now: at(1000).getTime() }).map((line) => line.slice(26));
}

describe("the timeline of a job", () => {
  test("puts the cause first where times are equal", () => {
    const all = ["created", "due", "attempt 1 failed", "attempt 2 started on w", "log info: hello"];
    const ended = ["attempt 2 failed", "failed: retries-exhausted"];
    expect(linesOf({}, [aLog(10)])).toEqual([...all, ...ended]);
  });

  test.each([
    ["the end of its last attempt", { endedAt: at(19) }, [aLog(15)]],
    ["a log", {}, [aLog(21)]],
  ])("ends with the end of the job, even if a worker dates %s later", (_what, given, logs) => {
    expect(linesOf(given, logs).at(-1)).toBe("failed: retries-exhausted");
  });

  test("says of a durable run that it was resumed, and which signals no wait has taken", () => {
    const resting = { state: "suspended", attempt: 0, attempts: [], endedAt: null, reason: null } as const;
    const job = { ...failed, ...resting } as JobView;
    const unread = [{ signal: "paid", at: at(15), source: "ann" }];
    const lines = timelineOf(job, [], { unread, wantsStacks: false, now: at(1000).getTime() });
    expect(lines.map((line) => line.slice(26))).toEqual([
      ...["created", "due", "resumed on w"],
      "signal paid from ann came; no wait has taken it yet",
    ]);
  });

  test("puts a time at which a job would have been due after its cancel", () => {
    const cancelled = { state: "cancelled", reason: "cancelled", attempts: [], startedAt: null } as const;
    const lines = linesOf({ ...cancelled, claimedAt: null, attempt: 0, endedAt: at(5) });
    expect(lines).toEqual(["created", expect.stringMatching(/^cancelled/), "due"]);
  });
});
