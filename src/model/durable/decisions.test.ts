// The small decisions of a durable run: versions, approvals, rests, signals, retries of steps and derived ids.
import fc from "fast-check";
import { describe, expect, test } from "vitest";
import { decideApproval } from "./approval-decision.ts";
import type { Answer } from "./approval-decision.ts";
import { derivedUuid, stepIdempotencyKey } from "./derived-id.ts";
import { journalLimits } from "./journal-entry.ts";
import type { JournalEntry } from "./journal-entry.ts";
import { planRest } from "./rest-plan.ts";
import { refusalOfSignal, SignalBuffer } from "./signal-buffer.ts";
import { readStepRetry, stepRetryDelayMs } from "./step-retry.ts";
import { chooseVersion } from "./version-choice.ts";

describe("the version of a run", () => {
  const began = (version: number): JournalEntry[] => [
    { number: 1, at: 0, key: "version", body: { kind: "version", version } },
  ];
  test("is the current one for a round that has recorded nothing, and stays the one that it began with", () => {
    const offered = { current: 3, older: [1] };
    expect(chooseVersion([], offered)).toEqual({ kind: "run", version: 3, isNew: true });
    expect(chooseVersion(began(1), offered)).toEqual({ kind: "run", version: 1, isNew: false });
    expect(chooseVersion(began(3), offered)).toEqual({ kind: "run", version: 3, isNew: false });
  });

  test("that a worker does not have is not run by it, also a newer one", () => {
    expect(chooseVersion(began(2), { current: 3, older: [1] })).toEqual({ kind: "missing", version: 2 });
    expect(chooseVersion(began(4), { current: 3, older: [1] })).toEqual({ kind: "missing", version: 4 });
  });
});

describe("an approval", () => {
  const answer = (number: number, source: string | null, approves = true): Answer => ({
    ...{ number, at: number, name: "manager", value: null, wait: null, businessKey: null, source, approves },
  });

  test("counts each source once", () => {
    expect(decideApproval([answer(1, "ann"), answer(2, "ann")], 2)).toEqual({ kind: "open", approvals: 1 });
    const both = [answer(1, "ann"), answer(2, "ann"), answer(3, "bob")];
    expect(decideApproval(both, 2)).toEqual({ kind: "decided", approved: true, signals: [1, 3] });
  });

  test("is declined by the first source that declines, also by one that approved before it changed its mind", () => {
    const declined = [answer(1, "ann"), answer(2, "bob", false), answer(3, "eve")];
    expect(decideApproval(declined, 2)).toEqual({ kind: "decided", approved: false, signals: [1, 2] });
    expect(decideApproval([answer(1, "ann"), answer(2, "ann", false)], 2)).toEqual({
      kind: "open",
      approvals: 1,
    });
  });
});

describe("a run at rest", () => {
  test("is scheduled if it waits for times alone, and woken by the earliest", () => {
    const sleep = { kind: "sleep", wakeAt: 900, endsInMs: null } as const;
    const retry = { kind: "run", wakeAt: 700, endsInMs: null } as const;
    expect(planRest([sleep, retry], 500)).toEqual({ as: "scheduled", wake: { at: 700 } });
  });

  test("is suspended if a signal may come; a time that is about to be recorded stays relative", () => {
    const wait = { kind: "wait", wakeAt: null, endsInMs: 100 } as const;
    expect(planRest([{ kind: "sleep", wakeAt: 900, endsInMs: null }, wait], 500)).toEqual({
      as: "suspended",
      wake: { inMs: 100 },
    });
    expect(planRest([{ kind: "wait", wakeAt: null, endsInMs: null }], 500)).toEqual({
      as: "suspended",
      wake: null,
    });
  });
});

describe("signals", () => {
  const signal = (number: number, name: string, wait?: string): JournalEntry => ({
    ...{ number, at: number * 10, key: `signal:${number}` },
    body: { kind: "signal", name, value: null, ...(wait === undefined ? {} : { wait }) },
  });
  const numbers = (list: readonly { number: number }[]): number[] => list.map(({ number }) => number);

  test("are offered in their order, to the wait that they name, and before its time is over", () => {
    const buffer = new SignalBuffer();
    for (const each of [signal(1, "a"), signal(2, "a", "?a#2"), signal(3, "b"), signal(4, "a")])
      buffer.add(each);
    expect(numbers(buffer.unreadFor("a", { call: "?a#1", businessKey: null, until: null }))).toEqual([1, 4]);
    expect(numbers(buffer.unreadFor("a", { call: "?a#2", businessKey: null, until: 39 }))).toEqual([1, 2]);
  });

  test("of a business key are for the waits at it alone", () => {
    const buffer = new SignalBuffer();
    const first = signal(1, "a");
    buffer.add({ ...first, body: { ...first.body, businessKey: "k" } as JournalEntry["body"] });
    buffer.add(signal(2, "a"));
    const offered = (businessKey: string | null): number[] =>
      numbers(buffer.unreadFor("a", { call: "?a#1", businessKey, until: null }));
    expect([offered("k"), offered(null), offered("other")]).toEqual([[1], [2], []]);
  });

  test("that were taken are offered to nobody, and the others stay for the next round", () => {
    const buffer = new SignalBuffer();
    for (const each of [signal(1, "a"), signal(2, "b"), signal(3, "a")]) buffer.add(each);
    expect(buffer.take(1)?.number).toBe(1);
    expect(buffer.take(9)).toBeUndefined();
    expect(numbers(buffer.unreadFor("a", { call: "?a#1", businessKey: null, until: null }))).toEqual([3]);
    expect(numbers(buffer.unread)).toEqual([2, 3]);
  });

  test("are refused once the buffer is full by number or by size", () => {
    const { unreadSignalsMax, unreadBytesMax } = journalLimits;
    expect(refusalOfSignal({ count: unreadSignalsMax - 1, bytes: 0 }, 1)).toBeNull();
    expect(refusalOfSignal({ count: unreadSignalsMax, bytes: 0 }, 1)).toBe("buffer-full");
    expect(refusalOfSignal({ count: 1, bytes: unreadBytesMax }, 1)).toBe("buffer-full");
    expect(refusalOfSignal({ count: 0, bytes: 0 }, unreadBytesMax + 1)).toBe("too-large");
  });
});

test("a step is tried N times, with the backoff that it names, and only for the errors that it retries", () => {
  const error = { name: "Error" };
  const sources = { random: () => 1 };
  const backoff = { kind: "exponential", from: 100, to: 300, jitter: "none" };
  const retry = readStepRetry({ attempts: 4, backoff }, "it");
  expect([1, 2, 3, 4].map((attempt) => stepRetryDelayMs(retry, attempt, error, sources))).toEqual([
    ...[100, 200, 300, null],
  ]);
  const picky = readStepRetry({ retryIf: { never: ["Declined"] } }, "it");
  expect(stepRetryDelayMs(picky, 1, { name: "Declined" }, sources)).toBeNull();
  expect(stepRetryDelayMs(picky, 1, error, sources)).not.toBeNull();
  expect(stepRetryDelayMs(readStepRetry(undefined, "it"), 3, error, sources)).toBeNull();
});

test("derived ids are the same in every replay, and differ by run, round, count and call", () => {
  const digest = (text: string): Uint8Array =>
    Uint8Array.from({ length: 32 }, (_, at) => text.charCodeAt(at % text.length) + at);
  const run = { run: "order-17", round: 1 };
  expect(derivedUuid(run, 1, digest)).toBe(derivedUuid(run, 1, digest));
  expect(derivedUuid(run, 1, digest)).toMatch(
    /^[\da-f]{8}-[\da-f]{4}-8[\da-f]{3}-[89ab][\da-f]{3}-[\da-f]{12}$/,
  );
  fc.assert(
    fc.property(fc.nat(9), fc.nat(9), (round, other) => {
      const keys = [
        stepIdempotencyKey({ ...run, round }, "a#1"),
        stepIdempotencyKey({ ...run, round: other }, "a#1"),
      ];
      expect(keys[0] === keys[1]).toBe(round === other);
    }),
  );
});
