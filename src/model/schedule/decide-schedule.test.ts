import fc from "fast-check";
import { describe, expect, test } from "vitest";
import { jobStates, liveStates, terminalStates } from "../job/job-state.ts";
import type { JobState } from "../job/job-state.ts";
import { decideSchedule, scheduleDue, scheduleStatus } from "./decide-schedule.ts";
import type { ScheduleLook } from "./decide-schedule.ts";
import { firingId } from "./firing.ts";
import { decideOverlap, isAlive, readOverlap } from "./overlap.ts";
import type { Overlap } from "./overlap.ts";
import { readScheduleSettings } from "./schedule-settings.ts";
import type { ScheduleOptions } from "./schedule-settings.ts";
import {
  afterEdit,
  afterPause,
  afterResume,
  afterRunNow,
  newSchedule,
  settingsOf,
} from "./schedule-state.ts";
import type { ScheduleState } from "./schedule-state.ts";
import { readScheduleEdit } from "./schedule-settings.ts";

const name = "nightly";
const at = (hour: number, second = 0): number => Date.UTC(2026, 0, 5, hour, 0, second);
const id = (hour: number): string => firingId(name, at(hour));

/** An hourly schedule that was made at five o'clock. */
function aSchedule(options: Partial<ScheduleOptions> = {}): ScheduleState {
  return newSchedule(readScheduleSettings({ cron: "0 * * * *", ...options }, "job", "schedule"), at(5));
}

function look(state: ScheduleState, now: number, previous: JobState | null = null) {
  const given: ScheduleLook = { name, now, previous };
  const decision = decideSchedule(state, given);
  return {
    fire: decision?.fire.map(({ tick }) => tick) ?? [],
    cancel: decision?.cancel ?? null,
    state: decision?.state ?? state,
  };
}

describe("what a tick does beside the previous job", () => {
  const table: [policy: Overlap, isPreviousAlive: boolean, isOneQueued: boolean, decision: string][] = [
    ["allow", false, false, "fire"],
    ["allow", true, false, "fire"],
    ["skip", false, false, "fire"],
    ["skip", true, false, "skip"],
    ["queue-one", false, false, "fire"],
    ["queue-one", true, false, "queue"],
    ["queue-one", true, true, "skip"],
    ["cancel-previous", false, false, "fire"],
    ["cancel-previous", true, false, "cancel-and-fire"],
  ];

  test.each(table)(
    "%s, previous alive: %s, one queued: %s: %s",
    (policy, isPreviousAlive, isOneQueued, decision) => {
      expect(decideOverlap(policy, { isPreviousAlive, isOneQueued })).toBe(decision);
    },
  );

  test("a job is alive until it has ended, and a job that is gone is not", () => {
    expect(jobStates.filter((state) => isAlive(state))).toEqual(liveStates);
    for (const state of [...terminalStates, null]) expect(isAlive(state)).toBe(false);
  });

  test.each(["queue", "", null, 5, {}])("the option overlap is not %j", (value) => {
    expect(() => readOverlap(value, "Schedule: overlap")).toThrow(
      /^Schedule: overlap must be one of "allow"/,
    );
  });
});

describe("a look at a schedule", () => {
  test("fires a tick under the id that every process derives", () => {
    const decision = decideSchedule(aSchedule(), { name, now: at(6), previous: null, partition: 7 });
    expect(decision?.fire).toEqual([{ tick: at(6), id: firingId(name, at(6), 7) }]);
    expect(decision?.state).toMatchObject({
      position: at(6),
      lastTick: at(6),
      lastJob: firingId(name, at(6), 7),
      fired: 1,
      skipped: 0,
    });
  });

  test("does nothing between ticks", () => {
    expect(decideSchedule(aSchedule(), { name, now: at(6) - 1, previous: null })).toBeNull();
  });

  test("allow: fires beside the previous job", () => {
    const { state } = look(aSchedule(), at(6));
    expect(look(state, at(7), "running").fire).toEqual([at(7)]);
  });

  test("skip: passes over the tick while the previous job lives", () => {
    const { state } = look(aSchedule({ overlap: "skip" }), at(6));
    const second = look(state, at(7), "scheduled");
    expect(second).toMatchObject({
      fire: [],
      state: { position: at(7), lastJob: id(6), fired: 1, skipped: 1 },
    });
    expect(look(second.state, at(8), "failed").fire).toEqual([at(8)]);
  });

  test("queue-one: keeps one tick until the previous job ends, and no second", () => {
    const first = look(aSchedule({ overlap: "queue-one" }), at(6));
    const second = look(first.state, at(7), "running");
    expect(second).toMatchObject({ fire: [], state: { queued: at(7), skipped: 0 } });
    const third = look(second.state, at(8), "running");
    expect(third).toMatchObject({ fire: [], state: { queued: at(7), skipped: 1 } });
    expect(decideSchedule(third.state, { name, now: at(8, 30), previous: "suspended" })).toBeNull();
    const ended = look(third.state, at(8, 31), "completed");
    expect(ended).toMatchObject({
      fire: [at(7)],
      state: { queued: null, lastJob: id(7), fired: 2, skipped: 1 },
    });
  });

  test("queue-one: fires the tick that waited and queues the one that is due now", () => {
    const first = look(aSchedule({ overlap: "queue-one" }), at(6));
    const { state } = look(first.state, at(7), "running");
    expect(look(state, at(8), "completed")).toMatchObject({ fire: [at(7)], state: { queued: at(8) } });
  });

  test("queue-one: looks again within a second while a tick waits", () => {
    const first = look(aSchedule({ overlap: "queue-one" }), at(6));
    const { state } = look(first.state, at(7), "running");
    expect(scheduleDue(state, name, at(7))).toBe(at(7) + 1000);
    expect(scheduleDue(state, name, at(8) - 1)).toBe(at(8));
  });

  test("cancel-previous: cancels the job that lives and fires", () => {
    const { state } = look(aSchedule({ overlap: "cancel-previous" }), at(6));
    expect(look(state, at(7), "running")).toMatchObject({
      fire: [at(7)],
      cancel: id(6),
      state: { lastJob: id(7) },
    });
    expect(look(state, at(7), "completed")).toMatchObject({ fire: [at(7)], cancel: null });
  });

  test("cancel-previous: passes over a tick that an earlier policy had queued", () => {
    const first = look(aSchedule({ overlap: "queue-one" }), at(6));
    const { state } = look(first.state, at(7), "running");
    const edited = afterEdit(state, { overlap: "cancel-previous" }, at(7, 1));
    expect(look(edited, at(8), "completed")).toMatchObject({
      fire: [at(8)],
      cancel: null,
      state: { queued: null, fired: 2, skipped: 1 },
    });
  });

  test("of several ticks at once each policy fires what it would have fired in time", () => {
    const options = { cron: "*/2 * * * * *" };
    const now = at(5, 6);
    const ticks = [at(5, 2), at(5, 4), at(5, 6)];
    expect(look(aSchedule(options), now).fire).toEqual(ticks);
    expect(look(aSchedule({ ...options, overlap: "skip" }), now)).toMatchObject({
      fire: [ticks[0]],
      state: { skipped: 2 },
    });
    expect(look(aSchedule({ ...options, overlap: "queue-one" }), now)).toMatchObject({
      fire: [ticks[0]],
      state: { queued: ticks[1], skipped: 1 },
    });
    expect(look(aSchedule({ ...options, overlap: "cancel-previous" }), now)).toMatchObject({
      fire: [ticks[2]],
      cancel: null,
      state: { skipped: 2 },
    });
  });

  test("a limit ends it, however many ticks are due at once, and a higher limit lets it fire on", () => {
    const state = aSchedule({ cron: "*/2 * * * * *", limit: 2 });
    const ended = look(state, at(5, 8));
    expect(ended).toMatchObject({ fire: [at(5, 2), at(5, 4)], state: { fired: 2 } });
    expect(scheduleStatus(ended.state)).toBe("ended");
    expect(scheduleDue(ended.state, name, at(6))).toBeNull();
    expect(look(ended.state, at(7)).fire).toEqual([]);
    const edit = readScheduleEdit({ limit: 3 }, settingsOf(ended.state), "schedule");
    const more = look(afterEdit(ended.state, edit, at(7)), at(7));
    expect(more.state.fired).toBe(3);
  });

  test("an end ends it", () => {
    const state = aSchedule({ end: at(7) });
    expect(scheduleStatus(state)).toBe("active");
    const { state: ended } = look(state, at(6));
    expect(scheduleStatus(ended)).toBe("ended");
    expect(scheduleDue(ended, name, at(6))).toBeNull();
  });

  test("a pause fires nothing, and a resume makes up for nothing", () => {
    const paused = afterPause(aSchedule({ missed: { all: 100 } })) as ScheduleState;
    expect(scheduleStatus(paused)).toBe("paused");
    expect(scheduleDue(paused, name, at(6))).toBeNull();
    expect(look(paused, at(8)).fire).toEqual([]);
    expect(afterPause(paused)).toBeNull();
    const resumed = afterResume(paused, at(8, 30)) as ScheduleState;
    expect(afterResume(resumed, at(9))).toBeNull();
    expect(look(resumed, at(8, 31)).fire).toEqual([]);
    expect(look(resumed, at(9)).fire).toEqual([at(9)]);
  });

  test("a run by hand is the previous job of the tick after it, and the limit does not count it", () => {
    const state = afterRunNow(aSchedule({ overlap: "cancel-previous", limit: 1 }), "by-hand");
    expect(look(state, at(6), "running")).toMatchObject({ fire: [at(6)], cancel: "by-hand" });
  });

  test("the next look is at the next tick's due time, its jitter included", () => {
    expect(scheduleDue(aSchedule(), name, at(5))).toBe(at(6));
    const due = scheduleDue(aSchedule({ jitter: "30m" }), name, at(5)) as number;
    expect(due).toBeGreaterThan(at(6));
    expect(due).toBeLessThanOrEqual(at(6) + 30 * 60_000);
  });

  test("each tick fires at most once, is counted, and a look that finds nothing due stays without effect", () => {
    const options: fc.Arbitrary<Partial<ScheduleOptions>> = fc.record({
      cron: fc.constantFrom("*/3 * * * * *", "* * * * *", "0 * * * *"),
      missed: fc.constantFrom<ScheduleOptions["missed"]>("skip", "once", { all: 4 }),
      overlap: fc.constantFrom<Overlap>("allow", "skip", "queue-one", "cancel-previous"),
      limit: fc.constantFrom(null, 3, 50),
    });
    const looks = fc.array(
      fc.record({
        delayMs: fc.integer({ min: 0, max: 200_000 }),
        previous: fc.constantFrom<JobState | null>("running", "completed", null),
      }),
      { maxLength: 60 },
    );
    fc.assert(
      fc.property(options, looks, (given, steps) => {
        let state = aSchedule(given);
        let now = at(5);
        const fired: number[] = [];
        for (const { delayMs, previous } of steps) {
          now += delayMs;
          const due = scheduleDue(state, name, now);
          const decision = decideSchedule(state, {
            name,
            now,
            previous: state.lastJob === null ? null : previous,
          });
          if (due === null || due > now + 1000) expect(decision).toBeNull();
          if (decision === null) continue;
          fired.push(...decision.fire.map(({ tick }) => tick));
          state = decision.state;
          expect(decideSchedule(state, { name, now, previous: "running" })).toBeNull();
        }
        expect(new Set(fired).size).toBe(fired.length);
        expect(fired).toEqual(fired.toSorted((one, other) => one - other));
        expect(state.fired).toBe(fired.length);
        expect(fired.length).toBeLessThanOrEqual(given.limit ?? Infinity);
      }),
    );
  });
});
