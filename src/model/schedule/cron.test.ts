import fc from "fast-check";
import { describe, expect, test } from "vitest";
import { isMillraceError } from "../error.ts";
import { readScheduleRule } from "./schedule-rule.ts";
import { nextTick, ticksBetween } from "./rule-ticks.ts";

const year = { from: Date.UTC(2026, 0, 1), to: Date.UTC(2027, 0, 1) };

/** The first ticks of 2026 in UTC, as texts without what they have in common. */
function ticksOf(cron: string, count = 4): string[] {
  const rule = readScheduleRule({ cron }, "schedule");
  return ticksBetween(rule, { ...year, max: count }).ticks.map((tick) =>
    new Date(tick).toISOString().slice(5, 19).replace("T", " "),
  );
}

describe("a cron text", () => {
  const read: [text: string, ticks: string[]][] = [
    ["5 4 * * *", ["01-01 04:05:00", "01-02 04:05:00", "01-03 04:05:00"]],
    ["10 5 4 * * *", ["01-01 04:05:10", "01-02 04:05:10", "01-03 04:05:10"]],
    ["*/25 0 * * *", ["01-01 00:00:00", "01-01 00:25:00", "01-01 00:50:00", "01-02 00:00:00"]],
    ["10-50/20 0 1 * *", ["01-01 00:10:00", "01-01 00:30:00", "01-01 00:50:00", "02-01 00:10:00"]],
    ["0 0 1,15 * *", ["01-01 00:00:00", "01-15 00:00:00", "02-01 00:00:00", "02-15 00:00:00"]],
    ["0 0 1 JAN,Jul *", ["01-01 00:00:00", "07-01 00:00:00"]],
    ["0 0 L * *", ["01-31 00:00:00", "02-28 00:00:00", "03-31 00:00:00", "04-30 00:00:00"]],
    ["0 0 1,L 2 *", ["02-01 00:00:00", "02-28 00:00:00"]],
    ["0 0 * * fri#2", ["01-09 00:00:00", "02-13 00:00:00", "03-13 00:00:00", "04-10 00:00:00"]],
    ["0 0 * * 5L", ["01-30 00:00:00", "02-27 00:00:00", "03-27 00:00:00", "04-24 00:00:00"]],
    ["0 0 * * mon#5", ["03-30 00:00:00", "06-29 00:00:00", "08-31 00:00:00", "11-30 00:00:00"]],
    ["0 0 * * fri-sun", ["01-02 00:00:00", "01-03 00:00:00", "01-04 00:00:00", "01-09 00:00:00"]],
    ["0 0 ? * 7", ["01-04 00:00:00", "01-11 00:00:00", "01-18 00:00:00", "01-25 00:00:00"]],
    ["0 0 13 * fri", ["01-02 00:00:00", "01-09 00:00:00", "01-13 00:00:00", "01-16 00:00:00"]],
    ["0 0 */2 * mon", ["01-05 00:00:00", "01-19 00:00:00", "02-09 00:00:00", "02-23 00:00:00"]],
    [" \t0  0 31 * * ", ["01-31 00:00:00", "03-31 00:00:00", "05-31 00:00:00", "07-31 00:00:00"]],
    ["@Monthly", ["01-01 00:00:00", "02-01 00:00:00", "03-01 00:00:00", "04-01 00:00:00"]],
    ["@weekly", ["01-04 00:00:00", "01-11 00:00:00", "01-18 00:00:00", "01-25 00:00:00"]],
  ];

  test.each(read)("%s is read", (text, ticks) => {
    expect(ticksOf(text, ticks.length)).toEqual(ticks);
  });

  test("is kept with one space between its fields, and a nickname as its fields", () => {
    expect(readScheduleRule({ cron: " 0\t 3 * *   mon " }, "schedule").cron).toBe("0 3 * * mon");
    expect(readScheduleRule({ cron: "@daily" }, "schedule").cron).toBe("0 0 * * *");
  });

  const refused: [text: unknown, message: RegExp][] = [
    ["60 * * * *", /field 1 \(minute\), "60": give a number from 0 to 59/],
    ["0 25 1 1 *", /field 2 \(hour\), "25": give a number from 0 to 23/],
    ["0 0 0 1 *", /field 3 \(day\), "0": give a number from 1 to 31/],
    ["0 0 1 foo *", /field 4 \(month\), "foo": give a number from 1 to 12 or a name such as jan/],
    ["0 0 1 1 8", /field 5 \(weekday\), "8": give a number from 0 to 7 or a name such as mon/],
    ["99 0 0 1 1 *", /field 1 \(second\), "99"/],
    ["0 99 0 1 1 *", /field 2 \(minute\), "99"/],
    ["0 0 0 1 1 nix", /field 6 \(weekday\), "nix"/],
    ["*/0 * * * *", /field 1 \(minute\), "\*\/0": a step is a whole number from 1 to 59/],
    ["0 */90 * * *", /field 2 \(hour\), "\*\/90": a step is a whole number from 1 to 23/],
    ["5/15 * * * *", /field 1 \(minute\), "5\/15": a step needs a range: write 5-59\/15/],
    ["1/2/3 * * * *", /field 1 \(minute\), "1\/2\/3": it has two steps/],
    ["1-2-3 * * * *", /field 1 \(minute\), "1-2-3": it has two ranges/],
    ["0 22-2 * * *", /field 2 \(hour\), "22-2": the range ends before it begins/],
    ["1,,2 * * * *", /field 1 \(minute\), "": an item of the list is empty/],
    ["-1 * * * *", /field 1 \(minute\), "-1"/],
    ["? * * * *", /field 1 \(minute\), "\?"/],
    ["0 0 15W * *", /field 3 \(day\), "15W"/],
    ["0 0 * * mon#6", /field 5 \(weekday\), "mon#6": a month has the first to the fifth/],
    ["0 0 * * 9#1", /field 5 \(weekday\), "9#1"/],
    ["* * * *", /has 4 fields; give 5 \(minute hour day month weekday\), or 6 with the second in front/],
    ["0 0 1 1 * * 2030", /has 7 fields/],
    ["", /has 0 fields/],
    ["@reboot", /"@reboot" is not one of @hourly/],
    [5, /must be a text such as/],
    ["0 0\n1 1 *", /has 4 fields/],
    ["٣ * * * *", /field 1 \(minute\)/],
    ["0x1 * * * *", /field 1 \(minute\)/],
    ["1e1 * * * *", /field 1 \(minute\)/],
    ["__proto__ * * * *", /field 1 \(minute\)/],
  ];

  test.each(refused)("%j is refused, and the message points at the field", (cron, message) => {
    expect(() => readScheduleRule({ cron }, 'Schedule "nightly"')).toThrow(message);
    expect(codeOf(() => readScheduleRule({ cron }, "schedule"))).toBe("invalid-schedule");
  });

  const never: [title: string, text: string][] = [
    ["30 February", "0 0 30 2 *"],
    ["31 April or June", "0 0 31 4,6 *"],
    ["31 September", "0 0 31 sep *"],
  ];

  test.each(never)("%s is refused, because it never comes", (_title, cron) => {
    expect(() => readScheduleRule({ cron }, 'Schedule "x"')).toThrow(
      /^Schedule "x" never fires: no such day comes/,
    );
  });
});

describe("hostile cron texts", () => {
  const tooLong: [title: string, text: string][] = [
    ["ten thousand fields", "* ".repeat(5000)],
    ["ten thousand items", `${"0,".repeat(5000)}0 * * * *`],
    ["ten thousand spaces", `0${" ".repeat(10_000)}x`],
  ];

  test.each(tooLong)("%s are refused for their length alone", (_title, cron) => {
    expect(() => readScheduleRule({ cron }, "schedule")).toThrow(/is longer than 256 characters/);
  });

  const full: [title: string, text: string, isRead: boolean][] = [
    ["a list that fills all the room there is", `${"0-59,".repeat(48)}0 * * * *`, true],
    ["steps that fill all the room there is", `${"*/1,".repeat(60)}0 * * * *`, true],
    ["dashes", `${"-".repeat(200)} * * * *`, false],
    ["slashes", `${"/".repeat(200)} * * * *`, false],
    ["hashes", `* * * * ${"1#1,".repeat(60)}1`, true],
  ];

  test.each(full)("%s are read, or refused with a sentence", (_title, cron, isRead) => {
    const read = (): unknown => readScheduleRule({ cron, zone: "Europe/Berlin" }, "schedule");
    if (isRead) expect(read).not.toThrow();
    else expect(read).toThrow(expect.objectContaining({ code: "invalid-schedule" }) as Error);
  });

  test("any text is either refused with a sentence or has a next tick", () => {
    const piece = fc.constantFrom(
      "*",
      "*/5",
      "1",
      "59",
      "L",
      "5L",
      "mon#2",
      "1-5",
      "?",
      "2,29",
      "jan",
      "-",
      "/",
      "#",
      "é",
    );
    const text = fc.oneof(
      fc.string({ maxLength: 300 }),
      fc.array(piece, { minLength: 5, maxLength: 6 }).map((pieces) => pieces.join(" ")),
      fc
        .array(
          fc.array(piece, { maxLength: 4 }).map((pieces) => pieces.join("")),
          { minLength: 5, maxLength: 6 },
        )
        .map((fields) => fields.join(" ")),
    );
    fc.assert(
      fc.property(text, (cron) => {
        try {
          const rule = readScheduleRule({ cron }, "schedule");
          expect(nextTick(rule, year.from)).toBeGreaterThan(year.from);
        } catch (error) {
          if (!isMillraceError(error)) throw error;
          expect(error.code).toBe("invalid-schedule");
        }
      }),
      { numRuns: 2000 },
    );
  });
});

function codeOf(call: () => unknown): string | undefined {
  try {
    call();
    return undefined;
  } catch (error) {
    return isMillraceError(error) ? error.code : String(error);
  }
}
