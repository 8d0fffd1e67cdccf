import fc from "fast-check";
import { describe, expect, test } from "vitest";
import { afterCancel, afterExpiry, afterReturn } from "../job/after-run.ts";
import type { Finish } from "../job/change.ts";
import { createPolicyReader, writePolicy } from "../job/job-policy.ts";
import { cancelChanges, replayChange, revokeChanges } from "../job/operate.ts";
import { durableMarks, roundStep } from "./durable-marks.ts";
import { endRun, mayDelete } from "./end-run.ts";

const read = createPolicyReader();
const plain = read(null);
const policy = read(writePolicy({ durable: ["paid"] }));
const { hasJournal, hasUndo, isEnding } = durableMarks;
const cancelled = afterCancel(policy, "asked");
const failed: Finish = { ...cancelled, to: "failed", event: "failed", reason: "crash-loop" };

describe("the end of a run", () => {
  test("is its end if no step has an undo, guarded by that", () => {
    expect(endRun({ policy, durable: hasJournal }, cancelled, 0)).toEqual({
      next: cancelled,
      marks: { mask: hasUndo | isEnding, is: 0 },
    });
  });

  test("lets it undo its steps first, once, with attempts of its own and as ready as anybody", () => {
    const durable = hasJournal | hasUndo | (3 * roundStep);
    const { next, append, marks } = endRun({ policy, durable }, afterExpiry(policy, "deadline"), 0);
    expect(next).toMatchObject({ to: "scheduled", event: "resumed", due: { inMs: 0 }, attempt: 0 });
    expect(append).toEqual({
      key: "ending#3:",
      body: { kind: "ending", state: "expired", reason: "deadline" },
    });
    expect(marks).toEqual({ mask: hasUndo | isEnding, is: hasUndo });
  });

  test("during its undos is a failure of them, whatever ends it", () => {
    const durable = hasJournal | hasUndo | isEnding;
    for (const end of [cancelled, failed, afterExpiry(policy, "ttl")]) {
      const ended = endRun({ policy, durable }, end, 0);
      expect(ended.next).toMatchObject({ to: "failed", reason: "undo-failed" });
      expect(ended.append).toBeUndefined();
    }
  });

  test("is at once if it is good, or if its code has changed", () => {
    const durable = hasJournal | hasUndo;
    for (const end of [afterReturn(policy, null), { ...failed, reason: "diverged" }])
      expect(endRun({ policy, durable }, end, 0)).toMatchObject({ next: end });
  });

  test("changes nothing for plain jobs, nor for what is no end", () => {
    fc.assert(
      fc.property(fc.nat(200), (durable) => {
        expect(endRun({ policy: plain, durable }, cancelled, 0)).toEqual({ next: cancelled });
        const handBack = { to: "ready", event: "handed-back", countsAttempt: 0 } as const;
        expect(endRun({ policy, durable }, handBack, 0)).toEqual({ next: handBack });
      }),
    );
  });
});

describe("an operator", () => {
  const run = { policy, attempts: null, cancelAsked: false };
  test("cancels no run that undoes its steps", () => {
    expect(cancelChanges({ ...run, durable: hasUndo | isEnding }, "why", 0)).toEqual([]);
    const [waiting, running] = cancelChanges({ ...run, durable: hasUndo }, "why", 0);
    expect(waiting).toMatchObject({ next: { to: "scheduled" }, append: { key: "ending" } });
    expect(running).toMatchObject({ states: ["running"], next: { to: "same" } });
  });

  test("revokes a run whose cancel was requested so that it undoes its steps", () => {
    const [ended] = revokeChanges({ ...run, cancelAsked: true, durable: hasUndo }, 0);
    expect(ended).toMatchObject({ next: { to: "scheduled" }, append: { body: { state: "cancelled" } } });
    expect(revokeChanges({ ...run, durable: hasUndo }, 0)).toMatchObject([{ next: { event: "revoked" } }]);
  });

  test("deletes no live run whose undos would be lost", () => {
    expect(mayDelete({ policy, durable: hasUndo })).toBe(false);
    expect(mayDelete({ policy, durable: hasJournal })).toBe(true);
    expect(mayDelete({ policy: plain, durable: 0 })).toBe(true);
  });

  test.each<[what: string, given: object, options: object, isNew: boolean]>([
    ["a run that failed", { state: "failed" }, {}, false],
    ["a run that failed, from the start", { state: "failed" }, { isFromStart: true }, true],
    ["a run with another input", { state: "failed" }, { edit: { input: "2" } }, true],
    ["a run that completed", { state: "completed" }, {}, true],
    ["a run that has undone its steps", { state: "failed", durable: hasUndo | isEnding }, {}, true],
    ["a plain job", { state: "completed", policy: plain }, { isFromStart: true }, false],
  ])("retries %s", (_what, given, options, isNew) => {
    const job = { policy, attempts: null, durable: hasJournal, state: "failed" as const, ...given };
    const { next } = replayChange(job, { due: { inMs: 0 }, resetsAttempts: true, strideMs: 0, ...options });
    expect(next.newRound).toBe(isNew ? true : undefined);
  });
});
