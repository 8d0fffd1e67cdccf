import { expect, test } from "vitest";
import type { EntryBody, JournalEntry } from "./journal-entry.ts";
import { stepsOf } from "./run-steps.ts";

const journal = (...bodies: readonly EntryBody[]): JournalEntry[] =>
  bodies.map((body, index) => ({ number: index + 1, at: 100 * (index + 1), key: String(index), body }));
const call = { call: "a#1", as: "run" } as const;

test("a step that failed twice and then worked shows its failures and its end", () => {
  const failed = (attempt: number): EntryBody => ({
    kind: "failed",
    ...call,
    attempt,
    error: "{}",
    retryInMs: 5,
  });
  expect(stepsOf(journal(failed(1), failed(2)))).toMatchObject([
    { call: "a#1", state: "waiting", at: 100, endedAt: null, failures: 2, until: 205 },
  ]);
  expect(stepsOf(journal(failed(1), failed(2), { kind: "result", ...call, value: "1" }))).toMatchObject([
    { state: "completed", at: 100, endedAt: 300, failures: 2, error: null, until: null },
  ]);
});

test("a wait whose time is over has timed out, a sleep has completed", () => {
  const wait = { call: "?x#1", as: "wait" } as const;
  const sleep = { call: "nap#1", as: "sleep" } as const;
  const entries = journal(
    { kind: "opened", ...wait, signal: "x", endsInMs: 7 },
    { kind: "opened", ...sleep, endsAt: 900 },
    { kind: "rang", ...wait },
    { kind: "rang", ...sleep },
  );
  expect(stepsOf(entries.slice(0, 2))).toMatchObject([
    { state: "waiting", signal: "x", until: 107 },
    { state: "waiting", signal: null, until: 900 },
  ]);
  expect(stepsOf(entries)).toMatchObject([{ state: "timed-out" }, { state: "completed", endedAt: 400 }]);
});

test("undos and lost branches are said of the steps that they concern", () => {
  const entries = journal(
    { kind: "result", ...call, value: null, hasUndo: true },
    { kind: "opened", call: "race#1.b/?x#1", as: "wait", signal: "x" },
    { kind: "raced", call: "race#1", as: "race", winner: "a" },
    { kind: "ending", state: "failed", reason: "unrecoverable" },
    { kind: "undone", ...call },
  );
  const states = stepsOf(entries).map((step) => [step.call, step.state]);
  expect(states).toEqual([
    ["a#1", "undone"],
    ["race#1.b/?x#1", "closed"],
    ["race#1", "completed"],
  ]);
});
