import { expect, test } from "vitest";
import { eventCodes, eventOfCode } from "./event-kind.ts";
import type { EventKind } from "./event-kind.ts";

test("event codes are fixed for ever, because feeds keep them", () => {
  expect(eventCodes).toEqual({
    submitted: 0,
    replaced: 1,
    promoted: 2,
    claimed: 3,
    completed: 4,
    failed: 5,
    cancelled: 6,
    expired: 7,
    skipped: 8,
    "retry-scheduled": 9,
    snoozed: 10,
    throttled: 11,
    "handed-back": 12,
    reclaimed: 13,
    suspended: 14,
    resumed: 15,
    freed: 16,
    rescheduled: 17,
    edited: 18,
    "cancel-asked": 19,
    replayed: 20,
    deleted: 21,
    revoked: 22,
    started: 23,
    progress: 24,
    "queue-changed": 25,
    "queue-empty": 26,
    "worker-joined": 27,
    "worker-left": 28,
    "passed-on": 29,
    signalled: 30,
    output: 31,
    "budget-warned": 32,
    "budget-breached": 33,
    step: 34,
  });
});

test("a code leads back to its kind, and an unknown code is a wrong program", () => {
  for (const [kind, code] of Object.entries(eventCodes)) expect(eventOfCode(code)).toBe(kind as EventKind);
  for (const code of [-1, 35, 1.5, Number.NaN]) expect(() => eventOfCode(code)).toThrow(RangeError);
});
