import { expect, test } from "vitest";
import { appendAttempt, clearedLog, noteNewRound, readAttemptLog } from "../job/attempt-log.ts";
import { createPolicyReader, writePolicy } from "../job/job-policy.ts";
import { afterContinue, afterRest, afterUnasked, afterVersionMissing } from "./run-end.ts";

const policy = createPolicyReader()(writePolicy({ durable: [] }));
const sources = { now: 7, worker: "w", strideMs: 0, random: () => 0.5 };
const ended = { attempt: 3, policy, attempts: null, cancelAsked: false };
const difference = { entry: 2, recorded: 'step.run "a#1"', asked: "no step" };

test("a rest sets the attempts back and keeps its wake time; only times alone are a schedule", () => {
  const anew = { attempt: 0, countsAttempt: 1 };
  const wake = { at: 900 };
  expect(afterRest(policy, { as: "suspended", wake }, 0)).toMatchObject({ to: "suspended", wake, ...anew });
  expect(afterRest(policy, { as: "suspended", wake: null }, 0)).toMatchObject({ wake: null, ...anew });
  const sleeps = afterRest(policy, { as: "scheduled", wake }, 0);
  expect(sleeps).toMatchObject({ to: "scheduled", event: "snoozed", due: wake, ttlMs: null, ...anew });
});

test("a run that continues begins a new round with its input", () => {
  expect(afterContinue(policy, "2", 0)).toMatchObject({ newRound: true, edit: { input: "2" }, attempt: 0 });
});

test("an entry that is not asked for is a hand-back once, and then a difference", () => {
  const first = afterUnasked(ended, difference, sources);
  expect(first.next).toMatchObject({ to: "scheduled", countsAttempt: 0 });
  const second = afterUnasked({ ...ended, attempts: first.attempts }, difference, sources);
  expect(second.next).toMatchObject({ to: "failed", reason: "diverged" });
  const [entry] = readAttemptLog(second.attempts).entries;
  expect(entry?.error?.message).toContain('entry 2 is step.run "a#1"');
});

test("a run whose version is missing comes again later each time", () => {
  let attempts: string | null = null;
  let last = 0;
  for (const count of [1, 2, 3, 4]) {
    const decided = afterVersionMissing({ ...ended, attempts }, 1, sources);
    ({ attempts } = decided);
    expect(readAttemptLog(attempts).handedBack).toMatchObject({ reason: "version-missing", count });
    const { due } = decided.next as { readonly due: { readonly inMs: number } };
    expect(due.inMs).toBeGreaterThan(last);
    last = due.inMs;
  }
});

test("a log is cleared of what failed, and keeps how often the job was replayed", () => {
  expect(clearedLog(null)).toBeNull();
  expect(clearedLog(noteNewRound(null))).toBeNull();
  const failed = appendAttempt(noteNewRound(null), { attempt: 1, outcome: "failed", at: 1 });
  expect(readAttemptLog(clearedLog(failed))).toEqual({ entries: [], dropped: 0, replays: 1 });
});
