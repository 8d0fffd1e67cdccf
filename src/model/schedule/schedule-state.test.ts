import { describe, expect, test } from "vitest";
import { decideSchedule } from "./decide-schedule.ts";
import { readScheduleEdit, readScheduleSettings } from "./schedule-settings.ts";
import type { ScheduleOptions, ScheduleSettings } from "./schedule-settings.ts";
import {
  afterDefinition,
  afterEdit,
  afterPause,
  afterReset,
  newSchedule,
  readSchedule,
  settingsOf,
  writeSchedule,
} from "./schedule-state.ts";
import type { ScheduleState } from "./schedule-state.ts";

const hour = (count: number): number => Date.UTC(2026, 0, 5, count);
const define = (options: ScheduleOptions, job = "report"): ScheduleSettings =>
  readScheduleSettings(options, job, "schedule");
const nightly = define({ cron: "0 3 * * *", zone: "Europe/Berlin", missed: { all: 2 }, overlap: "skip" });

function edit(state: ScheduleState, options: object, now = hour(5)): ScheduleState {
  return afterEdit(state, readScheduleEdit(options, settingsOf(state), "schedule"), now);
}

describe("settings", () => {
  test("by default run once for what was missed and allow an overlap", () => {
    expect(define({ cron: "@daily" })).toMatchObject({ missed: "once", overlap: "allow" });
  });

  test("with an unknown option are refused", () => {
    expect(() => readScheduleSettings({ cron: "@daily", mised: "skip" }, "job", "schedule")).toThrow(
      /unknown option "mised"/,
    );
  });
});

describe("a definition", () => {
  test("that says the same as before changes nothing, in whatever order it says it", () => {
    const state = newSchedule(nightly, hour(0));
    const same = define({ overlap: "skip", missed: { all: 2 }, zone: "Europe/Berlin", cron: " 0  3 * * *" });
    expect(afterDefinition(state, same, hour(1))).toBeNull();
  });

  test.each<[string, ScheduleSettings]>([
    ["rule", define({ cron: "0 4 * * *", zone: "Europe/Berlin", missed: { all: 2 }, overlap: "skip" })],
    ["zone", define({ cron: "0 3 * * *", missed: { all: 2 }, overlap: "skip" })],
    [
      "limit",
      define({ cron: "0 3 * * *", zone: "Europe/Berlin", missed: { all: 2 }, overlap: "skip", limit: 5 }),
    ],
    ["missed", define({ cron: "0 3 * * *", zone: "Europe/Berlin", missed: { all: 3 }, overlap: "skip" })],
    ["overlap", define({ cron: "0 3 * * *", zone: "Europe/Berlin", missed: { all: 2 } })],
    [
      "job",
      define({ cron: "0 3 * * *", zone: "Europe/Berlin", missed: { all: 2 }, overlap: "skip" }, "another"),
    ],
  ])("with another %s replaces the one before and every edit", (_what, defined) => {
    const edited = edit(newSchedule(nightly, hour(0)), { cron: "0 5 * * *" });
    const state = afterDefinition(edited, defined, hour(6));
    expect(state && settingsOf(state)).toEqual(defined);
    expect(state?.edited).toEqual({});
  });

  test("that changed does not end a pause, and forgets no firing", () => {
    const fired = { ...newSchedule(nightly, hour(0)), fired: 7, lastTick: hour(0), lastJob: "job" };
    const paused = afterPause(fired) as ScheduleState;
    const state = afterDefinition(paused, define({ cron: "@hourly" }), hour(6));
    expect(state).toMatchObject({ isPaused: true, fired: 7, lastTick: hour(0), lastJob: "job" });
  });

  test("with other ticks counts from the moment it came: no tick of it was missed", () => {
    const state = newSchedule(define({ cron: "0 0 * * *" }), hour(1));
    const changed = afterDefinition(state, define({ cron: "0 6 * * *" }), hour(12)) as ScheduleState;
    expect(decideSchedule(changed, { name: "a", now: hour(13), previous: null })).toBeNull();
    const next = decideSchedule(changed, { name: "a", now: hour(30), previous: null });
    expect(next?.fire.map(({ tick }) => tick)).toEqual([hour(30)]);
  });

  test("with the same ticks keeps what is due", () => {
    const state = newSchedule(define({ cron: "0 6 * * *" }), hour(1));
    const changed = afterDefinition(state, define({ cron: "0 6 * * *", overlap: "skip" }), hour(12));
    const late = decideSchedule(changed as ScheduleState, { name: "a", now: hour(12), previous: null });
    expect(late?.fire.map(({ tick }) => tick)).toEqual([hour(6)]);
  });
});

describe("an edit", () => {
  test("holds while the code says the same as before, and is gone once it says something else", () => {
    const edited = edit(newSchedule(nightly, hour(0)), { cron: "30 4 * * *", overlap: "allow" });
    expect(afterDefinition(edited, nightly, hour(6))).toBeNull();
    expect(settingsOf(edited)).toMatchObject({
      rule: { cron: "30 4 * * *", zone: "Europe/Berlin" },
      overlap: "allow",
    });
    expect(edited.defined).toBe(nightly);
  });

  test("changes what it names and leaves the rest", () => {
    const state = newSchedule(
      define({ cron: "0 3 * * *", zone: "Europe/Berlin", limit: 9, jitter: "1m" }),
      hour(0),
    );
    expect(settingsOf(edit(state, { zone: "Asia/Tokyo" })).rule).toMatchObject({
      cron: "0 3 * * *",
      zone: "Asia/Tokyo",
      limit: 9,
    });
    expect(settingsOf(edit(state, { limit: null })).rule).toMatchObject({ limit: null, jitter: 60_000 });
    expect(settingsOf(edit(state, { missed: "skip" })).rule).toBe(state.defined.rule);
  });

  test("to another kind of rule takes along what that kind has", () => {
    const state = newSchedule(define({ cron: "0 3 * * *", zone: "Europe/Berlin", limit: 9 }), hour(0));
    const every = edit(state, { every: "1h" });
    expect(settingsOf(every).rule).toMatchObject({
      cron: null,
      every: 3_600_000,
      zone: null,
      anchor: 0,
      limit: 9,
    });
    const calendar = edit(state, { calendar: { at: "04:00" } });
    expect(settingsOf(calendar).rule).toMatchObject({ cron: null, zone: "Europe/Berlin", limit: 9 });
    expect(settingsOf(edit(every, { cron: "@daily" })).rule).toMatchObject({
      every: null,
      anchor: null,
      zone: "UTC",
    });
    const anchored = edit(every, { anchor: 5 });
    expect(settingsOf(edit(anchored, { every: "2h" })).rule).toMatchObject({ every: 7_200_000, anchor: 5 });
  });

  test("after an edit adds to it", () => {
    const state = edit(edit(newSchedule(nightly, hour(0)), { overlap: "allow" }), { missed: "skip" });
    expect(state.edited).toEqual({ overlap: "allow", missed: "skip" });
  });

  test("is taken back by a reset", () => {
    const state = newSchedule(nightly, hour(0));
    expect(afterReset(state, hour(6))).toBeNull();
    const reset = afterReset(edit(state, { cron: "0 5 * * *" }), hour(6)) as ScheduleState;
    expect(settingsOf(reset)).toEqual(nightly);
    expect(reset.position).toBe(hour(6));
  });

  test("with other ticks counts from the moment it came, with the same ticks from where it was", () => {
    const state = newSchedule(nightly, hour(0));
    expect(edit(state, { cron: "0 5 * * *" }, hour(7)).position).toBe(hour(7));
    expect(edit(state, { jitter: "5m" }, hour(7)).position).toBe(hour(0));
  });

  test.each<[string, object, RegExp]>([
    ["that names nothing", {}, /give an option to change/],
    ["with a wrong cron", { cron: "61 * * * *" }, /field 1 \(minute\)/],
    ["that takes the rule away", { cron: null }, /give one of cron, every and calendar/],
    ["with an end before the start that stands", { end: hour(-2) }, /end must come after start/],
    ["with an unknown option", { pause: true }, /unknown option "pause"/],
  ])("%s is refused", (_title, options, message) => {
    const state = newSchedule(define({ cron: "0 3 * * *", start: hour(-1) }), hour(0));
    expect(() => edit(state, options)).toThrow(message);
  });
});

describe("the text of a schedule", () => {
  const state: ScheduleState = {
    ...edit(newSchedule(nightly, hour(0)), { calendar: { at: ["04:00"], weekdays: ["mon"] } }),
    isPaused: true,
    lastTick: hour(3),
    lastJob: "job",
    queued: hour(4),
    fired: 3,
    skipped: 1,
  };

  test("gives back what was written", () => {
    expect(readSchedule(writeSchedule(state))).toEqual({ kind: "read", state });
  });

  test("keeps fields that only a newer version knows", () => {
    const newer = JSON.stringify({ ...JSON.parse(writeSchedule(state)), colour: "red" });
    const read = readSchedule(newer);
    expect(read.kind === "read" && JSON.parse(writeSchedule(read.state))).toMatchObject({
      colour: "red",
      fired: 3,
    });
  });

  test("of an older version, without fields that came later, is read", () => {
    const { defined, position } = state;
    expect(readSchedule(JSON.stringify({ defined, edited: {}, position }))).toEqual({
      kind: "read",
      state: { ...newSchedule(defined, position), edited: {} },
    });
  });

  test.each<[string, string]>([
    ["is no JSON", "{"],
    ["is no object", "null"],
    ["has no definition", "{}"],
    ["has half a definition", JSON.stringify({ ...JSON.parse(writeSchedule(state)), defined: { job: "a" } })],
    ["has no position", JSON.stringify({ ...JSON.parse(writeSchedule(state)), position: undefined })],
    [
      "has a position that is no number",
      JSON.stringify({ ...JSON.parse(writeSchedule(state)), position: "x" }),
    ],
    [
      "has a rule of a newer version",
      writeSchedule(state).replace('"cron":"0 3 * * *"', '"cron":null,"tide":"high"'),
    ],
    [
      "has a zone that is not known here",
      writeSchedule(state).replaceAll("Europe/Berlin", "Europe/Atlantis"),
    ],
    ["has a policy of a newer version", writeSchedule(state).replace('"overlap":"skip"', '"overlap":"ask"')],
  ])("that %s is unreadable, with a reason, and nothing is thrown", (_title, text) => {
    const read = readSchedule(text);
    expect(read.kind).toBe("unreadable");
    if (read.kind === "unreadable") expect(read.reason.length).toBeGreaterThan(5);
  });
});
