import { describe, expect, test } from "vitest";
import { isMillraceError } from "../error.ts";
import type { ErrorCode } from "../error.ts";
import { readScheduleRule } from "./schedule-rule.ts";
import type { ScheduleRuleOptions } from "./schedule-rule.ts";

const what = 'Schedule "nightly"';
const noon = Date.UTC(2026, 0, 1, 12);

describe("a rule", () => {
  const read: [title: string, options: ScheduleRuleOptions, rule: object][] = [
    ["has UTC as its zone by default", { cron: "0 3 * * *" }, { cron: "0 3 * * *", zone: "UTC" }],
    [
      "keeps the zone as it was given",
      { cron: "0 3 * * *", zone: "asia/Calcutta" },
      { zone: "asia/Calcutta" },
    ],
    ["of a duration is counted from 1970", { every: "90s" }, { every: 90_000, anchor: 0, zone: null }],
    ["of a duration is counted from its start", { every: "1h", start: noon }, { anchor: noon, start: noon }],
    ["of a duration is counted from its anchor", { every: "1h", start: noon, anchor: 5 }, { anchor: 5 }],
    [
      "takes dates and durations as people write them",
      { every: 60_000, start: new Date(noon), end: new Date(noon + 86_400_000), jitter: "10s", limit: 3 },
      { start: noon, end: noon + 86_400_000, jitter: 10_000, limit: 3 },
    ],
    [
      "takes null for what is not given",
      { cron: "@daily", every: null, end: null },
      { every: null, end: null },
    ],
  ];

  test.each(read)("%s", (_title, options, expected) => {
    expect(readScheduleRule(options, what)).toMatchObject(expected);
  });

  test.each(read)("that %s is frozen JSON and reads as itself", (_title, options) => {
    const rule = readScheduleRule(options, what);
    expect(Object.isFrozen(rule)).toBe(true);
    const stored = JSON.stringify(rule);
    expect(JSON.stringify(readScheduleRule(JSON.parse(stored), what))).toBe(stored);
  });

  const refused: [title: string, options: unknown, code: ErrorCode, message: RegExp][] = [
    ["nothing", undefined, "invalid-option", /must be an object/],
    ["no rule at all", {}, "invalid-option", /give one of cron, every and calendar/],
    ["two rules", { cron: "@daily", every: "1h" }, "invalid-option", /give one of cron, every and calendar/],
    ["an unknown option", { corn: "@daily" }, "invalid-option", /unknown option "corn"/],
    ["no time at all", { every: "0s" }, "invalid-schedule", /every must be a second or longer/],
    ["less than a second", { every: 999 }, "invalid-schedule", /every must be a second or longer/],
    ["a duration that is none", { every: "soon" }, "invalid-duration", /every: "soon" is not a duration/],
    ["a negative duration", { every: -5 }, "invalid-duration", /every: -5 is negative/],
    [
      "an unknown zone",
      { cron: "@daily", zone: "Europe/Bonn" },
      "invalid-schedule",
      /zone must be .* not "Europe\/Bonn"/,
    ],
    ["an offset for a zone", { cron: "@daily", zone: "+02:00" }, "invalid-schedule", /zone must be/],
    ["an empty zone", { cron: "@daily", zone: "" }, "invalid-schedule", /zone must be/],
    ["a hostile zone", { cron: "@daily", zone: "x".repeat(10_000) }, "invalid-schedule", /zone must be/],
    ["a zone that is no text", { cron: "@daily", zone: 5 }, "invalid-schedule", /not a number/],
    [
      "a zone for a duration",
      { every: "1h", zone: "UTC" },
      "invalid-option",
      /every counts time that passes/,
    ],
    ["an anchor for a cron", { cron: "@daily", anchor: 0 }, "invalid-option", /only every has an anchor/],
    [
      "an end before the start",
      { every: "1h", start: noon, end: noon },
      "invalid-schedule",
      /end must come after start/,
    ],
    [
      "no tick between start and end",
      { cron: "0 3 * * *", start: noon, end: noon + 1000 },
      "invalid-schedule",
      /no tick between start and end/,
    ],
    ["a start that is no instant", { every: "1h", start: "today" }, "invalid-option", /start must be a Date/],
    ["an end in microseconds", { every: "1h", end: noon * 1000 }, "invalid-option", /end must be a Date/],
    ["a limit of zero", { every: "1h", limit: 0 }, "invalid-option", /limit must be a whole number from 1/],
    [
      "a jitter of a day",
      { cron: "@daily", jitter: "1d" },
      "invalid-option",
      /jitter must be an hour or shorter/,
    ],
    [
      "a jitter as long as every",
      { every: "1m", jitter: "1m" },
      "invalid-option",
      /jitter must be shorter than every/,
    ],
  ];

  test.each(refused)("with %s is refused", (_title, options, code, message) => {
    try {
      readScheduleRule(options, what);
      expect.unreachable();
    } catch (error) {
      if (!isMillraceError(error)) throw error;
      expect(error.code).toBe(code);
      expect(error.message).toMatch(message);
      expect(error.message.startsWith(what)).toBe(true);
    }
  });
});
