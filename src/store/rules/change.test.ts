import { describe, expect, test } from "vitest";
import { aJob, finish, handBack, remove, replay, schedule } from "../../../test/support/builders.ts";
import { stateCodes } from "../../model/job/job-state.ts";
import type { JobRow } from "../job-fields.ts";
import { initialValues } from "./advance.ts";
import { change, isReplay, settle } from "./change.ts";
import { lease } from "./lease.ts";
import { placeNew } from "./place.ts";
import { keyOfReplay } from "./replay.ts";

const now = 1000;
const submitted = placeNew(
  aJob({ id: "a", deadline: { inMs: 5 }, unique: { key: "k", hold: "end", onHeld: "keep" } }),
  { seq: 1, route: 7, now },
);
const waiting = { ...initialValues(() => true), ...submitted } as JobRow;
const running = lease(waiting, { owner: "w", starts: false, leaseMs: 50, epoch: 1, now }).row;
const ended = settle(
  running,
  { id: "a", seq: 1, fence: running.fence, next: finish(), attempts: "log" },
  now,
).row;

describe("a change of a job", () => {
  test("leaves the row that it starts from as it was", () => {
    const before: JobRow = { ...running };
    change(running, schedule(10), "log", now);
    expect(running).toEqual(before);
  });

  test("that is no arrow of the state machine is stopped", () => {
    expect(() => change(ended, finish("failed"), null, now)).toThrow(/cannot end again/);
    expect(() => change(ended, handBack, null, now)).toThrow(/only by a schedule/);
    expect(() => change(running, remove, null, now)).toThrow(/running job cannot be deleted/);
    expect(() => change({ ...waiting, state: stateCodes.scheduled }, finish("failed"), null, now)).toThrow(
      /from scheduled to failed/,
    );
  });

  test("that finishes it drops the lease, the timer and the key, and keeps who ran it", () => {
    expect(ended).toMatchObject({ state: stateCodes.completed, leaseEndsAt: null, timerAt: null, holds: 0 });
    expect(ended).toMatchObject({ owner: "w", settledFence: running.fence, attempts: "log", endedAt: now });
  });

  test("that replays it goes on from its fence, takes its key again and clears what the end wrote", () => {
    expect(isReplay(ended, replay())).toBe(true);
    expect(isReplay(running, schedule(0))).toBe(false);
    expect(keyOfReplay(ended)).toBe("k");
    const outcome = change(ended, replay(), null, now + 9);
    expect(outcome).toMatchObject({ key: "taken", event: "replayed" });
    expect(outcome.row).toMatchObject({
      fence: running.fence,
      attempt: 0,
      endedAt: null,
      holds: waiting.holds,
    });
  });

  test("clears a deadline that has passed only where it says so", () => {
    const { row: kept } = change(
      ended,
      replay(0, { clearsPassedDeadline: undefined } as object),
      null,
      now + 5,
    );
    expect(kept.deadlineAt).toBe(now + 5);
    const { row: cleared } = change(ended, replay(0, { clearsPassedDeadline: true }), null, now + 5);
    expect(cleared.deadlineAt).toBeNull();
    const { row: coming } = change(ended, replay(0, { clearsPassedDeadline: true }), null, now + 4);
    expect(coming.deadlineAt).toBe(now + 5);
  });
});
